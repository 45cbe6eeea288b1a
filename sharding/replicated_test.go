package sharding

import (
	"context"
	"errors"
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/internal/wire"
)

// keepers starts n nodes with counters whose state is replicated.
func keepers(t testing.TB, c *cluster, n int, set Replicated) []*Region[int, heardCount] {
	var out []*Region[int, heardCount]
	for range n {
		out = append(out, c.keeping(set))
	}
	c.install(c.nodes...)
	return out
}

func (c *cluster) keeping(set Replicated) *Region[int, heardCount] {
	n := c.add(fmt.Sprint("n", len(c.nodes)+1))
	r, err := Register(n.reg, Type[int, heardCount]{
		Name: "tally", Shards: 8, RebalanceInterval: 100 * time.Millisecond, State: set,
		New: func(string) Entity[int, heardCount] { return &tally{} },
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.start()
	return r
}

// crash kills a node, and takes it out of the view a little later.
func (c *cluster) crash(nodes ...*node) {
	for _, n := range nodes {
		c.kill(n)
	}
	pass(50 * time.Millisecond)
	for _, n := range nodes {
		n.s.Abandoned()
	}
	c.install(c.living()...)
}

func (c *cluster) living() []*node {
	var live []*node
	for _, n := range c.nodes {
		if !n.dead.Load() {
			live = append(live, n)
		}
	}
	return live
}

// counting counts up entities from everywhere until it is stopped.
type counting struct {
	ids         int
	acked, sent []atomic.Int64
	// unknown counts asks that may have counted though they failed.
	stop chan struct{}
	work sync.WaitGroup
	fail atomic.Pointer[string]
}

func countUp(ids, senders int, regions func() []*Region[int, heardCount]) *counting {
	l := &counting{ids: ids, acked: make([]atomic.Int64, ids), sent: make([]atomic.Int64, ids), stop: make(chan struct{})}
	for g := range senders {
		l.work.Go(func() {
			for i := g; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				rs := regions()
				l.once(rs[i%len(rs)], i%ids)
				pass(time.Millisecond)
			}
		})
	}
	return l
}

// once asks for one increment. The answer must not be lower than one that was acknowledged
// before.
func (l *counting) once(r *Region[int, heardCount], id int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	before := l.acked[id].Load()
	l.sent[id].Add(1)
	got, err := r.Ref(fmt.Sprint("e", id)).Ask(ctx, 1)
	if err != nil {
		return
	}
	if int64(got.Count) <= before {
		why := fmt.Sprintf("e%d counts %d at node %d, and %d were acknowledged before", id, got.Count, got.Node, before)
		l.fail.CompareAndSwap(nil, &why)
	}
	l.acked[id].Add(1)
}

// end stops the load and compares.
func (l *counting) end(t *testing.T, r *Region[int, heardCount]) (total int) {
	t.Helper()
	close(l.stop)
	l.work.Wait()
	if why := l.fail.Load(); why != nil {
		t.Error(*why)
	}
	for id := range l.ids {
		got, err := r.Ref(fmt.Sprint("e", id)).Ask(within(t, 20*time.Second), 0)
		if err != nil {
			t.Fatal(err)
		}
		acked, sent := l.acked[id].Load(), l.sent[id].Load()
		if int64(got.Count) < acked || int64(got.Count) > sent {
			t.Errorf("e%d counts %d: %d were acknowledged, %d sent", id, got.Count, acked, sent)
		}
		total += int(acked)
	}
	return total
}

func (c *cluster) regionsOf(all []*Region[int, heardCount]) func() []*Region[int, heardCount] {
	return func() []*Region[int, heardCount] {
		var live []*Region[int, heardCount]
		for i, n := range c.nodes[:len(all)] {
			if !n.dead.Load() {
				live = append(live, all[i])
			}
		}
		return live
	}
}

func (c *cluster) sum(f func(Stats) uint64) (n uint64) {
	for _, nd := range c.nodes {
		s, _ := nd.reg.Stats("tally")
		n += f(s)
	}
	return n
}

// Every acknowledged increment survives the crash of any one node, under load: and
// of the next one, once the cluster has healed.
func TestReplicatedStateSurvivesCrashes(t *testing.T) {
	for first := range 4 {
		t.Run(fmt.Sprint("n", first+1), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t)
				c.delay = time.Millisecond
				regions := keepers(t, c, 5, Replicated{Replicas: 3})
				load := countUp(20, 8, c.regionsOf(regions))
				pass(time.Second)
				c.crash(c.nodes[first])
				pass(3 * time.Second)
				c.crash(c.nodes[(first+2)%5])
				pass(3 * time.Second)
				total := load.end(t, regions[(first+1)%5])
				if total < 1000 {
					t.Errorf("only %d increments were acknowledged", total)
				}
				if n := c.sum(func(s Stats) uint64 { return s.StateLosses }); n != 0 {
					t.Errorf("%d shards say that they may have lost state", n)
				}
			})
		})
	}
}

