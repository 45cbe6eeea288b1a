package sharding

import (
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/transport"
)

// slowHome is a type that runs on one node, with entities that the test slows down, and
// the Region of another node that sends to them.
type slowHome struct {
	home, away *node
	region     *Region[int, int]
	homeRegion *Region[int, int]
	gate       chan struct{}
	last       atomic.Int64
	wrong      atomic.Int64
	handled    atomic.Int64
}

// newSlowHome starts two nodes. The handler of a request below 0 waits for the gate, and
// that of others takes so long.
func newSlowHome(t *testing.T, takes time.Duration, mailbox int) *slowHome {
	return newSlowHomeOf(t, takes, mailbox, 4)
}

func newSlowHomeOf(t *testing.T, takes time.Duration, mailbox, shards int) *slowHome {
	c := newCluster(t)
	h := &slowHome{home: c.add("home", "host"), away: c.add("away", "outside"), gate: make(chan struct{})}
	h.last.Store(-1)
	ty := Type[int, int]{
		Name: "slow", Role: "host", Limits: Limits{Mailbox: mailbox}, Shards: shards,
		New: func(id string) Entity[int, int] {
			return Func(func(_ *Context, n int) (int, error) {
				if n < 0 {
					<-h.gate
					return 0, nil
				}
				pass(takes)
				if id == "x" && h.last.Swap(int64(n)) != int64(n-1) {
					h.wrong.Add(1)
				}
				h.handled.Add(1)
				return n, nil
			})
		},
	}
	var err error
	if h.homeRegion, err = Register(h.home.reg, ty); err != nil {
		t.Fatal(err)
	}
	if h.region, err = Register(h.away.reg, ty); err != nil {
		t.Fatal(err)
	}
	h.home.start()
	h.away.start()
	c.install(h.home, h.away)
	// What is sent before the home is known waits in a buffer, which is another limit.
	for _, id := range []string{"x", "y"} {
		if err := h.region.Start(within(t, time.Minute), id); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// A sender to a slow entity on another node is held up: its messages wait where there is
// room for them, and none is dropped for want of it.
func TestRemoteTellIsHeldUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages, takes = 20_000, time.Millisecond
		h := newSlowHome(t, takes, 1000)
		ctx := within(t, time.Hour)
		began, most := time.Now(), int64(0)
		for i := range messages {
			if err := h.region.Tell(ctx, "x", i); err != nil {
				t.Fatal(err)
			}
			most = max(most, int64(i)-h.handled.Load())
		}
		if took := time.Since(began); took < messages*takes/2 {
			t.Errorf("%d messages were taken in %v by an entity that needs %v for each", messages, took, takes)
		}
		pass(time.Minute)
		s := h.homeRegion.Stats()
		if s.Dropped[DropMailboxFull] != 0 || h.handled.Load() != messages || h.wrong.Load() != 0 {
			t.Errorf("%d of %d handled, %d out of order, %d dropped for a full mailbox",
				h.handled.Load(), messages, h.wrong.Load(), s.Dropped[DropMailboxFull])
		}
		t.Logf("at most %d messages waited, the mailbox has 1000", most)
	})
}

// A Tell to an entity that handles nothing ends with its context, and says why.
func TestAHeldUpTellEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newSlowHome(t, 0, 10)
		took, err := 0, error(nil)
		for ; err == nil && took < 100_000; took++ {
			err = h.region.Tell(within(t, time.Second), "x", -1)
		}
		if !errors.Is(err, ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) || !Retryable(err) || OutcomeUnknown(err) {
			t.Errorf("after %d messages: %v", took, err)
		}
		if took > 10+1000 {
			t.Errorf("%d messages were taken for a mailbox of 10", took)
		}
		if _, err := h.region.Ask(within(t, time.Second), "x", -1); !errors.Is(err, ErrMailboxFull) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ask: %v", err)
		}
		close(h.gate)
		synctest.Wait()
		if err := h.region.Tell(within(t, time.Second), "x", -1); err != nil {
			t.Errorf("after the mailbox was worked off: %v", err)
		}
	})
}

// blockedHandler starts three nodes with mailboxes of four messages. A message of the first
// node to an entity of another one has its handler wait for the journal's gate.
func blockedHandler(t *testing.T) (c *cluster, j *journal, regions []*Region[say, heard], id string, home *node) {
	t.Helper()
	j = newJournal()
	j.gate = make(chan struct{})
	c, nodes, regions := three(t, j, func(ty *Type[say, heard]) { ty.Limits.Mailbox = 4 })
	id, home = elsewhere(t, c, regions[0], nodes[0])
	if err := regions[0].Tell(t.Context(), id, say{"stuck", stuck}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c, j, regions, id, home
}

// What is parked at a home counts as delivered: when the shard moves it runs there, before
// what is sent to the next home.
func TestParkedMessagesRunBeforeAMove(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j, regions, id, home := blockedHandler(t)
		// So the stop reaches the sender when it has used up its window.
		c.delay = time.Millisecond
		const each = 50
		go func() {
			for i := range 2 * each {
				if err := regions[0].Tell(within(t, time.Hour), id, say{"x", 1 + i}); err != nil {
					t.Error(err)
				}
			}
		}()
		pass(100 * time.Millisecond)
		// The probe and the message in hand used up two of the window, four are in the mailbox.
		if s, _ := home.reg.Stats("ear"); s.Parked != flow.FirstMessages-2-4 {
			t.Errorf("%d messages are parked, want %d", s.Parked, flow.FirstMessages-2-4)
		}
		drained := make(chan error, 1)
		go func() { drained <- home.s.Drain(within(t, time.Minute)) }()
		pass(time.Second)
		close(j.gate)
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		j.mu.Lock()
		next := 1
		for _, line := range j.lines[id] {
			if line.From == "x" && line.N != next {
				t.Fatalf("%d was handled where %d was due", line.N, next)
			} else if line.From == "x" {
				next++
			}
		}
		j.mu.Unlock()
		if next != 1+2*each {
			t.Errorf("%d of %d handled", next-1, 2*each)
		}
		if s, _ := home.reg.Stats("ear"); s.Parked != 0 || s.Dropped[DropMailboxFull] != 0 {
			t.Errorf("%d parked, %d dropped", s.Parked, s.Dropped[DropMailboxFull])
		}
	})
}

