package sharding

import (
	"context"
	"errors"
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func TestTypesAreValidated(t *testing.T) {
	reg := &Registry{}
	bad := Type[int, int]{
		Name: strings.Repeat("x", 65), Shards: -1, IdleTimeout: -1, MinMembers: -2,
		New: func(string) Entity[int, int] { return nil }, Limits: Limits{IDBytes: 1 << 20, Mailbox: -1},
	}
	_, err := Register(reg, bad)
	var wrong *TypeError
	if !errors.As(err, &wrong) || len(wrong.Wrong) != 6 {
		t.Errorf("Register = %v, want six complaints", err)
	}
	if _, err := Register(reg, Type[int, int]{Shards: -1}); !errors.As(err, &wrong) || len(wrong.Wrong) != 3 {
		t.Errorf("a type without anything: %v, want three complaints", err)
	}
	for _, p := range []Passivation{{Limit: -1}, {Limit: 1, Eviction: EvictTinyLFU + 1}} {
		if _, err := Register(reg, Type[int, int]{Name: "p", New: bad.New, Passivation: p}); !errors.As(err, &wrong) || len(wrong.Wrong) != 1 {
			t.Errorf("%+v: %v, want one complaint", p, err)
		}
	}
	good := Type[int, int]{Name: "x", New: bad.New}
	if _, err := Register(reg, good); err != nil {
		t.Error(err)
	}
	if _, err := Register(reg, good); err == nil {
		t.Error("a type was registered twice")
	}
	if got := reg.Types(); len(got) != 1 || got[0] != "x" {
		t.Errorf("Types = %q", got)
	}
}

func TestBadIDsAndPayloadsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		ty := Type[string, string]{
			Name:   "s",
			Limits: Limits{IDBytes: 8, PayloadBytes: 10},
			New: func(string) Entity[string, string] {
				return Func(func(_ *Context, s string) (string, error) { return strings.Repeat(s, 3), nil })
			},
		}
		r, err := Register(n.reg, ty)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"", "123456789"} {
			if err := r.Tell(t.Context(), id, "x"); !errors.Is(err, ErrBadID) || Retryable(err) {
				t.Errorf("id %q: %v", id, err)
			}
		}
		// Without a home everything is encoded.
		if err := r.Tell(t.Context(), "a", "12345678901"); !errors.Is(err, ErrTooLarge) {
			t.Errorf("11 bytes of 10: %v", err)
		}
		cancelled, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := r.Ask(cancelled, "a", "x"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled ask: %v", err)
		}
	})
}

// A12: buffers keep exactly their cap, hold up the newest, count, and recover.
func TestBuffersKeepTheirCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		n := c.add("n1")
		r := n.register(j, func(ty *Type[say, heard]) { ty.Limits.ShardMessages, ty.Limits.BufferMessages = 5, 8 })
		if err := r.Tell(within(t, time.Second), "a", say{"x", 1}); !errors.Is(err, ErrNotReady) || !Retryable(err) {
			t.Errorf("tell without a cluster: %v", err)
		}
		n.start()
		fill := func(shard ShardID) (took int, err error) {
			for i := 1; ; i++ {
				if err = r.Tell(within(t, time.Second), idIn(r, shard), say{"x", i}); err != nil {
					return i - 1, err
				}
			}
		}
		for shard, want := range []int{5, 3} {
			if took, err := fill(ShardID(shard)); took != want || !errors.Is(err, ErrBufferFull) || !Retryable(err) {
				t.Errorf("shard %d: %d taken, then %v; want %d", shard, took, err, want)
			}
		}
		if s := r.Stats(); s.Buffered != 8 || s.BufferedBytes == 0 || s.Dropped[DropBufferFull] != 2 {
			t.Errorf("%d messages, %d bytes buffered, %d given up", s.Buffered, s.BufferedBytes, s.Dropped[DropBufferFull])
		}
		waited := make(chan error, 1)
		go func() { waited <- r.Tell(within(t, time.Hour), idIn(r, 0), say{"x", 6}) }()
		synctest.Wait()
		c.install(n)
		if err := <-waited; err != nil {
			t.Error(err)
		}
		pass(time.Second)
		// What was refused is not handled; what was taken is, and the buffer is as before.
		if zero, one := j.count(idIn(r, 0)), j.count(idIn(r, 1)); zero != 6 || one != 3 {
			t.Errorf("%d of 6 and %d of 3 handled", zero, one)
		}
		if s := r.Stats(); s.Buffered != 0 || s.BufferedBytes != 0 {
			t.Errorf("%d messages, %d bytes left", s.Buffered, s.BufferedBytes)
		}
		j.checkOrder(t)
		if s := r.Stats(); s.SentBuffered != 8 || s.Handled != 9 {
			t.Errorf("%d buffered, %d handled, want 8 and 9: what was refused was not sent", s.SentBuffered, s.Handled)
		}
	})
}