// part lets nodes talk to each other only, until the others take them out of the
// view: their leases end first.
func (c *cluster) part(nodes ...*node) {
	c.mu.Lock()
	for _, n := range nodes {
		for _, o := range c.nodes {
			if !slices.Contains(nodes, o) {
				c.cuts[[2]gossip.NodeID{n.self.ID, o.self.ID}] = true
				c.cuts[[2]gossip.NodeID{o.self.ID, n.self.ID}] = true
			}
		}
	}
	c.mu.Unlock()
	pass(100 * time.Millisecond)
	for _, n := range nodes {
		n.setLease(false)
	}
	pass(50 * time.Millisecond)
	for _, n := range nodes {
		n.s.Abandoned()
	}
	var rest []*node
	for _, o := range c.nodes {
		if !slices.Contains(nodes, o) {
			for _, n := range nodes {
				o.s.PeerLost(n.self.ID, transport.Message)
			}
			rest = append(rest, o)
		}
	}
	c.install(rest...)
}

// Two nodes are cut off together. With a copy everywhere nothing is lost; with three
// copies two may have been on the wrong side, and then the new home says so.
func TestReplicatedStateAndAPartition(t *testing.T) {
	for _, replicas := range []int{ReplicasAll, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t)
				c.delay = time.Millisecond
				regions := keepers(t, c, 5, Replicated{Replicas: replicas})
				load := countUp(40, 60, func() []*Region[int, heardCount] { return regions })
				pass(time.Second)
				c.part(c.nodes[1], c.nodes[3])
				pass(100 * time.Millisecond)
				close(load.stop)
				load.work.Wait()
				lost := 0
				for id := range load.ids {
					got, err := regions[0].Ref(fmt.Sprint("e", id)).Ask(within(t, 20*time.Second), 0)
					if err != nil {
						t.Fatal(err)
					}
					if int64(got.Count) < load.acked[id].Load() {
						lost++
					}
				}
				said := c.sum(func(s Stats) uint64 { return s.StateLosses })
				if replicas == ReplicasAll && (lost > 0 || said > 0) {
					t.Errorf("%d counters went back, %d shards say so", lost, said)
				}
				// Whether a counter goes back depends on what was under way at the cut.
				if replicas == 3 && said == 0 {
					t.Errorf("%d counters went back, and no shard says so", lost)
				}
			})
		})
	}
}

// Nodes come, and go in order, under load: nothing is lost, nothing fails.
func TestReplicatedStateMovesUnderLoad(t *testing.T) {
	for _, mode := range []StateMode{Quorum, Async} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := newCluster(t)
				c.delay = time.Millisecond
				set := Replicated{Replicas: 3, Mode: mode}
				regions := keepers(t, c, 3, set)
				load := countUp(20, 8, func() []*Region[int, heardCount] { return regions })
				pass(time.Second)
				c.keeping(set)
				c.keeping(set)
				c.install(c.nodes...)
				pass(3 * time.Second)
				if err := c.nodes[0].s.Drain(within(t, 20*time.Second)); err != nil {
					t.Error(err)
				}
				c.install(c.nodes[1:]...)
				c.crash(c.nodes[0])
				pass(time.Second)
				load.end(t, regions[1])
				if n := c.sum(func(s Stats) uint64 { return s.StateLosses + s.StatesLost }); n != 0 {
					t.Errorf("%d losses", n)
				}
				if n := c.sum(func(s Stats) uint64 { return s.HandoffsOut }); n == 0 {
					t.Error("nothing moved")
				}
			})
		})
	}
}

