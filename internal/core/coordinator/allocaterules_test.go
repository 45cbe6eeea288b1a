package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// tracedTimes counts the events of a kind in the last step, with a detail or any.
func (b *bench) tracedTimes(kind, detail string) (n int) {
	for _, e := range b.trace {
		if e.Kind == kind && (detail == "" || e.Detail == detail) {
			n++
		}
	}
	return n
}

// TestWhereTheStateOfAShardWaits checks that a state waits at the new home that was named, even if that
// home leaves, and else at the former one. A former home that takes no shards keeps no state from the
// new one.
func TestWhereTheStateOfAShardWaits(t *testing.T) {
	const fit, silent, leaving, gone = "fit", "silent", "leaving", "gone"
	for _, c := range []struct {
		prefer, from string // "" for none
		want         gossip.NodeID
	}{
		{fit, "", 2}, {fit, fit, 2}, {leaving, "", 0}, {leaving, fit, 2}, {leaving, gone, 2}, {silent, "", 0},
		{silent, fit, 1}, {silent, leaving, 2}, {silent, silent, 2}, {silent, gone, 2},
		{gone, fit, 1}, {gone, leaving, 0}, {gone, gone, 0}, {gone, "", 0}, {"", fit, 1}, {"", leaving, 0}, {"", "", 0},
	} {
		s, st := &shard{}, &strategy.State{}
		add := func(node gossip.NodeID, is string) gossip.NodeID {
			if is != gone && is != "" {
				st.Regions = append(st.Regions, strategy.Region{Node: node, Silent: is == silent, Leaving: is == leaving})
			}
			if is == "" {
				return 0
			}
			return node
		}
		s.wait = &shardWait{from: add(1, c.from), prefer: add(2, c.prefer)}
		if got := (&table{}).bearer(st, s); got != c.want {
			t.Errorf("new home %q, former home %q: %d, want %d", c.prefer, c.from, got, c.want)
		}
	}
}

// TestAPassWithoutRegionsPlacesStatesAlone checks that a pass which has found no region with room places
// only shards whose state waits at a member, each there.
func TestAPassWithoutRegionsPlacesStatesAlone(t *testing.T) {
	for name, c := range map[string]struct {
		from gossip.NodeID
		full bool
		want gossip.NodeID
	}{
		"no state":                  {0, true, 0},
		"no state, regions":         {0, false, 1},
		"a state":                   {2, true, 2},
		"a state at a lost node":    {9, true, 0},
		"a lost state, and regions": {9, false, 1},
	} {
		b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil)
		tb := &b.c.table
		b.c.out = &Effects{}
		s := &tb.shards[0]
		if s.known = true; c.from != 0 {
			s.moveFrom(c.from, protocol.Token{Term: 1, Seq: 1})
		}
		p := placement{table: tb, full: c.full}
		if p.placeShard(0); s.home != c.want || p.full != c.full {
			t.Errorf("%s: goes to %d, want %d; full %v", name, s.home, c.want, p.full)
		}
	}
}

// TestAShardWithoutARegionIsTracedOnce checks that a step traces the reason once for all shards, and that
// a Tick does not trace it again.
func TestAShardWithoutARegionIsTracedOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 3, MinMembers: 3}, 1, 2).settle(nil, nil)
	b.ask(2, 0, 1, 2)
	if n := b.tracedTimes(TraceNoRegion, "too few regions"); n != 1 || count[Write](b) != 0 {
		t.Errorf("traced %d times, %d writes", n, count[Write](b))
	}
	if b.step(Tick{}); b.traced(TraceNoRegion) {
		t.Error("traced again without news")
	}
	b = newBench(t, Config{Shards: 3}, 1, 2).settle(nil, nil)
	b.c.members.peerOf(2).foreign = true
	if b.ask(1, 0); b.tracedTimes(TraceNoRegion, "a node hosts shards under other settings") != 1 {
		t.Errorf("traced %+v", b.trace)
	}
	if b.step(Tick{}); b.traced(TraceNoRegion) {
		t.Error("other settings are traced again without news")
	}
}

// TestTheReasonIsTracedWithEachLookAtTheBalance checks that the table looks again at shards without a region with each
// look at the balance, and not sooner because a shard waits after failed starts.
func TestTheReasonIsTracedWithEachLookAtTheBalance(t *testing.T) {
	b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil).ask(2, 0)
	b.failStart(one[Write](b)).failStart(one[Write](b))
	if b.drain(1).drain(2).ask(1, 1); !b.traced(TraceNoRegion) || b.c.table.retryStart == 0 {
		t.Fatalf("traced %+v, a start is tried again at %v", b.trace, b.c.table.retryStart)
	}
	if d := b.c.Deadline(); d != b.c.table.retryStart {
		t.Errorf("the next Tick is due %v after the start is to be tried again", d.Sub(b.c.table.retryStart))
	}
	b.now = b.c.table.retryStart - 1
	if b.step(Tick{}); b.traced(TraceNoRegion) {
		t.Error("traced again before the start is tried again")
	}
	b.c.table.shards[0].wait.retryAt, b.c.table.retryStart = 0, 0 // nothing but the balance is waited for
	b.now = b.c.nextRebalance
	if b.step(Tick{}); !b.traced(TraceNoRegion) {
		t.Error("not traced with the look at the balance")
	}
}