// here puts all shards on node 1, but for one, which it puts on node 2.
type here ShardID

func (h here) Allocate(_ *strategy.State, shard ShardID, _ gossip.NodeID) gossip.NodeID {
	if shard == ShardID(h) {
		return 2
	}
	return 1
}

func (here) Rebalance(*strategy.State) []ShardID { return nil }

// One shard without a home may fill all buffers of its type. The others get theirs, and
// their messages then need no room: also one that is larger than any buffer.
func TestFullBuffersHoldUpNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		var regions []*Region[say, heard]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i+1))
			regions = append(regions, n.register(j, func(ty *Type[say, heard]) {
				ty.Strategy, ty.Limits.BufferMessages, ty.Limits.ShardBytes = here(1), 8, 1000
			}))
			n.start()
		}
		c.install(c.nodes...)
		if got, err := regions[0].Ask(within(t, 5*time.Second), idIn(regions[0], 1), say{"x", 1}); err != nil || got.Node != 2 {
			t.Fatal(got, err)
		}
		c.kill(c.nodes[1]) // and no view says so
		for i := range 8 {
			if err := regions[0].Tell(within(t, time.Second), idIn(regions[0], 1), say{"x", i + 2}); err != nil {
				t.Fatal(err)
			}
		}
		if err := regions[0].Tell(within(t, time.Second), idIn(regions[0], 1), say{"x", 10}); !errors.Is(err, ErrBufferFull) {
			t.Fatalf("the buffers are not full: %v", err)
		}
		start := time.Now()
		for shard, from := range map[ShardID]string{2: "y", 3: strings.Repeat("y", 2000)} {
			if _, err := regions[0].Ask(within(t, 5*time.Second), idIn(regions[0], shard), say{from, 1}); err != nil || time.Since(start) > time.Second {
				t.Errorf("shard %v, with %d bytes: %v after %v", shard, len(from), err, time.Since(start))
			}
		}
	})
}

// Asks that were given up make room in a full buffer, and are not handled.
func TestCancelledAsksLeaveTheBuffer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		n := c.add("n1")
		r := n.register(j, func(ty *Type[say, heard]) { ty.Limits.ShardMessages = 3 })
		n.start()
		for i := range 9 {
			_, err := r.Ask(within(t, time.Second), "a", say{"x", i + 1})
			if !errors.Is(err, ErrNoHome) || !errors.Is(err, context.DeadlineExceeded) || OutcomeUnknown(err) {
				t.Fatalf("ask %d: %v", i, err)
			}
		}
		c.install(n)
		if got, err := r.Ask(within(t, time.Second), "a", say{"x", 10}); err != nil || got.Count != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// What comes back refused when its node has ended is counted, and given up.
func TestWhatComesBackTooLateIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		n := c.add("n1")
		r := n.register(newJournal(), nil)
		n.start()
		c.install(n)
		if err := n.s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		tell := frames.AppendRequest(nil, "ear", 3, "a", 0, nil)
		ask := frames.AppendRequest(nil, "ear", 3, "a", 7, nil)
		for _, frame := range [][]byte{tell, ask} {
			n.s.HandleEntity(2, frames.AppendRefused(nil, protocol.Token{}, frame))
		}
		if got := r.Stats().Dropped; got[DropNotHome] != 1 {
			t.Errorf("dropped %v, want the told one as not at home", got)
		}
	})
}

