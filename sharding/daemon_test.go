package sharding

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/delivery/endpoint"
	"github.com/peerage-go/peerage/replicator"
)

// planBook is the plans of a memStore, with the fence of the real one.
type planBook struct {
	mu       sync.Mutex
	state    daemon.State
	fence    gossip.Epoch
	watchers []func(daemon.State)
	// cut are nodes whose acknowledgements do not arrive.
	cut map[gossip.NodeID]bool
	// late is how long after a change the nodes hear of it.
	late time.Duration
}

// cutStore keeps a node's acknowledgements from arriving.
func (c *cluster) cutStore(node gossip.NodeID, cut bool) {
	c.store.plans.mu.Lock()
	defer c.store.plans.mu.Unlock()
	c.store.plans.cut = map[gossip.NodeID]bool{node: cut}
}

func (b *planBook) copy() daemon.State {
	s := b.state
	s.Acked = maps.Clone(s.Acked)
	return s
}

func (b *planBook) change(fn func(*daemon.State)) {
	b.mu.Lock()
	if b.state.Acked == nil {
		b.state.Acked = map[gossip.NodeID]daemon.Ack{}
	}
	fn(&b.state)
	s, watchers := b.copy(), slices.Clone(b.watchers)
	tell := func() {
		for _, fn := range watchers {
			fn(s)
		}
	}
	if late := b.late; late > 0 {
		b.mu.Unlock()
		time.AfterFunc(late, tell)
		return
	}
	b.mu.Unlock()
	tell()
}

func (m *memStore) ReadPlan(_ context.Context, _ string, term gossip.Epoch) (daemon.State, error) {
	m.plans.mu.Lock()
	defer m.plans.mu.Unlock()
	m.plans.fence = max(m.plans.fence, term)
	return m.plans.copy(), nil
}

func (m *memStore) WritePlan(_ context.Context, _ string, term gossip.Epoch, p daemon.Plan, gone []gossip.NodeID) (err error) {
	m.plans.change(func(s *daemon.State) {
		if term < m.plans.fence {
			err = &replicator.Error{Code: replicator.ErrFenced, Fence: replicator.Fence{Term: uint64(term)}, Higher: uint64(m.plans.fence)}
			return
		}
		s.Plan = p
		for _, n := range gone {
			delete(s.Acked, n)
		}
	})
	return err
}

func (m *memStore) RequestWorkers(_ context.Context, _ string, workers int) error {
	m.plans.change(func(s *daemon.State) { s.Wish = workers })
	return nil
}

func (m *memStore) AckPlan(_ context.Context, _ string, node gossip.NodeID, a daemon.Ack) error {
	m.plans.mu.Lock()
	cut := m.plans.cut[node]
	m.plans.mu.Unlock()
	if cut {
		return replicator.ErrOutcomeUnknown
	}
	m.plans.change(func(s *daemon.State) {
		if old := s.Acked[node]; old.Rev.Compare(a.Rev) <= 0 {
			s.Acked[node] = a
		}
	})
	return nil
}

func (m *memStore) WatchPlan(_ string, fn func(daemon.State)) (cancel func()) {
	m.plans.mu.Lock()
	defer m.plans.mu.Unlock()
	m.plans.watchers = append(m.plans.watchers, fn)
	fn(m.plans.copy())
	return func() {}
}

// crew notes which workers live, where, and of how many they were told to be.
type crew struct {
	mu    sync.Mutex
	lives map[int]hand
	wrong []string
}

type hand struct {
	of   int
	node gossip.NodeID
}

// toiler is a worker of a crew.
type toiler struct {
	crew   *crew
	n, of  int
	serves int
}

func (w *toiler) OnStart(ctx *Context) error {
	w.crew.mu.Lock()
	defer w.crew.mu.Unlock()
	for n, other := range w.crew.lives { // order-free: all are compared
		if n == w.n || other.of != w.of {
			w.crew.wrong = append(w.crew.wrong, fmt.Sprintf("%d of %d starts on %v while %d of %d runs on %v", w.n, w.of, ctx.Self().Node, n, other.of, other.node))
		}
	}
	w.crew.lives[w.n] = hand{w.of, ctx.Self().Node}
	return nil
}

func (w *toiler) OnStop(*Context) {
	w.crew.mu.Lock()
	defer w.crew.mu.Unlock()
	delete(w.crew.lives, w.n)
}

func (w *toiler) Handle(ctx *Context, what string) (string, error) {
	switch what {
	case "end":
		ctx.Passivate()
	case "stick":
		<-ctx.Done()
		w.OnStop(ctx)
	}
	w.serves++
	return fmt.Sprintf("%d of %d, %d served", w.n, w.of, w.serves), nil
}

// shop is a cluster with a daemon.
type shop struct {
	*cluster
	crew    *crew
	daemons []*RunningDaemon[string, string]
}

