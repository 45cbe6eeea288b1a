package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TestAStateOfAMoveDuringTheCensusIsFound checks that the state of a shard that its node reported
// as stopping is found where it can be after the census: at the new home if the shard has stopped
// or its node has left the view, and at the former home if the new one has left. A shard that
// still stops is left alone.
func TestAStateOfAMoveDuringTheCensusIsFound(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	for name, c := range map[string]struct {
		stopped bool
		stay    []gossip.NodeID
		want    gossip.NodeID
	}{
		"it has stopped":                           {true, []gossip.NodeID{1, 2, 3}, 3},
		"its node has left":                        {false, []gossip.NodeID{1, 3}, 3},
		"it has stopped, and its node has left":    {true, []gossip.NodeID{1, 3}, 3},
		"it has stopped, and the new home left":    {true, []gossip.NodeID{1, 2}, 2},
		"it still stops, and all members are here": {false, []gossip.NodeID{1, 2, 3}, 0},
		"it still stops, and the new home left":    {false, []gossip.NodeID{1, 2}, 0},
	} {
		b := newBench(t, Config{Shards: 1}, 1, 2, 3)
		b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Home: 2, Token: tok, State: protocol.Allocated}}})
		b.receive(3, &protocol.CensusReport{Head: b.head(), Hosts: true})
		b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Token: tok, State: protocol.ClaimStopping, To: 3}}})
		if c.stopped {
			b.stopped(2, tok, 0)
		}
		if len(c.stay) < 3 {
			b.view(c.stay...)
		}
		b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
		var home, from gossip.NodeID
		for _, w := range find[Write](b) {
			home, from = w.Records[0].Home, w.Records[0].From
		}
		if home != c.want || (home != 0) != (from == 2) {
			t.Errorf("%s: the shard starts at %v with the state from %v, want %v", name, home, from, c.want)
		}
	}
}

// homeOrFewest is a strategy that places all shards at one node, or, if that is zero, as LeastShards.
type homeOrFewest struct {
	strategy.LeastShards
	node *gossip.NodeID
}

func (h homeOrFewest) Allocate(st *strategy.State, id protocol.ShardID, requester gossip.NodeID) gossip.NodeID {
	if *h.node != 0 {
		return *h.node
	}
	return h.LeastShards.Allocate(st, id, requester)
}

// TestMovesThatLoseTheirNewHomeAreSpread checks that shards whose common new home leaves are moved
// to several nodes: each counts where the one before was sent.
func TestMovesThatLoseTheirNewHomeAreSpread(t *testing.T) {
	home := gossip.NodeID(5)
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: gossip.FirstEpoch(3), Seq: seq} }
	b := newBench(t, Config{Shards: 2, Strategy: homeOrFewest{node: &home}}, 1, 2, 3, 4, 5).settle(nil, map[gossip.NodeID][]protocol.Claim{
		2: {{Shard: 0, Token: tok(1)}, {Shard: 1, Token: tok(2)}},
	})
	begin := find[*protocol.Begin](b.drain(2))
	if len(begin) == 0 || b.c.table.shards[0].moveOf().target != 5 || b.c.table.shards[1].moveOf().target != 5 {
		t.Fatalf("moves to %v and %v, want 5 for both", b.c.table.shards[0].moveOf().target, b.c.table.shards[1].moveOf().target)
	}
	home = 0
	b.view(1, 2, 3, 4).begun(begin[0], 1, 2, 3, 4)
	first, second := b.c.table.shards[0].moveOf().target, b.c.table.shards[1].moveOf().target
	if first == second || first == 0 || second == 0 || first == 2 || second == 2 {
		t.Errorf("the shards go to %v and %v, want two nodes of 1, 3 and 4", first, second)
	}
}