// A home that reaches no standby gives no answer that may be forgotten: the asker is
// told that the outcome is unknown, later askers wait too, and once the standbys
// answer all is kept.
func TestReplicatedStateWithoutItsQuorum(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		regions := keepers(t, c, 3, Replicated{Replicas: 3, Timeout: 500 * time.Millisecond})
		first, err := regions[0].Ref("x").Ask(within(t, 10*time.Second), 1)
		if err != nil {
			t.Fatal(err)
		}
		home := regions[first.Node-1].Ref("x")
		c.mu.Lock()
		for _, o := range c.nodes {
			c.cuts[[2]gossip.NodeID{gossip.NodeID(first.Node), o.self.ID}] = true
		}
		c.mu.Unlock()
		for _, add := range []int{1, 0} {
			_, err = home.Ask(within(t, 10*time.Second), add)
			if !errors.Is(err, ErrNotKept) || !OutcomeUnknown(err) || !Retryable(err) {
				t.Fatalf("ask of %d without a quorum: %v", add, err)
			}
		}
		c.mu.Lock()
		clear(c.cuts)
		c.mu.Unlock()
		if got, err := home.Ask(within(t, 10*time.Second), 1); err != nil || got.Count != 3 {
			t.Fatalf("after the cut: %+v, %v", got, err)
		}
		c.crash(c.nodes[first.Node-1])
		other := regions[first.Node%3].Ref("x")
		if got, err := other.Ask(within(t, 10*time.Second), 0); err != nil || got.Count != 3 {
			t.Fatalf("after the crash: %+v, %v", got, err)
		}
		if n := c.sum(func(s Stats) uint64 { return s.NotKept }); n != 2 {
			t.Errorf("%d replies were counted as not kept", n)
		}
	})
}

// The home describes an instance with the size of its replicated state.
func TestWhereReturnsTheSizeOfTheState(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		regions := keepers(t, c, 3, Replicated{Replicas: 3})
		if _, err := regions[0].Ref("x").Ask(within(t, 10*time.Second), 1); err != nil {
			t.Fatal(err)
		}
		if at, err := c.nodes[1].reg.Where(t.Context(), "tally", "x"); err != nil || at.StateBytes == 0 {
			t.Errorf("%+v, %v", at, err)
		}
		if at, err := c.nodes[1].reg.Where(t.Context(), "tally", "y"); err == nil && (at.Lives || at.StateBytes != 0) {
			t.Errorf("it never lived: %+v", at)
		}
	})
}

// A holder of copies that knows of a later allocation tells the home of the earlier one:
// that ends then, it does not go on waiting, and answers nothing as if it were kept.
func TestAHomeThatWasOutrunEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		regions := keepers(t, c, 3, Replicated{Replicas: 3, Timeout: time.Minute})
		first, err := regions[0].Ref("x").Ask(within(t, 10*time.Second), 1)
		if err != nil {
			t.Fatal(err)
		}
		home, holder := c.nodes[first.Node-1], c.nodes[first.Node%3]
		region := regions[first.Node-1]
		var at ShardStats
		for _, s := range region.Local() {
			if s.Shard == region.ShardOf("x") {
				at = s
			}
		}
		c.mu.Lock()
		for _, o := range c.nodes {
			c.cuts[[2]gossip.NodeID{home.self.ID, o.self.ID}] = true
		}
		c.mu.Unlock()
		answered := make(chan error, 1)
		go func() {
			_, err := region.Ref("x").Ask(within(t, 30*time.Second), 1)
			answered <- err
		}()
		pass(time.Second)
		tell := func(fence Token) {
			frame := wire.AppendString([]byte{byte(frames.KindStandby)}, "tally")
			m := standby.Refused{Shard: at.Shard, Token: protocol.Token(at.Token), Fence: protocol.Token(fence)}
			home.s.HandleEntities(holder.self.ID, &one{standby.Append(frame, m)})
			pass(time.Second)
		}
		tell(at.Token)
		select {
		case err := <-answered:
			t.Fatalf("told of its own allocation it answered %v", err)
		default:
		}
		tell(Token{Term: at.Token.Term, Seq: at.Token.Seq + 1})
		select {
		case err := <-answered:
			if !errors.Is(err, ErrAbandoned) || !OutcomeUnknown(err) {
				t.Errorf("the ask was answered with %v", err)
			}
		default:
			t.Error("the ask goes on waiting")
		}
		if slices.ContainsFunc(region.Local(), func(s ShardStats) bool { return s.Shard == at.Shard && s.Token == at.Token }) {
			t.Error("the allocation goes on")
		}
		c.mu.Lock()
		clear(c.cuts)
		c.mu.Unlock()
		if got, err := region.Ref("x").Ask(within(t, 20*time.Second), 1, Retry()); err != nil || got.Count < 2 {
			t.Errorf("at its next home it counts %+v, %v", got, err)
		}
	})
}

