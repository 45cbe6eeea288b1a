package sharding

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/residency"
)

// only is a singleton that says where it lives, how often one was started, and
// whether two lived at once.
type only struct {
	lives  *atomic.Int32
	starts *atomic.Int32
	twice  *atomic.Bool
	node   gossip.NodeID
	count  int
}

func (o *only) OnStart(ctx *Context) error {
	o.node = ctx.Self().Node
	o.starts.Add(1)
	if o.lives.Add(1) > 1 {
		o.twice.Store(true)
	}
	return nil
}

func (o *only) OnStop(*Context) { o.lives.Add(-1) }

func (o *only) Handle(ctx *Context, word string) (heard, error) {
	switch word {
	case "end":
		ctx.Passivate()
	case "panic":
		o.lives.Add(-1)
		panic("on demand")
	}
	o.count++
	return heard{Node: ctx.Self().Node, Count: o.count}, nil
}

func (o *only) Snapshot(*Context) ([]byte, error) { return []byte{byte(o.count)}, nil }
func (o *only) Restore(_ *Context, state []byte) error {
	o.count = int(state[0])
	return nil
}

// throne is a cluster with a singleton among the nodes of a role.
type throne struct {
	*cluster
	lives, starts atomic.Int32
	twice         atomic.Bool
	refs          []Ref[string, heard]
}

func newThrone(t *testing.T, roles ...string) *throne {
	th := &throne{cluster: newCluster(t)}
	for i, role := range roles {
		n := th.add("n"+string(rune('1'+i)), role)
		ref, err := RegisterSingleton(n.reg, Singleton[string, heard]{
			Name: "only", Role: "ruler",
			New: func() Entity[string, heard] { return &only{lives: &th.lives, starts: &th.starts, twice: &th.twice} },
		})
		if err != nil {
			t.Fatal(err)
		}
		th.refs = append(th.refs, ref)
		n.start()
	}
	th.install(th.nodes...)
	return th
}

// at asks from a node for the singleton's.
func (th *throne) at(t *testing.T, from int) heard {
	t.Helper()
	got, err := th.refs[from].Ask(within(t, 10*time.Second), "where", Retry())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSingletonLivesOnTheMostSeniorNodeOfItsRole(t *testing.T) {
	bubble(t, func(t *testing.T) {
		th := newThrone(t, "", "ruler", "ruler", "ruler")
		pass(2 * time.Second)
		if th.starts.Load() != 1 {
			t.Fatalf("%d starts without a message, want 1", th.starts.Load())
		}
		for i := range th.refs {
			if got := th.at(t, i); got.Node != 2 || got.Count != i+1 {
				t.Errorf("from node %d: %+v, want node 2", i+1, got)
			}
		}
		// Its node leaves: the state goes to the heir, and nobody lives twice.
		if err := th.nodes[1].s.Drain(within(t, 10*time.Second)); err != nil {
			t.Fatal(err)
		}
		th.install(th.nodes[0], th.nodes[2], th.nodes[3])
		if got := th.at(t, 0); got.Node != 3 || got.Count != 5 {
			t.Errorf("after the leave: %+v, want node 3 and count 5", got)
		}
		// Its node dies: the next one begins by itself, without a message.
		th.kill(th.nodes[2])
		th.lives.Store(0)
		before := th.starts.Load()
		th.install(th.nodes[0], th.nodes[3])
		pass(2 * time.Second)
		if th.starts.Load() != before+1 {
			t.Errorf("%d starts after the death, want %d", th.starts.Load(), before+1)
		}
		if got := th.at(t, 0); got.Node != 4 || got.Count != 1 {
			t.Errorf("after the death: %+v, want node 4 and count 1", got)
		}
		if th.twice.Load() {
			t.Error("it lived twice at once")
		}
	})
}

func TestSingletonIsStartedAgainWhenItEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		th := newThrone(t, "ruler", "ruler")
		th.at(t, 0)
		for _, end := range []string{"end", "panic"} {
			before := th.starts.Load()
			if _, err := th.refs[1].Ask(within(t, time.Second), end); end == "panic" != errors.Is(err, ErrPanicked) {
				t.Fatal(err)
			}
			pass(2 * time.Second)
			if n := th.starts.Load(); n != before+1 || th.lives.Load() != 1 {
				t.Errorf("after %s: %d starts, want %d; %d lives", end, n, before+1, th.lives.Load())
			}
		}
	})
}

