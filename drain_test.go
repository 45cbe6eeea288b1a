package peerage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

// traffic is callers at several nodes that ask without retries and count failures.
type traffic struct {
	quit chan struct{}
	wg   sync.WaitGroup

	mu     sync.Mutex
	asked  int
	failed []string
}

// load asks 30 counters in turn from each node, until stop.
func load(ms ...*member) *traffic {
	t := &traffic{quit: make(chan struct{})}
	for _, m := range ms {
		t.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-t.quit:
					return
				case <-time.After(time.Millisecond):
				}
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
				_, err := m.counters.Ask(ctx, fmt.Sprint("id", i%30), add{1})
				cancel()
				t.mu.Lock()
				t.asked++
				if err != nil {
					t.failed = append(t.failed, fmt.Sprintf("%s: %v", m.addr, err))
				}
				t.mu.Unlock()
			}
		})
	}
	return t
}

// stop ends the load and fails the test if anything failed.
func (t *traffic) stop(tb testing.TB) {
	tb.Helper()
	close(t.quit)
	t.wg.Wait()
	if t.asked < 50 {
		tb.Errorf("only %d asks: the load shows nothing", t.asked)
	}
	if len(t.failed) > 0 {
		tb.Errorf("%d of %d asks failed: %v", len(t.failed), t.asked, t.failed[:min(5, len(t.failed))])
	}
}

func page(n *peerage.Node, path string) (int, string) {
	w := httptest.NewRecorder()
	n.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.String()
}

func TestDrainKeepsTheProcess(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		out := c.nodes[0] // leader and coordinator
		l := load(c.nodes[1:]...)
		pass(100 * time.Millisecond)
		if _, err := out.ask("mine", 1); err != nil {
			t.Fatal(err)
		}
		if err := out.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		pass(100 * time.Millisecond)
		l.stop(t)
		c.ready(c.nodes[1:]...)
		if out.Ready() || !out.Draining() || out.View() != nil {
			t.Errorf("ready %v, draining %v, view %v after Drain", out.Ready(), out.Draining(), out.View())
		}
		if code, body := page(out.Node, "/readyz"); code != 503 || !strings.Contains(body, "draining") {
			t.Errorf("/readyz: %d %s", code, body)
		}
		if code, _ := page(out.Node, "/healthz"); code != 200 {
			t.Errorf("/healthz of a drained node: %d: it would be killed", code)
		}
		if _, err := out.counters.Ask(context.Background(), "x", add{1}); !errors.Is(err, sharding.ErrNodeStopping) {
			t.Errorf("ask at a drained node: %v", err)
		}
		if err := out.Drain(context.Background()); err != nil {
			t.Errorf("Drain again: %v", err)
		}
		if err := out.WaitReady(context.Background()); !errors.Is(err, peerage.ErrClosed) {
			t.Errorf("WaitReady at a drained node: %v", err)
		}
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		if err := c.nodes[1].Close(); err != nil {
			t.Error(err)
		}
		if err := c.nodes[1].Drain(context.Background()); !errors.Is(err, peerage.ErrClosed) {
			t.Errorf("Drain after Close: %v", err)
		}
	})
}

// The log of a drained node does not announce that it joins again.
func TestADrainedNodeLogsThatItStaysOut(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		var log logBook
		out := c.addWith(2, func(cfg *peerage.Config) { cfg.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, nil)
		c.ready(c.nodes...)
		if err := out.Drain(context.Background()); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if !log.has("level=INFO", "this incarnation has ended", "does not join again", "reason=left") || log.has("joins again") {
			t.Errorf("%s", log.buf.String())
		}
	})
}

// The context bounds the wait, not the drain.
func TestDrainContinuesWithoutItsCaller(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := c.nodes[1].Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Drain = %v", err)
		}
		c.until(10*time.Second, "the node has left", func() bool { return c.nodes[1].View() == nil })
		c.ready(c.nodes[0])
	})
}