// A full mailbox holds local senders up, and is told to remote askers.
func TestFullMailboxesHoldSendersUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, j, regions, id, home := blockedHandler(t)
		local := regions[home.self.ID-1]
		for i := range 4 {
			if err := local.Tell(within(t, time.Second), id, say{"x", i + 1}); err != nil {
				t.Fatal(err)
			}
		}
		if err := local.Tell(within(t, time.Second), id, say{"x", 9}); !errors.Is(err, ErrMailboxFull) {
			t.Errorf("tell 5 of 4: %v", err)
		}
		// A remote message waits at the home, behind those that came before it.
		if _, err := regions[0].Ask(within(t, time.Second), id, say{"y", 1}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrMailboxFull) {
			t.Errorf("remote ask: %v", err)
		}
		if s, _ := home.reg.Stats("ear"); s.Parked != 1 {
			t.Errorf("%d messages are parked", s.Parked)
		}
		done := make(chan error, 1)
		go func() { done <- local.Tell(within(t, time.Hour), id, say{"x", 10}) }()
		synctest.Wait()
		close(j.gate)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s, _ := home.reg.Stats("ear"); s.Dropped[DropMailboxFull] != 0 || s.Dropped[DropExpired] != 1 || s.Parked != 0 || s.HeldUp != 0 {
			t.Errorf("%d drops counted, %d expired, %d parked, %d held up", s.Dropped[DropMailboxFull], s.Dropped[DropExpired], s.Parked, s.HeldUp)
		}
	})
}

// Handles outlive the incarnation; what waits in buffers goes with the next one.
func TestRegionsOutliveTheirNode(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		c := newCluster(t)
		n := c.add("n1")
		r := n.register(j, nil)
		n.start()
		c.install(n)
		if _, err := r.Ask(within(t, time.Second), "a", say{"x", 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := n.reg.startService(placement.Config{}, nil); err == nil {
			t.Error("a registry was served twice")
		}
		pending := make(chan error, 1)
		j.mu.Lock()
		j.gate = make(chan struct{})
		j.mu.Unlock()
		go func() {
			_, err := r.Ask(within(t, time.Hour), "a", say{"x", stuck})
			pending <- err
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- n.s.Close(within(t, time.Second)) }()
		if err := <-pending; !errors.Is(err, ErrAbandoned) {
			t.Errorf("ask in a handler at the close: %v", err)
		}
		if n := r.Stats().NodeLost; n != 0 {
			t.Errorf("%d asks counted as lost with a connection: there was none", n)
		}
		if err := <-closed; err == nil {
			t.Error("Close said nothing of a handler that does not end")
		}
		close(j.gate)
		waiting := make(chan heard, 1)
		go func() {
			got, err := r.Ask(within(t, time.Hour), "a", say{"x", 3})
			if err != nil {
				t.Error(err)
			}
			waiting <- got
		}()
		synctest.Wait()
		n.self.ID = 77
		n.start()
		c.install(n)
		if got := <-waiting; got.Node != 77 || got.Count != 1 {
			t.Errorf("%+v", got)
		}
	})
}

// Drain moves everything away while asks go on without a failure.
func TestDrainLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		j := newJournal()
		_, nodes, regions := three(t, j, nil)
		stop := make(chan struct{})
		asked := make(chan int)
		go func() {
			n := 0
			for ; ; n++ {
				select {
				case <-stop:
					asked <- n
					return
				default:
				}
				if _, err := regions[n%3].Ask(within(t, time.Second), fmt.Sprint("e", n%50), say{fmt.Sprint(n), 1}); err != nil {
					t.Errorf("ask %d: %v", n, err)
				}
				pass(100 * time.Microsecond)
			}
		}()
		pass(time.Second)
		for _, n := range nodes[:2] {
			start := time.Now()
			if err := n.s.Drain(within(t, 10*time.Second)); err != nil {
				t.Error(err)
			}
			if s, _ := n.reg.Stats("ear"); s.Shards != 0 {
				t.Errorf("%s still hosts %d shards after %v", n.self.Name, s.Shards, time.Since(start))
			}
		}
		close(stop)
		if n := <-asked; n < 1000 {
			t.Errorf("only %d asks: the test shows nothing", n)
		}
	})
}