func TestSingletonProxyOnly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var starts, lives atomic.Int32
		var twice atomic.Bool
		a, b := c.add("a"), c.add("b")
		proxy, err := RegisterSingleton(a.reg, Singleton[string, heard]{Name: "only"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := RegisterSingleton(b.reg, Singleton[string, heard]{
			Name: "only", New: func() Entity[string, heard] { return &only{lives: &lives, starts: &starts, twice: &twice} },
		}); err != nil {
			t.Fatal(err)
		}
		a.start()
		b.start()
		c.install(a, b)
		got, err := proxy.Ask(within(t, 5*time.Second), "where")
		if err != nil || got.Node != b.self.ID {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// A36: the three most senior of six crash at once.
func TestA36SingletonOutlivesTheThreeMostSenior(t *testing.T) {
	bubble(t, func(t *testing.T) {
		th := newThrone(t, "ruler", "ruler", "ruler", "ruler", "ruler", "ruler")
		th.at(t, 5)
		for _, n := range th.nodes[:3] {
			th.kill(n)
		}
		th.lives.Store(0)
		before := th.starts.Load()
		th.install(th.nodes[3:]...)
		pass(2 * time.Second)
		if n := th.starts.Load(); n != before+1 || th.twice.Load() {
			t.Errorf("%d starts after the crash, want one; twice at once: %v", n-before, th.twice.Load())
		}
		if got := th.at(t, 5); got.Node != 4 {
			t.Errorf("it lives on %v, want 4", got.Node)
		}
	})
}

// After akka #27487: several leave at once, and there are never two singletons.
func TestSingletonWhenSeveralLeaveAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		th := newThrone(t, "ruler", "ruler", "ruler", "ruler")
		th.at(t, 3)
		var leaving sync.WaitGroup
		for _, n := range th.nodes[:3] {
			leaving.Go(func() {
				if err := n.s.Drain(within(t, 20*time.Second)); err != nil {
					t.Error(err)
				}
			})
		}
		leaving.Wait()
		th.install(th.nodes[3])
		if got := th.at(t, 3); got.Node != 4 || got.Count != 2 || th.twice.Load() {
			t.Errorf("%+v, want node 4 and count 2; twice at once: %v", got, th.twice.Load())
		}
	})
}

// What a type may have a singleton may: an end that is bounded, and a state that outlives
// its node.
func TestSingletonWithStateAndStopTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var refs []Ref[int, heardCount]
		for i := range 3 {
			n := c.add("n" + string(rune('1'+i)))
			ref, err := RegisterSingleton(n.reg, Singleton[int, heardCount]{
				Name: "tally", StopTimeout: 2 * time.Second, State: Replicated{Replicas: 2},
				New: func() Entity[int, heardCount] { return &tally{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			refs = append(refs, ref)
			n.start()
		}
		c.install(c.nodes...)
		if got, err := refs[2].Ask(within(t, 10*time.Second), 41, Retry()); err != nil || got.Node != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		c.kill(c.nodes[0])
		c.install(c.nodes[1:]...)
		if got, err := refs[2].Ask(within(t, 10*time.Second), 1, Retry()); err != nil || got.Node != 2 || got.Count != 42 {
			t.Errorf("after its node died: %+v, %v, want node 2 and a count of 42", got, err)
		}
		if got := refs[2].region.typed.StopTimeout; got != 2*time.Second {
			t.Errorf("its stop may take %v", got)
		}
	})
}

// It does not wait for a tick when its shard begins.
func TestSingletonStartsWithItsShard(t *testing.T) {
	bubble(t, func(t *testing.T) {
		th := newThrone(t, "ruler", "ruler")
		pass(residency.CheckEvery / 5)
		if n := th.starts.Load(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}