func TestGracefulStopFailsNoAsk(t *testing.T) {
	for _, tc := range []struct {
		name        string
		nodes       int
		stop, serve []int
	}{
		{"the newest", 3, []int{2}, []int{0, 1}},
		{"the coordinator's", 3, []int{0}, []int{1, 2}},
		{"two at once", 4, []int{0, 2}, []int{1, 3}},
		{"all but the newest", 4, []int{0, 1, 2}, []int{3}},
		{"all but the oldest", 4, []int{1, 2, 3}, []int{0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, tc.nodes, func(c *cluster) {
				var stay []*member
				for _, i := range tc.serve {
					stay = append(stay, c.nodes[i])
				}
				l := load(stay...)
				pass(100 * time.Millisecond)
				var wg sync.WaitGroup
				begin := time.Now()
				for _, i := range tc.stop {
					wg.Go(func() {
						if err := c.nodes[i].Shutdown(context.Background()); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(begin); took > time.Second {
					t.Errorf("took %v of virtual time", took)
				}
				pass(100 * time.Millisecond)
				l.stop(t)
				c.ready(stay...)
			})
		})
	}
}

func TestAllDrainTogether(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := range 30 {
			if _, err := c.nodes[0].ask(fmt.Sprint("id", i), 1); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		begin := time.Now()
		for _, m := range c.nodes {
			wg.Go(func() {
				if err := m.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begin); took > time.Second {
			t.Errorf("took %v of virtual time", took)
		}
	})
}

// homes notes the nodes that answered, by entity.
type homes struct {
	mu   sync.Mutex
	seen map[string]map[gossip.NodeID]bool
}

func (h *homes) note(id string, node gossip.NodeID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[id] == nil {
		h.seen[id] = map[gossip.NodeID]bool{}
	}
	h.seen[id][node] = true
}

// Five nodes are replaced one by one under load: no ask fails, and no shard moves more than
// twice.
func TestRollingRestartUnderLoad(t *testing.T) {
	inBubble(t, 5, func(c *cluster) {
		old := slices.Clone(c.nodes)
		h := &homes{seen: map[string]map[gossip.NodeID]bool{}}
		watch := func(m *member) (stop func()) {
			l := load(m)
			quit, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ; i++ {
					select {
					case <-quit:
						return
					case <-time.After(time.Millisecond):
					}
					id := fmt.Sprint("id", i%30)
					if got, err := m.ask(id, 0); err != nil {
						t.Error(err)
					} else {
						h.note(id, got.Node)
					}
				}
			}()
			return func() { close(quit); <-done; l.stop(t) }
		}
		stops := make([]func(), len(old))
		for i, m := range old {
			stops[i] = watch(m)
		}
		pass(time.Second)
		for i, m := range old {
			next := c.addWith(5+i, nil, nil)
			if err := next.WaitReady(context.Background()); err != nil {
				t.Fatal(err)
			}
			stops = append(stops, watch(next))
			stops[i]()
			if err := m.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			pass(300 * time.Millisecond)
		}
		pass(5 * time.Second)
		for _, stop := range stops[len(old):] {
			stop()
		}
		for id, nodes := range h.seen {
			if moves := len(nodes) - 1; moves > 2 {
				t.Errorf("%s moved %d times: %v", id, moves, nodes)
			}
		}
		if len(h.seen) != 30 {
			t.Errorf("%d of 30 entities were seen", len(h.seen))
		}
	})
}

// Messages that a node has sent before it leaves arrive: none is lost in its queues.
func TestShutdownDeliversSentMessages(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		for i := range 30 {
			if _, err := c.nodes[0].ask(fmt.Sprint("id", i), 0); err != nil {
				t.Fatal(err)
			}
		}
		// A node that sends many messages just before its end.
		const each = 100
		for range each {
			for i := range 30 {
				if err := c.nodes[2].counters.Tell(context.Background(), fmt.Sprint("id", i), add{1}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.nodes[2].Shutdown(context.Background()); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		var handled uint64
		for _, m := range c.nodes {
			handled += m.counters.Stats().Handled
		}
		if want := uint64(30 + 30*each); handled != want {
			t.Errorf("%d of %d messages were handled", handled, want)
		}
	})
}

// A lame duck sends for its callers until load balancers have noticed.
func TestLameDuckServesItsCallers(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		out := c.addWith(2, func(c *peerage.Config) { c.LameDuck = 3 * time.Second }, nil)
		c.ready(c.nodes...)
		l := load(out)
		pass(100 * time.Millisecond)
		done := make(chan error)
		go func() { done <- out.Drain(context.Background()) }()
		c.until(time.Second, "readiness is gone", func() bool { code, _ := page(out.Node, "/readyz"); return code == 503 })
		c.until(time.Second, "the shards have moved", func() bool { return out.counters.Stats().Shards == 0 })
		pass(1500 * time.Millisecond)
		l.stop(t)
		begin := time.Now()
		if err := <-done; err != nil || time.Since(begin) < 100*time.Millisecond {
			t.Errorf("Drain ended %v after the load: %v", time.Since(begin), err)
		}
	})
}

// The update waits for each new node's readiness before it takes an old one: also when the
// new version adds a type that the coordinating old one does not have, and types that
// require more members than will ever join.
func TestReadinessCannotDeadLockARollingUpdate(t *testing.T) {
	inBubble(t, 3, func(c *cluster) {
		old := slices.Clone(c.nodes)
		var later []*sharding.Region[add, tally]
		newer := func(n *peerage.Node) {
			r, err := sharding.Register(n.Registry(), sharding.Type[add, tally]{
				Name: "new in this version", Shards: 4,
				New: func(string) sharding.Entity[add, tally] { return &counter{node: n} },
			})
			if err != nil {
				t.Fatal(err)
			}
			later = append(later, r)
			if _, err := sharding.Register(n.Registry(), sharding.Type[add, tally]{
				Name: "never enough members", MinMembers: 100,
				New: func(string) sharding.Entity[add, tally] { return &counter{node: n} },
			}); err != nil {
				t.Fatal(err)
			}
		}
		var now []*member
		for i, m := range old {
			next := c.addWith(3+i, nil, newer)
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			if err := next.WaitReady(ctx); err != nil {
				t.Fatalf("new node %d is not ready while old ones run: %v\n%+v", i, err, next.Status())
			}
			if _, err := later[i].Ask(ctx, "x", add{1}); err != nil {
				t.Errorf("the new type while old nodes run: %v", err)
			}
			if err := m.Shutdown(ctx); err != nil {
				t.Fatal(err)
			}
			cancel()
			now = append(now, next)
		}
		c.ready(now...)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := later[0].Ask(ctx, "x", add{1}); err != nil {
			t.Errorf("the new type after the update: %v", err)
		}
	})
}

// WaitReady and /readyz name the missing conditions.
func TestReadinessNamesTheReason(t *testing.T) {
	inBubble(t, 2, func(c *cluster) {
		register := func(name, role string, shards int) func(n *peerage.Node) {
			return func(n *peerage.Node) {
				if _, err := sharding.Register(n.Registry(), sharding.Type[add, tally]{
					Name: name, Role: role, Shards: shards,
					New: func(string) sharding.Entity[add, tally] { return &counter{node: n} },
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		register("odd", "", 8)(c.nodes[0].Node)
		register("odd", "", 8)(c.nodes[1].Node)
		next := c.addWith(2, nil, func(n *peerage.Node) {
			register("odd", "", 16)(n)
			register("nowhere", "moon", 16)(n)
		})
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := next.WaitReady(ctx)
		code, body := page(next.Node, "/readyz")
		for _, want := range []string{`type "nowhere": no member has its role, "moon"`, `the coordinator rejects type "odd": number of shards is 16 here, 8 there`} {
			if !errors.Is(err, context.DeadlineExceeded) || code != 503 || !strings.Contains(err.Error(), want) || !strings.Contains(body, want) {
				t.Errorf("want %s; WaitReady: %v; /readyz: %d %s", want, err, code, body)
			}
		}
		if code, body := page(next.Node, "/shards"); code != 400 || !strings.Contains(body, `"nowhere" "odd"`) {
			t.Errorf("/shards without a type: %d %s", code, body)
		}
	})
}
