package sharding

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// slowIn starts two nodes and a type of one shard, as newSlowHome does.
func slowIn(t *testing.T, mailbox int) *slowHome { return newSlowHomeOf(t, 0, mailbox, 1) }

// flood lets so many callers each tell the entity "sleeper" so much, and returns when all of
// them are held up.
func (h *slowHome) flood(t *testing.T, callers, tells int) {
	for range callers {
		go func() {
			for range tells {
				if err := h.region.Tell(within(t, time.Hour), "sleeper", -1); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	synctest.Wait()
}

// An entity that handles nothing holds up those that send to it, and none of those that
// send to the other entities of its shard.
func TestASlowEntityHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const others, each = 63, 200
		const callers, tells = 20, 300
		h := slowIn(t, 10)
		h.flood(t, callers, tells)
		for i := range others {
			go func() {
				for n := range each {
					if err := h.region.Tell(within(t, time.Minute), fmt.Sprintf("other-%d", i), n); err != nil {
						t.Errorf("other-%d: %v", i, err)
						return
					}
				}
			}()
		}
		pass(2 * time.Minute)
		if n := h.handled.Load(); n != others*each {
			t.Errorf("%d of %d messages to others were handled beside the one that sleeps", n, others*each)
		}
		if s := h.homeRegion.Stats(); s.Parked == 0 || s.Parked > 100 {
			t.Errorf("%d messages are parked for it", s.Parked)
		}
		if f := h.home.s.Frames(); f.ParkedBytes == 0 || f.ParkedBytes > 100*1024 {
			t.Errorf("%d bytes are parked", f.ParkedBytes)
		}
		if s := h.region.Stats(); s.HeldUp != callers {
			t.Errorf("%d callers are held up, want those %d that send to it", s.HeldUp, callers)
		}
		before := h.homeRegion.Stats().Handled
		close(h.gate) // wakes it
		pass(time.Minute)
		s, away := h.homeRegion.Stats(), h.region.Stats()
		if n := s.Handled - before; n != callers*tells || s.Parked != 0 || away.HeldUp != 0 || s.Dropped[DropMailboxFull] != 0 {
			t.Errorf("once awake it handled %d of %d, %d are parked, %d callers held up, %d dropped", n, callers*tells, s.Parked, away.HeldUp, s.Dropped[DropMailboxFull])
		}
	})
}

// The callers of one slow entity have equal turns, however many of them are on which node.
func TestOneCallerHereAndAThousandThere(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const callers, takes = 1000, time.Millisecond
		h := newSlowHomeOf(t, takes, 10, 1)
		var turns [callers + 1]atomic.Int64
		var over atomic.Bool
		caller := func(i int, r *Region[int, int]) {
			for !over.Load() {
				if err := r.Tell(within(t, time.Hour), "y", i); err != nil {
					t.Error(err)
				}
				turns[i].Add(1)
			}
		}
		for i := range callers {
			go caller(i, h.region)
		}
		go caller(callers, h.homeRegion)
		pass(40 * time.Second)
		over.Store(true)
		least, most := turns[0].Load(), turns[0].Load()
		for i := range callers {
			least, most = min(least, turns[i].Load()), max(most, turns[i].Load())
		}
		here := turns[callers].Load()
		t.Logf("turns: %d to %d for callers there, %d for the one here", least, most, here)
		if least < 20 || most > 160 || here < 20 || here > 160 {
			t.Errorf("turns: %d to %d for callers there, %d for the one here, about 40 are due to each", least, most, here)
		}
		pass(5 * time.Second)
	})
}

// Gates go with the connection: what the home says on the next one counts, and a lost stop
// or open holds up nobody for ever.
func TestALostConnectionOpensGates(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := slowIn(t, 10)
		c, pair := h.home.c, [2]gossip.NodeID{h.home.self.ID, h.away.self.ID}
		const callers, tells = 20, 300
		h.flood(t, callers, tells)
		if s := h.region.Stats(); s.HeldUp != callers || s.Stopped != 1 {
			t.Fatalf("%d callers are held up, %d entities stopped for", s.HeldUp, s.Stopped)
		}
		// All that the home says is lost while its entity goes on.
		c.mu.Lock()
		c.cuts[pair] = true
		c.mu.Unlock()
		close(h.gate)
		pass(time.Second)
		c.mu.Lock()
		c.cuts[pair] = false
		c.mu.Unlock()
		before := h.region.Stats().HeldUp
		if pass(2 * time.Minute); before == 0 || h.region.Stats().HeldUp != 0 || h.region.Stats().Stopped != 0 {
			t.Errorf("%d callers were held up while the home was mute, %d are after that, %d entities stopped for",
				before, h.region.Stats().HeldUp, h.region.Stats().Stopped)
		}
		h.away.s.PeerLost(h.home.self.ID, transport.Message)
		h.away.s.PeerUp(h.home.self.ID, transport.Message)
		if err := h.region.Tell(within(t, time.Second), "sleeper", -1); err != nil {
			t.Error(err)
		}
	})
}

