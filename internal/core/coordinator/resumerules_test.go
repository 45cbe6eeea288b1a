package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// of3 returns a token of generation 3.
func of3(seq uint64) protocol.Token { return protocol.Token{Term: gossip.FirstEpoch(3), Seq: seq} }

// drains has node 1 take office in a cluster of three whose node n drains, with these records and states.
func drains(t *testing.T, cfg Config, n gossip.NodeID, records []protocol.Record, held map[gossip.NodeID][]protocol.Held) *bench {
	t.Helper()
	b := newBench(t, cfg, 1, 2, 3)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: records}).drain(n)
	for id := gossip.NodeID(1); id <= 3; id++ {
		b.receive(id, &protocol.CensusReport{Head: b.head(), Hosts: true, Held: held[id]})
	}
	return b
}

// TestAStateAtANewHomeThatDrainsStartsThere checks that only the former home is ordered to send a state again:
// the shard starts at a new home that drains, and moves on from there.
func TestAStateAtANewHomeThatDrainsStartsThere(t *testing.T) {
	records := []protocol.Record{{Home: 2, Token: of3(5)}}
	b := drains(t, Config{Shards: 1}, 3, records, map[gossip.NodeID][]protocol.Held{3: {{Token: of3(5), From: 2, To: 3, Term: of3(5).Term}}})
	if r := one[Write](b.none(count[*protocol.HandOff])).Records[0]; r.Home != 3 || r.From != 2 || r.Ended != of3(5) {
		t.Errorf("written %+v, want the shard at 3 with the state from 2", r)
	}
}

// TestAStateOfAnEarlierAllocationIsNotSentOn checks that a former home which drains is not ordered to send a state
// under a token below the one on record: the shard starts where the record has it.
func TestAStateOfAnEarlierAllocationIsNotSentOn(t *testing.T) {
	records := []protocol.Record{{Home: 2, Token: of3(8), From: 2, Ended: of3(5)}}
	b := drains(t, Config{Shards: 1}, 2, records, map[gossip.NodeID][]protocol.Held{2: {{Token: of3(5), From: 2, To: 3, Term: of3(5).Term}}})
	if r := one[Write](b.none(count[*protocol.HandOff])).Records[0]; r.Home != 2 || r.From != 2 || !of3(8).Less(r.Token) {
		t.Errorf("written %+v, want the shard at 2 under a new token", r)
	}
}

// TestStatesThatAreSentOnAreSpread checks that states which a draining node has kept are sent to several nodes: each
// counts where the one before was sent.
func TestStatesThatAreSentOnAreSpread(t *testing.T) {
	var records []protocol.Record
	var held []protocol.Held
	for id := range protocol.ShardID(4) {
		tok := of3(uint64(id) + 1)
		records = append(records, protocol.Record{Shard: id, Home: 2, Token: tok})
		held = append(held, protocol.Held{Shard: id, Token: tok, From: 2, To: 3, Term: tok.Term})
	}
	to := map[gossip.NodeID]int{}
	for _, o := range one[*protocol.HandOff](drains(t, Config{Shards: 4}, 2, records, map[gossip.NodeID][]protocol.Held{2: held})).Shards {
		to[o.To]++
	}
	if len(to) != 2 || to[1] != 2 || to[3] != 2 {
		t.Errorf("the states are sent to %v, want two to 1 and two to 3", to)
	}
}

// TestAStateThatHasLeftIsNotAwaited checks that a shard whose state was sent to a node outside the view starts
// without one.
func TestAStateThatHasLeftIsNotAwaited(t *testing.T) {
	b := takeOver(t, found{stored: []protocol.Record{{Home: 2, Token: of3(5)}}, held: map[gossip.NodeID]protocol.Held{
		2: {Token: of3(5), From: 2, To: 9, Term: of3(5).Term, Away: true},
	}})
	if r := one[Write](b).Records[0]; r.From != 0 || !r.Ended.IsZero() {
		t.Errorf("written %+v, want no former home", r)
	}
}

// TestARecordWithoutAFormerHomeBindsNoShard checks that a shard which its recorded home does not have is placed by
// the strategy, if the record names no state.
func TestARecordWithoutAFormerHomeBindsNoShard(t *testing.T) {
	home := gossip.NodeID(1)
	for from, want := range map[gossip.NodeID]gossip.NodeID{0: 1, 2: 3} {
		record := protocol.Record{Home: 3, Token: of3(8), From: from}
		if from != 0 {
			record.Ended = of3(5)
		}
		b := newBench(t, Config{Shards: 1, Strategy: homeAt{node: &home}}, 1, 2, 3).settle([]protocol.Record{record}, nil)
		if r := b.c.writes.flying[0].Records[0]; r.Home != want || r.From != from {
			t.Errorf("recorded with the state from %v: written %+v, want home %v", from, r, want)
		}
	}
}

// TestAReportedStateIsJudgedByItsReport checks that a state which its holder reports as of a former generation is not
// restored because a record names it as well.
func TestAReportedStateIsJudgedByItsReport(t *testing.T) {
	stored := []protocol.Record{{Home: 3, Token: of3(8), From: 2, Ended: of3(5)}}
	for term, want := range map[gossip.Epoch]gossip.NodeID{gossip.FirstEpoch(3): 2, gossip.FirstEpoch(2): 0} {
		b := takeOver(t, found{stored: stored, held: map[gossip.NodeID]protocol.Held{2: {Token: of3(5), From: 2, To: 3, Term: term}}})
		if r := one[Write](b).Records[0]; r.From != want {
			t.Errorf("stopped in term %v: written %+v, want the state from %v", term, r, want)
		}
	}
}

// TestWhichStopsMakeAStateOld checks that a state is not the newest once another node than the one that left it has
// stopped the shard under a later token.
func TestWhichStopsMakeAStateOld(t *testing.T) {
	h := heldAt{3, protocol.Held{Shard: 1, Token: of3(5), From: 2, Term: of3(5).Term}}
	for name, c := range map[string]struct {
		stop claim
		want bool
	}{
		"a later one of another node":      {claim{node: 1, shard: 1, token: of3(6)}, false},
		"of the very token":                {claim{node: 1, shard: 1, token: of3(5)}, true},
		"an earlier one":                   {claim{node: 1, shard: 1, token: of3(4)}, true},
		"a later one of its former home":   {claim{node: 2, shard: 1, token: of3(6)}, true},
		"a later one of another shard":     {claim{node: 1, shard: 0, token: of3(6)}, true},
		"a later one of where it waits":    {claim{node: 3, shard: 1, token: of3(6)}, false},
		"an earlier one of another shard":  {claim{node: 1, shard: 0, token: of3(4)}, true},
		"its own, of another shard though": {claim{node: 2, shard: 0, token: of3(6)}, true},
	} {
		cn := census{env: &env{term: gossip.FirstEpoch(3) + 1}, stops: []claim{c.stop}}
		if got := cn.newestState(&h); got != c.want {
			t.Errorf("%s: newest %v, want %v", name, got, c.want)
		}
	}
}
