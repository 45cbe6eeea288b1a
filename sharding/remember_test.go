package sharding

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// diary is a store of remembered entities that every node can reach, and that fails
// or dawdles when told to.
type diary struct {
	*memStore
	mu    sync.Mutex
	ids   map[ShardID]map[string]bool
	fails bool
	slow  time.Duration
}

var errDiary = errors.New("no paper")

func (d *diary) enter(ctx context.Context) error {
	d.mu.Lock()
	slow, fails := d.slow, d.fails
	d.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
		return ctx.Err()
	}
	if fails {
		return errDiary
	}
	return nil
}

func (d *diary) Remember(ctx context.Context, _ string, shard ShardID, add, remove []string) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ids == nil {
		d.ids = map[ShardID]map[string]bool{}
	}
	if d.ids[shard] == nil {
		d.ids[shard] = map[string]bool{}
	}
	for _, id := range add {
		d.ids[shard][id] = true
	}
	for _, id := range remove {
		delete(d.ids[shard], id)
	}
	return nil
}

func (d *diary) Remembered(ctx context.Context, _ string, shard ShardID) (ids []string, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.ids[shard] {
		ids = append(ids, id)
	}
	return ids, nil
}

func (d *diary) set(fails bool, slow time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails, d.slow = fails, slow
}

// sleeper lives until it is told to sleep.
type sleeper struct{ begun func() }

func (s *sleeper) OnStart(*Context) error { s.begun(); return nil }

func (s *sleeper) Handle(ctx *Context, req string) (string, error) {
	if req == "sleep" {
		ctx.Passivate()
	}
	return req, nil
}

// dreams is a cluster of nodes that remember their sleepers, and when each began.
type dreams struct {
	*cluster
	diary   *diary
	regions []*Region[string, string]
	mu      sync.Mutex
	begun   []time.Time
}

func newDreams(t *testing.T, nodes int, perSecond int) *dreams {
	d := &dreams{cluster: newCluster(t), diary: &diary{}}
	d.diary.memStore = d.store
	d.recordIn, d.perSecond = d.diary, perSecond
	for range nodes {
		d.join(t)
	}
	d.install(d.nodes...)
	return d
}

func (d *dreams) join(t *testing.T) *node {
	n := d.add("n")
	r, err := Register(n.reg, Type[string, string]{
		Name: "sleeper", Shards: 8, Remember: true,
		New: func(string) Entity[string, string] {
			return &sleeper{func() {
				d.mu.Lock()
				d.begun = append(d.begun, time.Now())
				d.mu.Unlock()
			}}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.regions = append(d.regions, r)
	n.start()
	return n
}

// since returns when instances began, from a moment on.
func (d *dreams) since(at time.Time) (all []time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.begun {
		if b.After(at) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, time.Time.Compare)
	return all
}

func (d *dreams) ask(t *testing.T, ids []string, req string) {
	t.Helper()
	for _, id := range ids {
		if _, err := d.regions[0].Ask(within(t, time.Minute), id, req, Retry()); err != nil {
			t.Fatal(err)
		}
	}
}

func (d *dreams) alive(regions ...*Region[string, string]) (n int) {
	for _, r := range regions {
		n += r.Stats().Entities
	}
	return n
}

// TestRememberedEntitiesComeBackWithoutAMessage: their homes crash and they run again,
// at the node's rate; those that passivated do not.
func TestRememberedEntitiesComeBackWithoutAMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 3, 20)
		ids := someIDs(90)
		d.ask(t, ids, "hello")
		d.ask(t, ids[:10], "sleep")
		pass(2 * time.Second) // written behind their backs
		if n := d.alive(d.regions...); n != 80 {
			t.Fatalf("%d live", n)
		}
		crash := time.Now()
		d.kill(d.nodes[2])
		d.kill(d.nodes[1])
		d.install(d.nodes[0])
		pass(10 * time.Second)
		if n := d.alive(d.regions[0]); n != 80 {
			t.Errorf("%d of 80 came back", n)
		}
		begun := d.since(crash)
		if len(begun) < 40 {
			t.Fatalf("%d began after the crash: the nodes that died hosted next to nothing", len(begun))
		}
		for i := 20; i < len(begun); i++ {
			if took := begun[i].Sub(begun[i-20]); took < 900*time.Millisecond {
				t.Fatalf("20 began within %v", took)
			}
		}
		if st := d.regions[0].Stats(); st.Remembered.Recalled < uint64(len(begun)) || st.Activated < 80 {
			t.Errorf("%+v", st.Remembered)
		}
	})
}