func TestHandlerErrorsAndPanicsAreTypedEverywhere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, string]
		for i := range 2 {
			n := c.add(fmt.Sprint("n", i))
			r, err := Register(n.reg, Type[string, string]{Name: "s", New: func(string) Entity[string, string] {
				return Func(func(_ *Context, s string) (string, error) {
					if s == "panic" {
						panic("oh")
					}
					return "", errors.New("no " + s)
				})
			}})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		for i, r := range regions {
			_, err := r.Ask(within(t, time.Second), "a", "x")
			var said *HandlerError
			if !errors.As(err, &said) || said.Text != "no x" || Retryable(err) {
				t.Errorf("node %d: %v", i, err)
			}
			_, err = r.Ask(within(t, time.Second), "a", "panic")
			if !errors.Is(err, ErrPanicked) || Retryable(err) || !strings.Contains(err.Error(), "oh") {
				t.Errorf("node %d: %v", i, err)
			}
		}
	})
}

// Entities that talk to others are known to them by name.
func TestEntitiesKnowWhoSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t)
		var regions []*Region[string, string]
		for i := range 3 {
			n := c.add(fmt.Sprint("n", i))
			var r *Region[string, string]
			r, err := Register(n.reg, Type[string, string]{Name: "s", New: func(id string) Entity[string, string] {
				return Func(func(ctx *Context, s string) (string, error) {
					if s == "" {
						from := ctx.Sender()
						return fmt.Sprintf("%d %s/%s", from.Node, from.Type, from.ID), nil
					}
					inner, cancel := context.WithTimeout(ctx, time.Second)
					defer cancel()
					return r.Ask(inner, s, "")
				})
			}})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			n.start()
		}
		c.install(c.nodes...)
		for i, r := range regions {
			got, err := r.Ask(within(t, time.Second), "target", "")
			if want := fmt.Sprintf("%d /", i+1); err != nil || got != want {
				t.Errorf("from outside: %q, %v; want %q", got, err, want)
			}
			for _, via := range []string{"a", "b", "c", "d"} {
				got, err := r.Ask(within(t, time.Second), via, "target")
				if err != nil || !strings.HasSuffix(got, " s/"+via) {
					t.Errorf("via %s: %q, %v", via, got, err)
				}
			}
		}
	})
}

// What waits for a home when its node ends for good is told at once, whichever ends
// first, and nothing stays in the buffers; a node that joins again keeps it all.
func TestNobodyWaitsAtAClosedNode(t *testing.T) {
	shut := map[string]func(n *node){
		"node, registry": func(n *node) { n.s.Close(context.Background()); n.reg.Close() },
		"registry, node": func(n *node) { n.reg.Close(); n.s.Close(context.Background()) },
	}
	for name, end := range shut {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				n := newCluster(t).add("n1")
				r := n.register(newJournal(), func(*Type[say, heard]) {})
				n.start()
				if err := r.Tell(t.Context(), "a", say{"x", 1}); err != nil {
					t.Fatal(err)
				}
				asked := make(chan error, 1)
				go func() {
					_, err := r.Ask(within(t, time.Hour), "a", say{"x", 2})
					asked <- err
				}()
				pass(time.Second)
				began := time.Now()
				end(n)
				if err := <-asked; !errors.Is(err, ErrNodeStopping) || OutcomeUnknown(err) || time.Since(began) > time.Second {
					t.Errorf("%v after %v", err, time.Since(began))
				}
				s := r.Stats()
				if s.Buffered != 0 || s.BufferedBytes != 0 || s.Asks != 0 || s.Dropped[DropNodeStopping] != 2 {
					t.Errorf("left behind: %+v", s)
				}
			})
		})
	}
}