// Reliable messages to an entity that does not keep up wait at their producer, which sends
// none of them again meanwhile, and those to other entities of the shard go on.
func TestReliableMessagesWaitForASlowEntity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages = 60
		h := slowIn(t, 10)
		producer, err := h.region.Reliable(ReliableConfig[int]{Resend: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 * messages {
			if err := h.region.Tell(within(t, time.Second), "sleeper", -1); err != nil {
				if !errors.Is(err, ErrMailboxFull) {
					t.Fatal(err)
				}
				break
			}
		}
		for i := range messages {
			for _, id := range []string{"sleeper", "other"} {
				if err := producer.Send(within(t, time.Second), id, map[string]int{"sleeper": -1, "other": i}[id]); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(time.Minute)
		s := h.region.Stats().Reliable
		if s.Confirmed != messages || s.Unconfirmed != messages || s.Resends != 0 {
			t.Errorf("beside an entity that sleeps %d messages to another are confirmed, %d are left, %d were sent again", s.Confirmed, s.Unconfirmed, s.Resends)
		}
		close(h.gate)
		pass(time.Minute)
		if s := h.region.Stats().Reliable; s.Unconfirmed != 0 {
			t.Errorf("%d messages are left once it is awake", s.Unconfirmed)
		}
		if err := producer.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Two entities on two nodes whose handlers send each other 10,000 messages, more than their
// mailboxes have room for, go on: what a handler cannot send is an error.
func TestTwoEntitiesThatFloodEachOtherGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const messages = 10_000
		c := newCluster(t)
		var regions []*Region[int, int]
		var handled, told, full atomic.Int64
		var ids [2]string
		for i := range 2 {
			var r *Region[int, int]
			r, err := Register(c.add("n").reg, Type[int, int]{
				Name: "pair", Shards: 16, Limits: Limits{Mailbox: 20},
				New: func(id string) Entity[int, int] {
					return Func(func(ctx *Context, n int) (int, error) {
						other := ids[0]
						if id == other {
							other = ids[1]
						}
						handled.Add(1)
						for range n {
							switch err := r.Tell(ctx, other, 0); {
							case errors.Is(err, ErrMailboxFull):
								full.Add(1)
								return 0, nil
							case err != nil:
								t.Error(err)
							default:
								told.Add(1)
							}
						}
						return 0, nil
					})
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			regions = append(regions, r)
			c.nodes[i].start()
		}
		c.install(c.nodes...)
		home := func(id string) int {
			if _, err := regions[0].Ask(within(t, time.Second), id, 0); err != nil {
				t.Fatal(err)
			}
			if c.nodes[0].s.endpoints.Find([]byte("pair")).Lives(regions[0].ShardOf(id), id) {
				return 0
			}
			return 1
		}
		for i := 0; ids[0] == "" || ids[1] == ""; i++ {
			id := fmt.Sprintf("e%d", i)
			ids[home(id)] = id
		}
		handled.Store(0)
		for i, id := range ids {
			for range 20 {
				// Up to 20 floods stand before it, each of which may wait for HandlerWait.
				if err := regions[i].Tell(within(t, 10*time.Minute), id, messages/20); err != nil {
					t.Fatal(err)
				}
			}
		}
		pass(10 * time.Minute)
		if n := told.Load(); handled.Load() != n+40 || n == 0 {
			t.Errorf("%d messages were sent, %d found no room, %d were handled", n, full.Load(), handled.Load())
		}
		t.Logf("%d messages were sent, %d found no room", told.Load(), full.Load())
	})
}

// 500 callers wait for an entity whose shard moves: what is parked runs at the old home,
// the others are served by the next one, each in its own order.
func TestAShardMovesAwayFromItsCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, j, regions, id, home := blockedHandler(t)
		const callers, each = 500, 3
		for i := range callers {
			go func() {
				for n := range each {
					if err := regions[0].Tell(within(t, time.Hour), id, say{fmt.Sprint("caller", i), n + 1}); err != nil {
						t.Error(err)
					}
				}
			}()
		}
		synctest.Wait()
		if s := regions[0].Stats(); s.HeldUp < callers*9/10 || s.Stopped != 1 {
			t.Errorf("%d callers are held up, %d entities stopped for", s.HeldUp, s.Stopped)
		}
		drained := make(chan error, 1)
		go func() { drained <- home.s.Drain(within(t, time.Minute)) }()
		pass(time.Second)
		close(j.gate)
		if err := <-drained; err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		j.mu.Lock()
		last, handled := map[string]int{}, 0
		for _, line := range j.lines[id] {
			if !strings.HasPrefix(line.From, "caller") {
				continue
			}
			if handled++; line.N != last[line.From]+1 {
				t.Fatalf("%d of %s was handled behind %d", line.N, line.From, last[line.From])
			}
			last[line.From] = line.N
		}
		j.mu.Unlock()
		if handled != callers*each {
			t.Errorf("%d of %d handled", handled, callers*each)
		}
		if s := regions[0].Stats(); s.HeldUp != 0 || s.Stopped != 0 {
			t.Errorf("%d callers are held up, %d entities stopped for", s.HeldUp, s.Stopped)
		}
	})
}
