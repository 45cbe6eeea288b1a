package sharding

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
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
	// slowWrites is how long a write takes.
	slowWrites time.Duration
}

var errDiary = errors.New("no paper")

func (d *diary) enter(ctx context.Context) error {
	d.mu.Lock()
	slow, fails := d.slow, d.fails
	d.mu.Unlock()
	if slow > 0 { // see pass
		select {
		case <-time.After(slow):
		case <-ctx.Done():
			return ctx.Err()
		}
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
	slow := d.slowWrites
	d.mu.Unlock()
	pass(slow)
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
type sleeper struct{ begun func() error }

func (s *sleeper) OnStart(*Context) error { return s.begun() }

func (s *sleeper) Handle(ctx *Context, req string) (string, error) {
	switch req {
	case "sleep":
		ctx.Passivate()
	case "panic":
		panic("a bad dream")
	}
	return req, nil
}

// dreams is a cluster of nodes that remember their sleepers, and when each began.
type dreams struct {
	*cluster
	diary   *diary
	regions []*Region[string, string]
	// shards and shardOf are those of the nodes that join from now on.
	shards  int
	shardOf func(string) ShardID
	mu      sync.Mutex
	begun   []time.Time
	// fails: none can begin; tries counts those that did or tried to.
	fails atomic.Bool
	tries atomic.Uint64
}

func newDreams(t *testing.T, nodes int, perSecond int) *dreams {
	return newDreamsOf(t, nodes, perSecond, 8)
}

func newDreamsOf(t *testing.T, nodes, perSecond, shards int) *dreams {
	d := &dreams{cluster: newCluster(t), diary: &diary{}, shards: shards}
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
		Name: "sleeper", Shards: d.shards, ShardOf: d.shardOf, Remember: true,
		New: func(string) Entity[string, string] {
			return &sleeper{func() error {
				d.tries.Add(1)
				if d.fails.Load() {
					return errors.New("no sleep")
				}
				d.mu.Lock()
				d.begun = append(d.begun, time.Now())
				d.mu.Unlock()
				return nil
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

// TestRememberedEntitiesOutliveTheirPanics: one that a panic ended lives again within a
// moment, without a message, and so does one that could not begin; one that has wished to
// end does not. Nobody spins: each is started twice in a second at most.
func TestRememberedEntitiesOutliveTheirPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		ids := someIDs(20)
		d.ask(t, ids, "hello")
		pass(2 * time.Second)
		d.ask(t, ids[:5], "sleep")
		for _, id := range ids[5:] {
			if _, err := d.regions[0].Ask(within(t, time.Second), id, "panic"); !errors.Is(err, ErrPanicked) {
				t.Fatal(err)
			}
		}
		pass(2 * time.Second)
		if n := d.alive(d.regions...); n != 15 {
			t.Errorf("%d of 15 live again", n)
		}
		if n := d.regions[0].Stats().Remembered.Recalled + d.regions[1].Stats().Remembered.Recalled; n != 15 {
			t.Errorf("%d starts counted as recalled", n)
		}
		d.fails.Store(true)
		begun, from := d.tries.Load(), time.Now()
		for _, id := range ids[5:] {
			_, _ = d.regions[0].Ask(within(t, time.Second), id, "panic")
		}
		pass(10 * time.Second)
		if n := d.tries.Load() - begun; n < 15*10 || n > 15*uint64(2*time.Since(from)/time.Second+1) {
			t.Errorf("%d starts were tried in %v", n, time.Since(from))
		}
		d.fails.Store(false)
		pass(2 * time.Second)
		if n := d.alive(d.regions...); n != 15 {
			t.Errorf("%d of 15 live again, now that they can", n)
		}
	})
}

// TestA30TenThousandPerShardComeBackAtTheirRate (A30): a node with 10,000 entities in
// each of its shards crashes. All come back without a message, no faster than the rate,
// and meanwhile others are served at once: those that never went, those that are back,
// and those that are not yet.
func TestA30TenThousandPerShardComeBackAtTheirRate(t *testing.T) {
	const perSecond, perShard = 500, 10_000
	bubble(t, func(t *testing.T) {
		d := newDreamsOf(t, 2, perSecond, 2)
		ids := d.idsPerShard(perShard)
		d.ask(t, ids, "hello")
		pass(5 * time.Second) // written behind their backs
		lost := d.regions[1].Stats().Entities
		if all := d.alive(d.regions...); all != 2*perShard || lost != perShard {
			t.Fatalf("%d live, %d of them where the crash is to be", all, lost)
		}
		crash := time.Now()
		d.kill(d.nodes[1])
		d.install(d.nodes[0])
		d.servedMeanwhile(t, ids, crash.Add(perShard/perSecond*time.Second/2))
		if n := d.alive(d.regions[0]); n < perShard+perShard/3 || n > perShard*7/4 {
			t.Errorf("%d live at half time", n)
		}
		pass(perShard/perSecond*time.Second + 5*time.Second)
		if n := d.alive(d.regions[0]); n != 2*perShard {
			t.Errorf("%d of %d live in the end", n, 2*perShard)
		}
		begun := d.since(crash)
		for i := perSecond + perSecond/5; i < len(begun); i++ {
			// A fifth more: the probes' own, which are started by their messages.
			if took := begun[i].Sub(begun[i-perSecond-perSecond/5]); took < time.Second {
				t.Fatalf("%d began within %v", perSecond+perSecond/5, took)
			}
		}
	})
}

// idsPerShard returns n ids of each shard, those of all shards in turn.
func (d *dreams) idsPerShard(n int) (ids []string) {
	have := map[ShardID]int{}
	for i := 0; len(ids) < n*d.shards; i++ {
		id := fmt.Sprint("e", i)
		if s := d.regions[0].ShardOf(id); have[s] < n {
			have[s]++
			ids = append(ids, id)
		}
	}
	return ids
}

// servedMeanwhile asks some entities until a moment, and wants each answer at once.
func (d *dreams) servedMeanwhile(t *testing.T, ids []string, until time.Time) {
	pass(time.Second) // the crash is known
	for i := 0; time.Now().Before(until); i += 97 {
		begin := time.Now()
		d.ask(t, ids[i%len(ids):][:1], "hello")
		if took := time.Since(begin); took > 50*time.Millisecond {
			t.Errorf("%s is served after %v", ids[i%len(ids)], took)
		}
		pass(50 * time.Millisecond)
	}
}

// TestRememberedEntitiesStartInTheirNewShardOnly (A33, akka #22289): after a stop of
// all, the application maps ids to other shards. Ids that the store keeps under the old
// shards start nothing there: each entity runs once, where it belongs, without a
// message, is remembered there, and forgotten where it was.
func TestRememberedEntitiesStartInTheirNewShardOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := newDreams(t, 2, 0)
		ids := someIDs(60)
		d.ask(t, ids, "hello")
		pass(2 * time.Second)
		was := d.regions[0]
		d.shards = 11
		d.restart(t)
		pass(5 * time.Second)
		stay := 0
		for _, id := range ids {
			stay += map[bool]int{true: 1}[was.ShardOf(id) == d.regions[0].ShardOf(id)]
		}
		if n := d.alive(d.regions...); stay == 0 || stay == len(ids) || n != len(ids) {
			t.Errorf("%d of %d began by themselves, %d are of the shard they were of", n, len(ids), stay)
		}
		d.checkStore(t)
		d.ask(t, ids, "hello")
		if n := d.alive(d.regions...); n != len(ids) {
			t.Errorf("%d live, of %d ids", n, len(ids))
		}
		d.restart(t)
		pass(5 * time.Second)
		if n := d.alive(d.regions...); n != len(ids) {
			t.Errorf("%d of %d came back to their new shards", n, len(ids))
		}
	})
}

// restart ends all nodes and starts two others, which know of the entities only.
func (d *dreams) restart(t *testing.T) {
	for _, n := range d.nodes {
		if !n.dead.Load() {
			d.kill(n)
		}
	}
	first := len(d.nodes)
	d.store.mu.Lock()
	d.store.shards, d.store.terms = nil, nil
	d.store.mu.Unlock()
	d.regions = nil
	d.join(t)
	d.join(t)
	d.install(d.nodes[first:]...)
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

func TestRememberWantsNoOtherPassivation(t *testing.T) {
	ty := Type[string, string]{Name: "t", Remember: true, IdleTimeout: time.Second}
	if ty.Validate() == nil {
		t.Error("an idle time-out is taken")
	}
}