// TestAMoveDoesNotWaitForRefusedNodes checks that a node which registers with other settings than
// the coordinator's is not asked to close routes: it receives no home. A member that has not
// registered is asked.
func TestAMoveDoesNotWaitForRefusedNodes(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 4}, 1, 2).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}})
	b.view(1, 2, 3, 4).register(3, 8, 0)
	b.drain(2)
	if to := b.beginsTo(); !slices.Equal(to, []gossip.NodeID{1, 2, 4}) {
		t.Errorf("routes are closed at %v, want 1, 2 and 4", to)
	}
}

// TestOnlyARepeatedCensusRequestAsksForASign checks that the first request of a census is no probe: a
// member that has not reported is asked for a sign of life only when it is asked again.
func TestOnlyARepeatedCensusRequestAsksForASign(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2)
	if all := find[*protocol.CensusRequest](b); len(all) != 2 || all[0].Probe || all[1].Probe {
		t.Errorf("the census begins with %+v, want two requests that are no probes", all)
	}
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	b.now = b.c.Deadline()
	if m := one[*protocol.CensusRequest](b.step(Tick{})); !m.Probe {
		t.Errorf("repeated as %+v, want a probe", m)
	}
}

// TestThePlacesOfAllMembersAreAwaited checks that the first allocation waits for MinMembersAll members
// of any role, and that later ones do not: then the reason is that no region is eligible.
func TestThePlacesOfAllMembersAreAwaited(t *testing.T) {
	b := newBench(t, Config{Shards: 2, MinMembersAll: 3}, 1, 2).settle(nil, nil)
	b.ask(2, 0).none(count[Write])
	if !b.traced(TraceNoRegion) {
		t.Error("no reason is traced")
	}
	b.with(gossip.Member{Node: gossip.Node{ID: 3}, Status: gossip.Up})
	if w := one[Write](b); len(w.Records) != 1 {
		t.Errorf("with three members %+v is written, want the shard's home", w)
	}
	b.view(1, 2).ask(2, 1)
	one[Write](b)

	b = newBench(t, Config{Shards: 2}, 1, 2).settle(nil, nil).ask(2, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	b.drain(1).drain(2)
	b.ask(2, 1).none(count[Write])
	if b.tracedTimes(TraceNoRegion, "none is eligible") != 1 {
		t.Errorf("traced %+v, want that no region is eligible", b.trace)
	}
}

// picky is a strategy of an application that expects an eligible region, as its contract says.
type picky struct{ strategy.LeastShards }

func (picky) Allocate(st *strategy.State, _ strategy.ShardID, _ gossip.NodeID) gossip.NodeID {
	return st.Regions[slices.IndexFunc(st.Regions, func(r strategy.Region) bool { return r.Eligible() })].Node
}

// TestAStrategyIsAskedOnlyIfARegionIsEligible checks that a strategy is not called for a new shard,
// nor for one that must move, while all regions drain.
func TestAStrategyIsAskedOnlyIfARegionIsEligible(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 2, Strategy: picky{}}, 1, 2).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Shard: 0, Token: tok}}})
	b.drain(1).drain(2)
	b.ask(2, 1).none(count[Write]).none(count[*protocol.Begin])
	b.view(1, 2, 3).registersAs(3, true)
	if w := one[Write](b); len(w.Records) != 1 || w.Records[0].Home != 3 {
		t.Errorf("written %+v, want the new shard at the node that does not drain", w)
	}
}

// TestAMemberThatRegistersJoinsAMoveOnce checks that a member which registers while a shard moves is asked to
// close its route, unless it has been asked before.
func TestAMemberThatRegistersJoinsAMoveOnce(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 1}, 1, 2).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}})
	b.view(1, 2, 3).drain(2)
	if to := b.beginsTo(); !slices.Equal(to, []gossip.NodeID{1, 2, 3}) {
		t.Fatalf("routes are closed at %v, want 1, 2 and 3", to)
	}
	b.register(3, 1, 0).none(count[*protocol.Begin])
	b.with(gossip.Member{Node: gossip.Node{ID: 4}, Status: gossip.Up}).none(count[*protocol.Begin])
	if to := b.register(4, 1, 0).beginsTo(); !slices.Equal(to, []gossip.NodeID{4}) {
		t.Errorf("routes are closed at %v once 4 has registered, want 4", to)
	}
	if closers := b.c.table.shards[0].moveOf().closers; !slices.Equal(closers, []gossip.NodeID{1, 2, 3, 4}) {
		t.Errorf("the move waits for %v, want 1, 2, 3 and 4", closers)
	}
}