// TestHomesAreWrittenInOrder checks that homes are written in the order of the shards, each once, and
// that the trace shows which shards had a home before.
func TestHomesAreWrittenInOrder(t *testing.T) {
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, nil).ask(2, 3, 1, 3)
	records := one[Write](b).Records
	if len(records) != 2 || records[0].Shard != 1 || records[1].Shard != 3 || !records[0].Token.Less(records[1].Token) {
		t.Errorf("written %+v", records)
	}
	if n := b.tracedTimes(TraceChosen, ""); n != 2 || b.tracedTimes(TraceChosen, AllocatedBefore) != 0 {
		t.Errorf("%d homes traced", n)
	}
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	left := b.c.table.shards[1].home
	if left == 1 {
		left = b.c.table.shards[3].home
	}
	if left == 1 {
		t.Fatal("both shards are at node 1")
	}
	if b.view(1); b.tracedTimes(TraceChosen, AllocatedBefore) == 0 {
		t.Errorf("traced %+v", b.trace)
	}
}

// TestAnOrderIsSentAgainInItsTurn checks that an order which was sent shortly before the round of
// retransmissions waits for the next round.
func TestAnOrderIsSentAgainInItsTurn(t *testing.T) {
	b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil)
	repeated := func() (ids []protocol.ShardID) {
		for _, m := range find[*protocol.HostShards](b) {
			for _, o := range m.Shards {
				ids = append(ids, o.Shard)
			}
		}
		slices.Sort(ids)
		return ids
	}
	resend := b.c.cfg.Resend
	b.ask(2, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	began := b.now
	b.now = began.Add(resend * 3 / 4)
	b.ask(2, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	b.now = max(began.Add(resend), b.c.table.nextResend)
	if b.step(Tick{}); b.now.Sub(began) < resend*5/4 && !slices.Equal(repeated(), []protocol.ShardID{0}) {
		t.Errorf("repeats the orders of %v", repeated())
	}
	b.now = b.now.Add(resend)
	if b.step(Tick{}); !slices.Equal(repeated(), []protocol.ShardID{0, 1}) {
		t.Errorf("a turn later: %v", repeated())
	}
}

// TestAStateThatWasTakenWaitsNowhere checks that a state no longer waits once its shard is hosted, or
// once its home was lost before that.
func TestAStateThatWasTakenWaitsNowhere(t *testing.T) {
	for name, end := range map[string]func(tb *table){
		"hosted":   func(tb *table) { tb.publishHome(0) },
		"released": func(tb *table) { tb.releaseHome(&tb.shards[0]) },
	} {
		b := newBench(t, Config{Shards: 1}, 1, 2).settle(nil, nil).ask(2, 0)
		b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
		b.c.out = &Effects{}
		s := &b.c.table.shards[0]
		s.moveFrom(1, protocol.Token{Term: 1, Seq: 1})
		if end(&b.c.table); s.waitOf().from != 0 || s.waitOf().ended != (protocol.Token{}) {
			t.Errorf("%s: the state waits at %d", name, s.waitOf().from)
		}
	}
}

// TestHomesThatARecordHasAreSentToAll checks that the end of the census sends the recorded homes to all
// regions.
func TestHomesThatARecordHasAreSentToAll(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 1}
	b := newBench(t, Config{Shards: 2}, 1, 2)
	b.settle([]protocol.Record{{Shard: 1, Home: 2, Token: tok}}, map[gossip.NodeID][]protocol.Claim{2: {{Shard: 1, Token: tok}}})
	if to := b.homesOf(1); !slices.Equal(to, []gossip.NodeID{1, 2}) {
		t.Errorf("the home is sent to %v", to)
	}
}

// TestAPassEndsTheWaitOfShardsThatItPlaces checks that no Tick is due for them later.
func TestAPassEndsTheWaitOfShardsThatItPlaces(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2, 3).settle(nil, nil).ask(2, 0)
	b.failStart(one[Write](b)).failStart(one[Write](b)).none(count[Write])
	if b.c.table.retryStart == 0 {
		t.Fatal("does not wait")
	}
	if b.view(1, 2); b.c.table.retryStart != 0 {
		t.Errorf("waits until %v for a shard that is placed", b.c.table.retryStart.Sub(b.now))
	}
}

