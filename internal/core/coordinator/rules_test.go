package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// homesOf lists the nodes that the last step sent the home of a shard to.
func (b *bench) homesOf(id protocol.ShardID) (to []gossip.NodeID) {
	for _, e := range b.did {
		s, ok := e.(Send)
		if !ok {
			continue
		}
		if m, ok := s.Msg.(*protocol.Homes); ok && slices.ContainsFunc(m.Homes, func(h protocol.Home) bool { return h.Shard == id }) {
			to = append(to, s.To)
		}
	}
	slices.Sort(to)
	return to
}

// TestALateReadIsNoAnswerToTheNextOne: a read that failed is repeated under another number. An
// answer to the first one, which comes late, may lack records that were written in between.
func TestALateReadIsNoAnswerToTheNextOne(t *testing.T) {
	b := newBench(t, Config{Shards: 2}, 1, 2)
	first := b.c.census.readID
	b.step(ReadDone{ID: first, Result: Unknown})
	b.now = b.c.Deadline()
	again := one[Read](b.step(Tick{}))
	b.step(ReadDone{ID: first, Result: OK})
	for n := gossip.NodeID(1); n <= 2; n++ {
		b.receive(n, &protocol.CensusReport{Head: b.head(), Hosts: true})
	}
	b.ask(2, 0).none(count[Write])
	b.step(ReadDone{ID: again.ID, Result: OK})
	one[Write](b)
}

// TestAClaimBelowTheRecordIsNotServed: a home confirms a record only with the token of the
// record. With a lower one it has the shard from an earlier allocation.
func TestAClaimBelowTheRecordIsNotServed(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: 5, Seq: seq} }
	for claimed, want := range map[uint64]bool{7: false, 8: true} {
		b := newBench(t, Config{Shards: 2}, 1, 2, 3)
		b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{{Shard: 1, Home: 2, Token: tok(8)}}})
		b.ask(3, 1)
		b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Shard: 1, Token: tok(claimed), State: protocol.ClaimHosted}}})
		if got := slices.Contains(b.homesOf(1), 3); got != want {
			t.Errorf("claimed under token %v, recorded under %v: home is sent %v, want %v", tok(claimed), tok(8), got, want)
		}
	}
}

// TestANewHomeIsSentToAllRegisteredNodes: regions and proxies that have asked for no home have
// routes to the former one.
func TestANewHomeIsSentToAllRegisteredNodes(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2, 3, 4).settle(nil, nil).ask(2, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	if to := b.homesOf(0); !slices.Equal(to, []gossip.NodeID{2}) {
		t.Errorf("a shard's first home is sent to %v, want the node that asked", to)
	}
	former := b.c.table.shards[0].home
	stay := slices.DeleteFunc([]gossip.NodeID{1, 2, 3, 4}, func(n gossip.NodeID) bool { return n == former && n != 1 })
	if former == 1 {
		b.drain(1)
		b.begun(find[*protocol.Begin](b)[0], 1, 2, 3, 4)
		b.stopped(1, b.c.table.shards[0].token, 0)
	} else {
		b.view(stay...)
	}
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	if to := b.homesOf(0); !slices.Equal(to, stay) {
		t.Errorf("the next home is sent to %v, want %v", to, stay)
	}
}

// TestMessagesOfAnotherShapeAreTracedOnce: a region registers in every view, and its messages
// have the same shape each time.
func TestMessagesOfAnotherShapeAreTracedOnce(t *testing.T) {
	b := newBench(t, Config{Shards: 4, Messages: protocol.Shapes{Requests: 1, Responses: 2}}, 1, 2).settle(nil, nil)
	register := func(shapes protocol.Shapes) bool {
		b.receive(2, &protocol.Register{Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 4, Messages: shapes}})
		return b.traced(TraceMessages)
	}
	for i, c := range []struct {
		shapes protocol.Shapes
		want   bool
	}{
		{protocol.Shapes{Requests: 1, Responses: 3}, true}, {protocol.Shapes{Requests: 1, Responses: 3}, false}, {protocol.Shapes{Requests: 4, Responses: 3}, true},
		{protocol.Shapes{Requests: 1, Responses: 2}, false}, {protocol.Shapes{Requests: 1, Responses: 3}, true},
	} {
		if got := register(c.shapes); got != c.want {
			t.Errorf("registration %d, with shapes %v: traced %v, want %v", i, c.shapes, got, c.want)
		}
	}
}

// homeAt is a strategy that places all shards at one node.
type homeAt struct {
	strategy.LeastShards
	node *gossip.NodeID
}

func (h homeAt) Allocate(*strategy.State, protocol.ShardID, gossip.NodeID) gossip.NodeID {
	return *h.node
}
func (h homeAt) Rebalance(st *strategy.State) []protocol.ShardID { return all(st.Shards) }

// TestAMoveToNowhereIsCalledOff: the new home leaves before the shard has stopped, and the best
// place is where the shard is. It does not stop, and its routes are opened again.
func TestAMoveToNowhereIsCalledOff(t *testing.T) {
	home := gossip.NodeID(2)
	b := newBench(t, Config{Shards: 1, Strategy: homeAt{node: &home}}, 1, 2, 3).settle(nil, nil).ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	home = 3
	begin := find[*protocol.Begin](b.step(Rebalance{}))[0]
	home = 2
	b.view(1, 2)
	b.begun(begin, 1, 2).none(count[*protocol.HandOff])
	if s := &b.c.table.shards[0]; s.phase != hosted || s.home != 2 {
		t.Errorf("the shard is in phase %v at %v", s.phase, s.home)
	}
	if to := b.homesOf(0); !slices.Equal(to, []gossip.NodeID{1, 2}) {
		t.Errorf("the home is sent to %v, want 1 and 2", to)
	}
}