// When all nodes that held a shard's states die at once, whoever starts it says so.
func TestReplicatedStateLossIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		regions := keepers(t, c, 5, Replicated{Replicas: 2})
		for i := range 40 {
			if _, err := regions[0].Ref(fmt.Sprint("e", i)).Ask(within(t, 10*time.Second), 1); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second)
		c.crash(c.nodes[:3]...)
		lost := 0
		for i := range 40 {
			got, err := regions[4].Ref(fmt.Sprint("e", i)).Ask(within(t, 10*time.Second), 0)
			if err != nil {
				t.Fatal(err)
			}
			if got.Count == 0 {
				lost++
			}
		}
		said := c.sum(func(s Stats) uint64 { return s.StateLosses })
		if lost == 0 || said == 0 {
			t.Errorf("%d states are lost, %d shards say so", lost, said)
		}
	})
}

// A state that cannot be replicated fails its message and is undone; panics and
// passivation lose nothing that was acknowledged.
func TestReplicatedStateThatDoesNotFit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		r, err := Register(n.reg, Type[string, string]{
			Name: "text", State: Replicated{Replicas: 3, StateBytes: 10},
			New: func(string) Entity[string, string] { return &text{} },
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		ref := r.Ref("x")
		say := func(s, want string, target error) {
			t.Helper()
			got, err := ref.Ask(within(t, 10*time.Second), s)
			if got != want || !errors.Is(err, target) {
				t.Errorf("%q: %q, %v", s, got, err)
			}
		}
		say("12345", "12345", nil)
		say("6789012", "", ErrState)
		say("67", "1234567", nil)
		say("panic", "", ErrPanicked)
		say("leave", "1234567", nil)
		say("8", "12345678", nil)
	})
}

// An entity that cannot tell its state is refused, before it has handled anything,
// and the error says what it lacks.
func TestReplicatedStateNeedsASnapshotter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		r, err := Register(n.reg, Type[say, heard]{
			Name: "mute", State: Replicated{Replicas: 3},
			New: func(string) Entity[say, heard] { return struct{ Entity[say, heard] }{} },
		})
		if err != nil {
			t.Fatal(err)
		}
		n.start()
		c.install(n)
		_, err = r.Ask(within(t, 10*time.Second), "x", say{})
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "Snapshot(*Context) ([]byte, error)") {
			t.Errorf("%v", err)
		}
	})
}

type text struct{ s string }

func (e *text) Handle(ctx *Context, add string) (string, error) {
	switch add {
	case "panic":
		e.s = "broken"
		panic(add)
	case "leave":
		ctx.Passivate()
	default:
		e.s += add
	}
	return e.s, nil
}

func (e *text) Snapshot(*Context) ([]byte, error)      { return []byte(e.s), nil }
func (e *text) Restore(_ *Context, state []byte) error { e.s = string(state); return nil }

// A home whose view is a moment ahead of its standbys' waits for them no longer than
// that moment: what they could not take yet is not thrown away.
func TestStandbysWithALateView(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		regions := keepers(t, c, 3, Replicated{Replicas: 3})
		ask := func(each time.Duration, what string) {
			t.Helper()
			for i := range 30 {
				if _, err := regions[0].Ref(fmt.Sprint("e", i)).Ask(within(t, each), 1); err != nil {
					t.Errorf("%s, entity %d: %v", what, i, err)
				}
			}
		}
		ask(5*time.Second, "before")
		dies, late := c.nodes[1], c.nodes[2]
		c.keeping(Replicated{Replicas: 3})
		but := func(v *gossip.View) {
			for _, n := range c.living() {
				if n != late {
					n.s.ViewChanged(v)
				}
			}
		}
		but(c.next(c.nodes...)) // the new one registers, and the late one has never heard of it
		pass(20 * time.Millisecond)
		c.kill(dies)
		dies.s.Abandoned()
		v := c.next(c.living()...)
		but(v)
		pass(20 * time.Millisecond)
		late.s.ViewChanged(v)
		pass(20 * time.Millisecond)
		ask(20*time.Millisecond, "after")
		if c.nodes[3].s.endpoints.Find([]byte("tally")).ShardCount() == 0 {
			t.Error("the new node hosts nothing: the test shows nothing")
		}
	})
}
