package coordinator

import (
	"testing"
	"time"
	"unsafe"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// The shell's buffer is emptied for the next steps: it keeps its memory and nothing in it.
func TestEffectsAreReset(t *testing.T) {
	e := Effects{Do: []Effect{Read{}}, Trace: []TraceEvent{{Kind: "x"}}}
	e.Reset()
	if len(e.Do)+len(e.Trace) != 0 || cap(e.Do) != 1 || cap(e.Trace) != 1 || e.Do[:1][0] != nil || e.Trace[:1][0] != (TraceEvent{}) {
		t.Errorf("%+v", e)
	}
}

// Check is the judge of the simulator: it finds each broken invariant.
func TestCheckFindsBrokenInvariants(t *testing.T) {
	of := func(i int, change func(*shard)) func(*Core) {
		return func(c *Core) { change(&c.table.shards[i]) }
	}
	for name, damage := range map[string]func(*Core){
		"shards out of office":      func(c *Core) { c.term, c.members.peers = 0, nil },
		"members out of office":     func(c *Core) { c.term, c.table.shards = 0, nil },
		"another generation":        func(c *Core) { c.term = gossip.FirstEpoch(1) },
		"open orders":               func(c *Core) { c.table.open++ },
		"an answer that none owes":  func(c *Core) { c.members.peers[2].owed = 1 },
		"a report from outside":     func(c *Core) { c.census.pending = []gossip.NodeID{9} },
		"a home of a free shard":    of(3, func(s *shard) { s.home = 2 }),
		"no home":                   of(0, func(s *shard) { s.home = 0 }),
		"a home outside":            of(0, func(s *shard) { s.home = 9 }),
		"closers outside a move":    of(0, func(s *shard) { s.move = &shardMove{closers: []gossip.NodeID{1}} }),
		"a target outside a move":   of(0, func(s *shard) { s.move = &shardMove{target: 1} }),
		"a former home alone":       of(0, func(s *shard) { s.needWait().from = 1 }),
		"an ended token alone":      of(0, func(s *shard) { s.needWait().ended = s.token }),
		"a preference with a home":  of(0, func(s *shard) { s.needWait().prefer = 1 }),
		"a token of the future":     of(3, func(s *shard) { s.token.Term = gossip.FirstEpoch(9) }),
		"a record in no write":      of(0, func(s *shard) { s.phase = writing }),
		"acting before the census":  func(c *Core) { c.table.surveyed = false },
		"recorded after the census": of(0, func(s *shard) { s.phase = recorded }),
		"claimed after the census":  of(0, func(s *shard) { s.phase = claimed }),
		"a waiter of a served one":  of(0, func(s *shard) { s.needWait().waiters = []gossip.NodeID{1} }),
	} {
		b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil).ask(1, 0)
		b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
		if !b.c.Settled() {
			t.Fatal("not settled")
		}
		if damage(b.c); b.c.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

// A coordinator is settled when all that was ever wanted is hosted, and nothing is under way.
func TestSettled(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2)
	expect := func(what string, want bool) {
		t.Helper()
		if b.c.Settled() != want {
			t.Errorf("%s: settled %v", what, b.c.Settled())
		}
	}
	expect("the census is open", false)
	b.settle(nil, nil)
	expect("nothing was wanted", true)
	b.step(LeaseChanged{}).ask(1, 0)
	expect("a node waits for a home", false)
	b.step(LeaseChanged{Valid: true})
	expect("it is written", false)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	expect("it starts", false)
	b.started()
	expect("it is hosted", true)
	if got := b.c.Homes(); len(got) != 1 || got[0].Shard != 0 {
		t.Errorf("homes %+v", got)
	}
	b.step(LeaseChanged{}).receive(b.c.table.shards[0].home, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Token: b.c.table.shards[0].token}}})
	expect("it has stopped", false)
	if got := b.c.Homes(); len(got) != 0 {
		t.Errorf("homes %+v", got)
	}
}

// Each thing that waits has a deadline of its own: a read or write of unknown outcome, an order,
// the next look at the balance.
func TestTheEarliestDeadlineCounts(t *testing.T) {
	const retry, resend, look = 7 * time.Millisecond, 50 * time.Millisecond, time.Second
	cfg := Config{Shards: 4, RetryWrite: retry, Resend: resend, Rebalance: look}
	b := newBench(t, cfg, 1, 2)
	expect := func(what string, want time.Duration) {
		t.Helper()
		if got := b.c.Deadline().Sub(b.now); got != want {
			t.Errorf("%s: a tick after %v, want %v", what, got, want)
		}
	}
	expect("the census", resend)
	b.step(ReadDone{ID: b.c.census.readID, Result: Unknown})
	expect("a read of unknown outcome", retry)
	b.now = b.c.Deadline() - 1
	b.step(Tick{}).none(count[Read])
	b.now++
	b.step(Tick{})
	one[Read](b)
	b.settle(nil, nil)
	expect("nothing waits", look-retry)
	b.ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: Unknown})
	expect("a write of unknown outcome", retry)
	b.now = b.c.Deadline() - 1
	b.step(Tick{}).none(count[Write])
	b.now++
	b.step(Tick{})
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	expect("an order", resend)
	b.step(Standing{Term: b.c.term + 1})
	if b.c.Term() != 0 || b.c.Deadline() != clock.Never {
		t.Errorf("out of office: a tick at %v", b.c.Deadline())
	}
}

// A coordinator has an entry for every shard of a type, in use or not.
func TestAShardAtRestIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(shard{}); size > 72 {
		t.Errorf("an entry has %d bytes", size)
	}
}