// TestShardsThatCannotMoveLeaveOthersAlone: a strategy that names the present home again moves
// nothing, and the shard counts where it is.
func TestShardsThatCannotMoveLeaveOthersAlone(t *testing.T) {
	home := gossip.NodeID(1)
	b := newBench(t, Config{Shards: 3, Strategy: homeAt{node: &home}}, 1, 2).settle(nil, nil).ask(1, all(3)...)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	st := b.c.table.chooser.state()
	for id := range protocol.ShardID(3) {
		if b.c.table.startMove(st, id) {
			t.Errorf("shard %v moves to the node where it is", id)
		}
	}
	if n := len(st.Region(1).Shards); n != 3 {
		t.Errorf("%d shards count at their home, want 3", n)
	}
	b.step(Rebalance{}).none(count[*protocol.Begin])
}

// TestTheNewestOfTwoStatesIsResumed: two nodes report states of one shard. The one of the later
// allocation counts, and of one allocation the one at the new home.
func TestTheNewestOfTwoStatesIsResumed(t *testing.T) {
	term := gossip.FirstEpoch(3)
	held := func(seq uint64, from gossip.NodeID) protocol.Held {
		return protocol.Held{Token: protocol.Token{Term: term, Seq: seq}, From: from, To: 3, Term: term}
	}
	for name, c := range map[string]struct {
		held map[gossip.NodeID]protocol.Held
		want gossip.NodeID
	}{
		"the newer one at the lower node":          {map[gossip.NodeID]protocol.Held{2: held(7, 2), 3: held(5, 2)}, 2},
		"the newer one at the higher node":         {map[gossip.NodeID]protocol.Held{2: held(5, 2), 3: held(7, 2)}, 3},
		"of one allocation, new home is higher":    {map[gossip.NodeID]protocol.Held{2: held(5, 2), 3: held(5, 2)}, 3},
		"of one allocation, former home is higher": {map[gossip.NodeID]protocol.Held{2: held(5, 3), 3: held(5, 3)}, 2},
	} {
		if r := one[Write](takeOver(t, found{held: c.held})).Records[0]; r.Home != c.want {
			t.Errorf("%s: written %+v, want home %v", name, r, c.want)
		}
	}
}

// TestStopsOfSeveralStaleClaimsAreConfirmedOneByOne: a node has two shards that live elsewhere
// under higher tokens. Its report on one is none on the other.
func TestStopsOfSeveralStaleClaimsAreConfirmedOneByOne(t *testing.T) {
	claim := func(id protocol.ShardID, seq uint64) protocol.Claim {
		return protocol.Claim{Shard: id, Token: protocol.Token{Term: 5, Seq: seq}, State: protocol.ClaimHosted}
	}
	b := newBench(t, Config{Shards: 2}, 1, 2, 3).settle(nil, map[gossip.NodeID][]protocol.Claim{
		2: {claim(0, 18), claim(1, 17)}, 3: {claim(0, 8), claim(1, 7)},
	})
	b.receive(3, &protocol.Stopped{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 0, Token: claim(0, 8).Token}}})
	b.now = b.now.Add(time.Second)
	if o := one[*protocol.HandOff](b.step(Tick{})); len(o.Shards) != 1 || o.Shards[0].Shard != 1 {
		t.Errorf("ordered to stop: %+v, want shard 1 only", o.Shards)
	}
}

// TestUrgentSetsStayUrgent: a proxy waits for homes, and a region that registers in the same step
// can wait.
func TestUrgentSetsStayUrgent(t *testing.T) {
	w, out := newWrites()
	w.noteRegistered(9, false, true)
	w.noteRegistered(1, true, false)
	if w.sendRecords(); len(out.Do) != 1 || !slices.Equal(out.Do[0].(Write).Proxies, []gossip.NodeID{9}) {
		t.Errorf("wrote %+v", out.Do)
	}
}

// TestAShardWithAStateCountsOnceAtItsHome: shard 0 goes where its state waits, and then shard 3
// to the node with the fewest shards: node 2 has one, node 1 has two.
func TestAShardWithAStateCountsOnceAtItsHome(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: gossip.FirstEpoch(3), Seq: seq} }
	b := newBench(t, Config{Shards: 4}, 1, 2)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.ask(1, 3)
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Shard: 1, Token: tok(1)}, {Shard: 2, Token: tok(2)}}})
	b.receive(2, &protocol.CensusReport{Head: b.head(), Hosts: true, Held: []protocol.Held{{Token: tok(3), From: 1, To: 2, Term: tok(3).Term}}})
	for _, r := range one[Write](b).Records {
		if (r.Shard == 0 || r.Shard == 3) && r.Home != 2 {
			t.Errorf("shard %v goes to %v, want 2", r.Shard, r.Home)
		}
	}
}

// TestACoordinatorIsSettledAfterItsCensus: until the records are read, shards may live that no
// member has reported.
func TestACoordinatorIsSettledAfterItsCensus(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1)
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	if b.c.Settled() {
		t.Error("settled before the read")
	}
	if b.step(ReadDone{ID: b.c.census.readID, Result: OK}); !b.c.Settled() {
		t.Error("not settled after the census, without shards")
	}
}