func newShop(t *testing.T, nodes, workers int) *shop {
	s := &shop{cluster: newCluster(t), crew: &crew{lives: map[int]hand{}}}
	for i := range nodes {
		s.hire(t, fmt.Sprintf("n%d", i+1), workers)
	}
	s.install(s.nodes...)
	return s
}

func (s *shop) hire(t *testing.T, name string, workers int) {
	n := s.add(name)
	d, err := RegisterDaemon(n.reg, Daemon[string, string]{
		Name: "crew", Workers: workers, MaxWorkers: 12,
		New: func(n, of int) Entity[string, string] { return &toiler{crew: s.crew, n: n, of: of} },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.daemons = append(s.daemons, d)
	n.start()
}

// check asserts that exactly the workers of a number run, and how they are spread.
func (s *shop) check(t *testing.T, when string, of, most int) {
	t.Helper()
	s.crew.mu.Lock()
	defer s.crew.mu.Unlock()
	for _, w := range s.crew.wrong {
		t.Errorf("%s: %s", when, w)
	}
	perNode := map[gossip.NodeID]int{}
	for n, h := range s.crew.lives { // order-free: each is checked by itself
		perNode[h.node]++
		if h.of != of || n >= of {
			t.Errorf("%s: worker %d of %d lives, want those of %d", when, n, h.of, of)
		}
	}
	if len(s.crew.lives) != of {
		t.Errorf("%s: %d workers live, want %d", when, len(s.crew.lives), of)
	}
	for node, n := range perNode { // order-free: each is checked by itself
		if n > most {
			t.Errorf("%s: %d workers on %v, want at most %d", when, n, node, most)
		}
	}
}

func TestDaemonKeepsItsWorkersAliveAndSpread(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 3, 6)
		pass(3 * time.Second)
		s.check(t, "at the beginning", 6, 2)
		for i, d := range s.daemons {
			got, err := d.Worker(4).Ask(within(t, time.Second), "hello")
			if want := fmt.Sprintf("4 of 6, %d served", i+1); err != nil || got != want || d.Workers() != 6 {
				t.Errorf("from node %d: %q, %v; %d workers", i+1, got, err, d.Workers())
			}
		}
		if _, err := s.daemons[0].Worker(5).Ask(within(t, time.Second), "end"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		s.check(t, "after one ended by itself", 6, 2)

		dead := s.nodes[2]
		s.crew.mu.Lock()
		maps.DeleteFunc(s.crew.lives, func(_ int, h hand) bool { return h.node == dead.self.ID })
		s.crew.mu.Unlock()
		s.kill(dead)
		s.install(s.nodes[:2]...)
		pass(2 * time.Second)
		s.check(t, "after a node died", 6, 3)
	})
}

func TestDaemonScalesWithoutTwoNumbersAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 3, 3)
		pass(2 * time.Second)
		for i, n := range []int{7, 12, 2, 5} {
			by := s.daemons[i%len(s.daemons)]
			if err := by.Scale(within(t, 10*time.Second), n); err != nil {
				t.Fatal(err)
			}
			pass(2 * time.Second)
			s.check(t, fmt.Sprint("after scaling to ", n), n, n)
		}
		_, err := s.daemons[0].Worker(5).Ask(within(t, time.Second), "hello")
		if !errors.Is(err, ErrNoWorker) || !Retryable(err) || OutcomeUnknown(err) {
			t.Errorf("worker 5 of 5: %v", err)
		}
		if _, err := s.daemons[0].Worker(12).Ask(within(t, time.Second), "hello"); !errors.Is(err, ErrNoShard) {
			t.Errorf("worker 12 of at most 12: %v", err)
		}
		for _, n := range []int{0, 13} {
			if wrong := new(TypeError); !errors.As(s.daemons[0].Scale(context.Background(), n), &wrong) {
				t.Errorf("Scale(%d) was taken", n)
			}
		}
		for i, d := range s.daemons {
			if n := d.Stats().Dropped[DropHandlerError]; n != 0 {
				t.Errorf("node %d tried to start %d workers that are not to run", i+1, n)
			}
		}
		// A node that comes later finds the number that counts, not its own.
		s.hire(t, "late", 3)
		s.install(s.nodes...)
		pass(10 * time.Second)
		s.check(t, "after a node came", 5, 5)
	})
}

// The node in office dies in the middle of a change: its successor ends it.
func TestDaemonScalingOutlivesItsCoordinator(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 3, 4)
		pass(2 * time.Second)
		// Cut off, the second node does not acknowledge: the change hangs.
		s.cutStore(s.nodes[1].self.ID, true)
		failed := s.daemons[2].Scale(within(t, time.Second), 6)
		if !errors.Is(failed, context.DeadlineExceeded) {
			t.Fatalf("scaled although a node did not answer: %v", failed)
		}
		dead := s.nodes[0]
		s.kill(dead)
		s.install(s.nodes[1:]...)
		s.cutStore(s.nodes[1].self.ID, false)
		pass(5 * time.Second)
		s.crew.mu.Lock()
		maps.DeleteFunc(s.crew.lives, func(_ int, h hand) bool { return h.node == dead.self.ID })
		s.crew.mu.Unlock()
		s.check(t, "after the coordinator died", 6, 6)
	})
}