// TestRememberedEntitiesComeBackAfterAColdStart: all nodes end, others begin with what
// the store kept.
func TestRememberedEntitiesComeBackAfterAColdStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		d.ask(t, someIDs(50), "hello")
		pass(2 * time.Second)
		for _, n := range d.nodes {
			d.kill(n)
		}
		first := len(d.nodes)
		d.store.mu.Lock()
		d.store.shards = nil // what coordinators know is gone
		d.store.terms = nil
		d.store.mu.Unlock()
		d.join(t)
		d.join(t)
		d.install(d.nodes[first:]...)
		pass(10 * time.Second)
		if n := d.alive(d.regions[first:]...); n != 50 {
			t.Errorf("%d of 50 came back", n)
		}
	})
}

// TestShardsAreRecalledSideBySide: a store that takes a second to answer costs the node
// that takes all shards over about one, not one for each shard.
func TestShardsAreRecalledSideBySide(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 10_000)
		d.ask(t, someIDs(80), "hello")
		pass(2 * time.Second)
		d.diary.set(false, time.Second)
		begin := time.Now()
		d.kill(d.nodes[1])
		d.kill(d.nodes[0])
		d.install(d.join(t))
		for d.alive(d.regions[2]) < 80 {
			if took := time.Since(begin); took > 5*time.Second {
				t.Fatalf("%d of 80 are back after %v", d.alive(d.regions[2]), took)
			}
			pass(10 * time.Millisecond)
		}
		t.Logf("after %v", time.Since(begin))
	})
}

// TestASlowStoreHoldsNoEntityUp: what the store does not take waits and is merged; the
// entities serve on.
func TestASlowStoreHoldsNoEntityUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 1, 0)
		d.ask(t, someIDs(1), "hello")
		pass(time.Second)
		for _, trouble := range []struct {
			fails bool
			slow  time.Duration
		}{{true, 0}, {false, time.Hour}} {
			d.diary.set(trouble.fails, trouble.slow)
			begin := time.Now()
			ids := someIDs(40)
			for range 5 {
				d.ask(t, ids, "hello")
				d.ask(t, ids, "sleep")
			}
			if took := time.Since(begin); took > 0 {
				t.Errorf("asks took %v", took)
			}
			d.ask(t, ids, "hello")
			pass(5 * time.Second)
			st := d.regions[0].Stats()
			if st.Entities != 40 || st.Remembered.Failed == 0 || st.Remembered.Waiting > 40 || st.Remembered.Dropped != 0 {
				t.Errorf("%d live, %+v", st.Entities, st.Remembered)
			}
			d.diary.set(false, 0)
			pass(5 * time.Second)
			synctest.Wait()
			if st := d.regions[0].Stats(); st.Remembered.Waiting != 0 {
				t.Errorf("%+v", st.Remembered)
			}
			all := 0
			for _, ids := range d.diary.ids {
				all += len(ids)
			}
			if all != 40 {
				t.Errorf("%d of 40 are remembered", all)
			}
		}
	})
}

// TestMemoriesAreBounded: what finds no room is dropped, and news of what waits already
// is not.
func TestMemoriesAreBounded(t *testing.T) {
	m := newMemories()
	for _, id := range someIDs(dirtyMax) {
		if !m.note(1, id, true) {
			t.Fatal("no room")
		}
	}
	if m.note(1, "one more", true) || !m.note(1, "entity-7", false) || m.queued() != dirtyMax {
		t.Errorf("%d wait", m.queued())
	}
}

func TestRememberWantsNoOtherPassivation(t *testing.T) {
	ty := Type[string, string]{Name: "t", Remember: true, IdleTimeout: time.Second}
	if ty.Validate() == nil {
		t.Error("an idle time-out is taken")
	}
}

// A read that is made once more starts only what it finds anew: neither who runs, nor
// who wished to end while it was under way.
func TestSecondReadStartsOnlyWhatIsNew(t *testing.T) {
	m, token := newMemories(), Token{Seq: 1}
	m.beginRead(3)
	if got := m.learn(3, token, []string{"a", "b"}); !slices.Equal(got, []string{"a", "b"}) || m.news(3, token) {
		t.Fatalf("the first read starts %q", got)
	}
	m.doubt()
	if !m.news(3, token) {
		t.Fatal("a doubt is forgotten")
	}
	m.note(3, "b", false)
	for _, b := range m.take() {
		m.beginRead(3) // while it is being written
		m.written(b, true)
	}
	if got := m.learn(3, token, []string{"a", "b", "c"}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("the second read starts %q, want c", got)
	}
	m.doubt()
	m.beginRead(3)
	m.endRead(3)
	if !m.news(3, token) {
		t.Error("a read that failed is not made again")
	}
}