// What waited for a home flows into mailboxes as they have room, when the home is this
// node, too.
func TestABufferLargerThanAMailboxIsHandled(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		bubble(t, func(t *testing.T) {
			const messages = 500
			j, c := newJournal(), newCluster(t)
			var members []*node
			var regions []*Region[say, heard]
			for range nodes {
				n := c.add("n")
				regions = append(regions, n.register(j, func(ty *Type[say, heard]) { ty.Limits.Mailbox = 10 }))
				n.start()
				members = append(members, n)
			}
			ids := []string{idIn(regions[0], 0), idIn(regions[0], 1)}
			for i := range messages {
				for _, id := range ids {
					if err := regions[0].Tell(within(t, time.Second), id, say{"x", i + 1}); err != nil {
						t.Fatal(err)
					}
				}
			}
			c.install(members...)
			pass(10 * time.Second)
			for _, id := range ids {
				if n := j.count(id); n != messages {
					t.Errorf("%d nodes: %d of %d handled", nodes, n, messages)
				}
			}
			j.checkOrder(t)
		})
	}
}

// The tail of a window that is lost with its connection takes no credit with it: the
// sender goes on over the next connection.
func TestALostTailStopsNoSender(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newSlowHome(t, 0, 1000)
		c := h.home.c
		pair := [2]gossip.NodeID{h.away.self.ID, h.home.self.ID}
		if _, err := h.region.Ask(within(t, time.Second), "y", 1); err != nil {
			t.Fatal(err)
		}
		cut := func(is bool) {
			c.mu.Lock()
			c.cuts[pair] = is
			c.mu.Unlock()
		}
		cut(true)
		lost, err := 0, error(nil)
		for ; err == nil; lost++ {
			err = h.region.Tell(within(t, time.Second), "y", 1)
		}
		if !errors.Is(err, ErrMailboxFull) || lost > 64 {
			t.Errorf("%d messages left for a home that answers nothing, then %v", lost, err)
		}
		h.away.s.PeerLost(h.home.self.ID, transport.Message)
		cut(false)
		h.away.s.PeerUp(h.home.self.ID, transport.Message)
		for range 1000 {
			if err := h.region.Tell(within(t, time.Second), "y", 1); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if n := h.handled.Load(); n != 1001 {
			t.Errorf("%d of 1001 handled", n)
		}
	})
}

// Handlers that fill each other's mailboxes go on: a Tell of a handler waits for room for
// a while, and then fails.
func TestHandlersThatFillEachOthersMailboxesGoOn(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		bubble(t, func(t *testing.T) {
			c := newCluster(t)
			var regions []*Region[int, int]
			var busy, full, other atomic.Int64
			ids := []string{"a", "b"}
			for range nodes {
				n := c.add("n")
				var r *Region[int, int]
				r, err := Register(n.reg, Type[int, int]{
					Name: "pair", Shards: 8, Limits: Limits{Mailbox: 2},
					New: func(id string) Entity[int, int] {
						return Func(func(ctx *Context, n int) (int, error) {
							busy.Add(1)
							defer busy.Add(-1)
							for i := 0; i < 2 && n > 0; i++ {
								switch err := r.Tell(ctx, map[string]string{ids[0]: ids[1], ids[1]: ids[0]}[id], n-1); {
								case errors.Is(err, ErrMailboxFull):
									full.Add(1)
								case err != nil:
									other.Add(1)
								}
							}
							return n, nil
						})
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				regions = append(regions, r)
				n.start()
			}
			c.install(c.nodes...)
			home := func(id string) (n int) {
				if _, err := regions[0].Ask(within(t, time.Second), id, 0); err != nil {
					t.Fatal(err)
				}
				for n < nodes-1 && !c.nodes[n].s.endpoints.Find([]byte("pair")).Lives(regions[0].ShardOf(id), id) {
					n++
				}
				return n
			}
			for i := 0; nodes > 1 && home(ids[1]) == home(ids[0]); i++ {
				ids[1] = "b" + strconv.Itoa(i)
			}
			for _, id := range ids {
				if err := regions[0].Tell(t.Context(), id, 8); err != nil {
					t.Fatal(err)
				}
			}
			for range 120 {
				if pass(time.Minute); busy.Load() == 0 {
					break
				}
			}
			if full.Load() == 0 || other.Load() != 0 || busy.Load() != 0 {
				t.Errorf("%d nodes: %d times full, %d other errors, %d handlers hang", nodes, full.Load(), other.Load(), busy.Load())
			}
			for _, id := range ids {
				if _, err := regions[0].Ask(within(t, time.Second), id, 0); err != nil {
					t.Errorf("%d nodes: %s answers %v", nodes, id, err)
				}
			}
		})
	}
}