func TestDaemonThatIsWrongIsRefused(t *testing.T) {
	_, err := RegisterDaemon(&Registry{}, Daemon[string, string]{Name: "d", Workers: -1, MaxWorkers: -5})
	wrong := new(TypeError)
	if !errors.As(err, &wrong) || len(wrong.Wrong) != 3 {
		t.Errorf("%v", err)
	}
	if err := (&Daemon[string, string]{New: func(int, int) Entity[string, string] { return nil }}).Validate(); err == nil {
		t.Error("no workers at all are taken")
	}
	for id, want := range map[string]ShardID{"0": 0, "11": 11, "01": endpoint.NoShard, "-1": endpoint.NoShard, "x": endpoint.NoShard, "70000": endpoint.NoShard} { // order-free: a table
		if got := workerShard(id); got != want {
			t.Errorf("worker %q is of shard %d", id, got)
		}
	}
}

// Scale must not take the time before this node hears of its own wish for the time
// after somebody else's.
func TestDaemonScaleWaitsForItsOwnWish(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 2, 3)
		pass(2 * time.Second)
		s.store.plans.mu.Lock()
		s.store.plans.late = time.Second
		s.store.plans.mu.Unlock()
		if err := s.daemons[1].Scale(within(t, 10*time.Second), 4); err != nil || s.daemons[1].Workers() != 4 {
			t.Errorf("Scale: %v, %d workers", err, s.daemons[1].Workers())
		}
	})
}

// A worker whose handler does not return holds a change up for StopTimeout, no longer.
func TestDaemonScaleAbandonsAWorkerThatDoesNotEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 2, 3)
		pass(2 * time.Second)
		if err := s.daemons[0].Worker(1).Tell(context.Background(), "stick"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second) // it is stuck
		begin := time.Now()
		if err := s.daemons[0].Scale(within(t, time.Minute), 4); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < DefaultStopTimeout || took > DefaultStopTimeout+2*time.Second {
			t.Errorf("Scale took %v", took)
		}
		pass(2 * time.Second)
		s.check(t, "after one was stuck", 4, 4)
		if n := s.daemons[0].Stats().Forced + s.daemons[1].Stats().Forced; n != 1 {
			t.Errorf("%d are counted as forced", n)
		}
	})
}

// Nobody waits for a change at a node that is closed.
func TestDaemonScaleEndsWithItsNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 2, 3)
		pass(2 * time.Second)
		s.cutStore(s.nodes[1].self.ID, true) // the change hangs
		ended := make(chan error, 1)
		go func() { ended <- s.daemons[0].Scale(context.Background(), 4) }()
		pass(5 * time.Second)
		s.nodes[0].reg.Close()
		pass(time.Second)
		select {
		case err := <-ended:
			if !errors.Is(err, ErrNodeStopping) {
				t.Errorf("Scale: %v", err)
			}
		default:
			t.Error("Scale goes on")
			s.cutStore(s.nodes[1].self.ID, false)
		}
	})
}

// What is spread are workers. The shards of those that ran before count for nothing.
func TestDaemonSpreadsWorkersNotShards(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newShop(t, 2, 12)
		pass(2 * time.Second)
		if err := s.daemons[0].Scale(within(t, 10*time.Second), 4); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		s.check(t, "on two nodes", 4, 2)
		s.hire(t, "n3", 12)
		s.install(s.nodes...)
		pass(time.Minute)
		s.check(t, "on three nodes", 4, 2)
		s.crew.mu.Lock()
		defer s.crew.mu.Unlock()
		at := map[gossip.NodeID]bool{}
		for _, h := range s.crew.lives { // order-free: a set
			at[h.node] = true
		}
		if len(at) != 3 {
			t.Errorf("four workers are on %d of three nodes", len(at))
		}
	})
}

// hasty is a planBook in which another wish is made between the read that shows that all
// have stopped, and the write that follows.
type hasty struct {
	*memStore
	once sync.Once
}

func (h *hasty) ReadPlan(ctx context.Context, typ string, term gossip.Epoch) (daemon.State, error) {
	s, err := h.memStore.ReadPlan(ctx, typ, term)
	if term != 0 && s.Wish == 5 && !s.Plan.Running && s.Acked[1].Rev == s.Plan.Rev {
		h.once.Do(func() { err = h.RequestWorkers(ctx, typ, 7) })
	}
	return s, err
}

// A wish that is made while a plan is being written is not forgotten.
func TestDaemonHearsAWishDuringAWrite(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &shop{cluster: newCluster(t), crew: &crew{lives: map[int]hand{}}}
		s.recordIn = &hasty{memStore: s.store}
		s.hire(t, "n1", 3)
		s.install(s.nodes...)
		pass(2 * time.Second)
		if err := s.daemons[0].Scale(within(t, 10*time.Second), 5); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		s.check(t, "after two wishes", 7, 7)
	})
}