// TestAMoveWhoseRoutesStayOpenIsCalledOff checks that a move which a router does not answer ends at its
// time-out, not before: the shard has not stopped, and its home is sent to all regions, so that the routes
// which were closed open again.
func TestAMoveWhoseRoutesStayOpenIsCalledOff(t *testing.T) {
	home := gossip.NodeID(2)
	b := newBench(t, Config{Shards: 1, Strategy: homeAt{node: &home}, Rebalance: time.Hour}, 1, 2, 3, 4).settle(nil, nil).ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	tok := b.c.table.shards[0].token
	home = 3
	begin := find[*protocol.Begin](b.step(Rebalance{}))[0]
	deadline := b.c.table.shards[0].move.deadline
	if deadline != b.now.Add(b.c.cfg.BeginTimeout) {
		t.Fatalf("the routes have until %v, want %v", deadline.Sub(b.now), b.c.cfg.BeginTimeout)
	}
	b.begun(begin, 1, 2, 3).none(count[*protocol.HandOff])
	b.now = deadline - 1
	if b.step(Tick{}); b.c.table.shards[0].phase != closing || b.traced(TraceCancel) {
		t.Fatalf("in phase %v before the time-out", b.c.table.shards[0].phase)
	}
	b.now = b.c.Deadline()
	b.step(Tick{}).none(count[*protocol.HandOff])
	if s := &b.c.table.shards[0]; s.phase != hosted || s.home != 2 || s.token != tok || !b.traced(TraceCancel) {
		t.Errorf("after the time-out in phase %v at %v", s.phase, s.home)
	}
	if to := b.homesOf(0); !slices.Equal(to, []gossip.NodeID{1, 2, 3, 4}) {
		t.Errorf("the home is sent to %v, want all four", to)
	}
	b.begun(begin, 4).none(count[*protocol.HandOff])
}

// TestLongListsAreCutIntoMessages checks that a batch is handed out by node, in pieces of at most batchMax
// items, each item once, and without those that need no message by now.
func TestLongListsAreCutIntoMessages(t *testing.T) {
	var b batch[int]
	for _, n := range []gossip.NodeID{7, 3} {
		for i := range 2*batchMax + 2 {
			b.addItem(n, i)
		}
	}
	b.addItem(7, 5)
	type piece struct {
		node     gossip.NodeID
		from, to int
	}
	var pieces []piece
	drainBatch(&b, func(n gossip.NodeID, i int) (int, bool) { return i, n == 7 || i != 0 && i <= batchMax },
		func(n gossip.NodeID, list []int) {
			for at, i := range list {
				if i != list[0]+at {
					t.Fatalf("node %v: %d follows %d", n, i, list[0]+at-1)
				}
			}
			pieces = append(pieces, piece{n, list[0], list[len(list)-1]})
		})
	want := []piece{{3, 1, batchMax}, {7, 0, batchMax - 1}, {7, batchMax, 2*batchMax - 1}, {7, 2 * batchMax, 2*batchMax + 1}}
	if !slices.Equal(pieces, want) {
		t.Errorf("pieces %v, want %v", pieces, want)
	}
	drainBatch(&b, func(n gossip.NodeID, i int) (int, bool) { return i, true }, func(n gossip.NodeID, list []int) {
		t.Errorf("node %v is handed %v a second time", n, list)
	})
}