// TestAStopDuringTheCensusEndsItsOwnClaim checks that a stop ends a claim of the same node, under the
// claim's token or a higher one.
func TestAStopDuringTheCensusEndsItsOwnClaim(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: gossip.FirstEpoch(3), Seq: seq} }
	for name, c := range map[string]struct {
		node gossip.NodeID
		seq  uint64
		want phase
	}{"its own": {2, 8, recorded}, "a later one": {2, 9, recorded}, "an earlier one": {2, 7, claimed}, "of another node": {3, 9, claimed}} {
		b := newBench(t, Config{Shards: 2}, 1, 2, 3)
		b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Shard: 1, Token: tok(8), State: protocol.ClaimHosted}}})
		if got := b.c.table.shards[1].phase; got != claimed {
			t.Fatalf("%s: the claim is %v", name, got)
		}
		b.c.census.unserve(claim{node: c.node, shard: 1, token: tok(c.seq)})
		if got := b.c.table.shards[1].phase; got != c.want {
			t.Errorf("%s: the shard is %v, want %v", name, got, c.want)
		}
	}
}

// TestShardsThatCountAsMoving checks that a shard counts as moving while its home stops it, and while
// its new home starts it if it had a home before.
func TestShardsThatCountAsMoving(t *testing.T) {
	for p := free; p <= asking; p++ {
		for _, known := range []bool{false, true} {
			b := newBench(t, Config{Shards: 1}, 1, 2).settle(nil, nil)
			b.c.table.shards[0].phase, b.c.table.shards[0].known = p, known
			var st strategy.State
			b.c.table.chooser.countShards(&st)
			want := 0
			if p == closing || p == stopping || p == asking || known && (p == writing || p == starting) {
				want = 1
			}
			if st.Moving != want {
				t.Errorf("phase %v, known %v: %d shards move", p, known, st.Moving)
			}
		}
	}
}

// TestWaitsAfterFailedStartsDouble checks that waits double from the second failed start on, up to a
// bound.
func TestWaitsAfterFailedStartsDouble(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2).settle(nil, nil)
	b.c.out = &Effects{}
	s, resend := &b.c.table.shards[0], b.c.cfg.Resend
	for i, want := range []time.Duration{0, resend, 2 * resend, 4 * resend} {
		b.c.table.noteFailedStart(0)
		if s.wait.failed != i+1 || i == 0 && s.wait.retryAt != 0 || i > 0 && s.wait.retryAt != b.c.now.Add(want) {
			t.Errorf("failure %d: waits %v, want %v", i+1, s.wait.retryAt.Sub(b.c.now), want)
		}
	}
	s.wait.failed = 1000
	if b.c.table.noteFailedStart(0); s.wait.retryAt != b.c.now.Add(startRetryMax) {
		t.Errorf("waits %v at most", s.wait.retryAt.Sub(b.c.now))
	}
}

// TestAStateMayHaveBeenPassedOn checks when a later home may have the state: if the one to which it was
// sent left without a report, together with more than half of the members to which the predecessor wrote.
func TestAStateMayHaveBeenPassedOn(t *testing.T) {
	for name, c := range map[string]struct {
		node, from, to gossip.NodeID
		unheard        []gossip.NodeID
		voters         int
		lost           gossip.Epoch
		want           bool
	}{
		"a majority has left":            {2, 2, 4, []gossip.NodeID{4, 5}, 3, 0, true},
		"half has":                       {2, 2, 4, []gossip.NodeID{4, 5}, 4, 0, false},
		"some of the unheard stay":       {2, 2, 4, []gossip.NodeID{4, 1}, 2, 0, false},
		"the state is elsewhere":         {1, 2, 4, []gossip.NodeID{4, 5}, 3, 0, false},
		"the new home is here":           {2, 2, 1, []gossip.NodeID{1, 4, 5}, 3, 0, false},
		"the new home had reported":      {2, 2, 3, []gossip.NodeID{4, 5}, 3, 0, false},
		"the former home is the only":    {2, 2, 4, []gossip.NodeID{4}, 1, 0, true},
		"records are lost":               {2, 2, 4, nil, 3, 8, true},
		"they were before it stopped":    {2, 2, 4, nil, 3, 7, false},
		"lost, but the new home is here": {2, 2, 1, nil, 3, 8, false},
		"lost, but it had reported":      {2, 2, 3, nil, 3, 8, false},
		"lost, but the state is with it": {4, 2, 4, nil, 3, 8, false},
	} {
		b := newBench(t, Config{Shards: 1}, 1, 2)
		cn := &b.c.census
		cn.unheard, cn.voters, cn.lost, cn.heard = c.unheard, c.voters, c.lost, []gossip.NodeID{1, 3}
		if got := cn.passedOn(&heldAt{c.node, protocol.Held{From: c.from, To: c.to, Term: 7}}); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAnOrderToAStrayProbes checks that a repeated order to a node with a stale claim asks for an answer.
func TestAnOrderToAStrayProbes(t *testing.T) {
	b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil)
	b.c.table.strays.list = []staleClaim{{2, 1, protocol.Token{Term: 1, Seq: 1}}}
	b.now = max(b.now, b.c.table.nextResend)
	b.step(Tick{})
	m := one[*protocol.HandOff](b)
	if !m.Probe || m.Within != b.c.cfg.StopTimeout || len(m.Shards) != 1 || m.Shards[0].Shard != 1 || m.Shards[0].Token.Seq != 1 {
		t.Errorf("ordered %+v", m)
	}
}
