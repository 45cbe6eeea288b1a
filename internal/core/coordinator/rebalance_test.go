package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

const back = "back"

// mixed brings a view in which only these carry the role, and then changes it.
func (b *bench) mixed(change func(*gossip.View), ids ...gossip.NodeID) *bench {
	b.t.Helper()
	b.epoch++
	v := &gossip.View{Epoch: b.epoch}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id, Roles: []string{back}}, Status: gossip.Up})
	}
	if change != nil {
		change(v)
	}
	return b.step(ViewChanged{View: v})
}

func join(m gossip.Member) func(*gossip.View) {
	return func(v *gossip.View) { v.Members = append(v.Members, m) }
}

func (b *bench) registersAs(from gossip.NodeID, hosts bool) *bench {
	b.t.Helper()
	return b.receive(from, &protocol.Register{Head: b.head(), Hosts: hosts, Settings: protocol.Settings{Role: b.c.cfg.Role}})
}

// filled is a coordinator of role back, alone, with all shards at home.
func filled(t *testing.T, cfg Config) *bench {
	cfg.Role = back
	b := newBench(t, cfg)
	b.mixed(nil, 1).step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true, Settings: protocol.Settings{Role: back}})
	b.receive(1, &protocol.GetHome{Head: b.head(), Hosts: true, Settings: protocol.Settings{Role: back}, Shards: all(cfg.Shards)})
	return b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
}

// Nobody is drained, and nothing moves, before the census is through: until then a node
// with a thousand shards has none, as far as is known.
func TestADrainWaitsForTheCensus(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 2}, 1, 2, 3)
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true})
	// All are asked already what they are.
	b.drain(2).none(count[*protocol.Drained], count[*protocol.CensusRequest])
	b.step(Rebalance{}).none(count[*protocol.Drained])
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}}).none(count[*protocol.Drained])
	if n := count[*protocol.Begin](b); n != 3 {
		t.Errorf("%d told to close their routes, want 3", n)
	}
}

// Without a lease nothing moves: a coordinator that was replaced must not close routes
// that its successor opens. What was asked meanwhile is done when it is back.
func TestWithoutALeaseNothingMoves(t *testing.T) {
	b := filled(t, Config{Shards: 4})
	b.mixed(nil, 1, 2).registersAs(2, true).step(LeaseChanged{})
	b.step(Rebalance{}).none(count[*protocol.Begin])
	b.drain(1).none(count[*protocol.Begin], count[*protocol.Drained])
	if b.step(LeaseChanged{Valid: true}); count[*protocol.Begin](b) != 2 {
		t.Errorf("does %+v", b.did)
	}
}

// careless names a shard that there is not, after all that there are.
type careless struct{ strategy.LeastShards }

func (careless) Rebalance(s *strategy.State) []protocol.ShardID {
	return append(all(s.Shards), protocol.ShardID(s.Shards))
}

func TestAStrategyMayNameShardsThatDoNotExist(t *testing.T) {
	b := filled(t, Config{Shards: 4, Strategy: careless{}})
	b.mixed(nil, 1, 2).registersAs(2, true)
	if b.step(Rebalance{}); count[*protocol.Begin](b) == 0 {
		t.Error("moves nothing")
	}
}

// Only regions of the type's role say whether it is a good time to move shards: who hosts
// none may join, be silent, or run any version.
func TestOthersDoNotHoldARebalanceUp(t *testing.T) {
	for name, other := range map[string]struct {
		m      gossip.Member
		speaks bool
	}{
		"joins":        {m: gossip.Member{Node: gossip.Node{ID: 3}, Status: gossip.Joining}},
		"of a version": {m: gossip.Member{Node: gossip.Node{ID: 3, Roles: []string{back}, AppVersion: "2"}, Status: gossip.Up}},
		"a proxy":      {gossip.Member{Node: gossip.Node{ID: 3, Roles: []string{back}, AppVersion: "2"}, Status: gossip.Up}, true},
	} {
		b := filled(t, Config{Shards: 4, Rebalance: time.Second})
		b.mixed(join(other.m), 1, 2).registersAs(2, true)
		if other.speaks {
			b.registersAs(3, false)
		} else if other.m.HasRole(back) {
			// Registered once and refused since, it takes nothing.
			b.registersAs(3, true)
			b.receive(3, &protocol.Register{Head: b.head(), Hosts: true, Settings: protocol.Settings{Role: back, Shards: 9}})
		}
		if b.step(Rebalance{}); count[*protocol.Begin](b) == 0 {
			t.Errorf("%s: moves nothing", name)
		}
	}
}

// A drain that is asked for again is answered again: the answer may have been lost.
func TestADrainIsAnsweredAsOftenAsItIsAsked(t *testing.T) {
	b := settledWithOne(t)
	for first := range 2 {
		if one[*protocol.Drained](b.drain(1)); b.traced(TraceDrain) != (first == 0) {
			t.Error("that it drains is to be said once")
		}
		b.now++
		b.step(Tick{}).none(count[*protocol.Drained])
	}
}

// A drain waits for members that may take the shards and have not registered. The
// coordinator asks those that are up and of the role. A joining member registers by itself,
// and a member outside the role takes no shards, so the drain does not wait for it.
func TestADrainWaitsForMembersOfTheRole(t *testing.T) {
	b := filled(t, Config{Shards: 2})
	b.mixed(join(gossip.Member{Node: gossip.Node{ID: 2}, Status: gossip.Up}), 1).drain(1).none(count[*protocol.CensusRequest])
	if m := one[*protocol.Drained](b); m.Left != 2 {
		t.Errorf("%d left, want 2", m.Left)
	}
	b = filled(t, Config{Shards: 2})
	b.mixed(join(gossip.Member{Node: gossip.Node{ID: 2, Roles: []string{back}}, Status: gossip.Joining}), 1)
	b.drain(1).none(count[*protocol.Drained])
	for _, s := range find[Send](b) {
		if m, is := s.Msg.(*protocol.CensusRequest); is && !m.Probe && s.To == 2 && b.c.table.surveyed {
			t.Error("a member that joins is asked what it is")
		}
	}
}

// A shard that comes to life while its node drains is moved like the others, also while
// those are on their way.
func TestAShardThatStartsAtANodeThatDrainsMoves(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 2}, 1, 2).settle(nil, map[gossip.NodeID][]protocol.Claim{2: {{Token: tok}}})
	b.ask(1, 1)
	w := one[Write](b)
	if w.Records[0].Home != 1 {
		t.Fatalf("shard 1 goes to %v", w.Records[0].Home)
	}
	b.step(WriteDone{ID: w.ID, Result: OK})
	order := one[*protocol.HostShards](b)
	b.view(1, 2, 3).registersAs(3, true)
	b.drain(1).drain(2)
	if b.c.table.shards[0].phase != closing {
		t.Fatalf("shard 0 is %v", b.c.table.shards[0].phase)
	}
	answer := &protocol.ShardsHosted{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: order.Shards[0].Token}}}
	if b.receive(1, answer); b.c.table.shards[1].phase != closing {
		t.Errorf("shard 1 is %v", b.c.table.shards[1].phase)
	}
}

// A state that waits for its shard at a node keeps it from going, as long as the shard
// lives nowhere: here nothing is placed, because of shards under other settings.
func TestAStateThatWaitsKeepsItsNode(t *testing.T) {
	b, tok, to := handedOff(t)
	stranger := gossip.NodeID(7 - to)
	b.receive(stranger, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8},
		Claims: []protocol.Claim{{Shard: 6, Token: tok, State: protocol.ClaimHosted}},
	})
	b.stopped(2, tok, 0).none(count[Write])
	told := func() (told []gossip.NodeID) {
		for _, s := range find[Send](b) {
			if _, is := s.Msg.(*protocol.Drained); is {
				told = append(told, s.To)
			}
		}
		return told
	}
	if b.drain(to); slices.Contains(told(), to) {
		t.Errorf("%v is drained beside the state of shard 0", to)
	}
	// The one that has sent it away need not wait.
	if b.drain(2); !slices.Equal(told(), []gossip.NodeID{2}) {
		t.Errorf("drained: %v", told())
	}
	b.view(1, 2, to)
	if w := one[Write](b); w.Records[0].Home != to {
		t.Errorf("shard 0 goes to %v", w.Records[0].Home)
	}
}

// Nothing can be moved off a node whose settings differ: it is told at once. It holds up
// nobody else that drains.
func TestWhoIsRefusedHoldsNoOtherDrainUp(t *testing.T) {
	tok := func(seq uint64) protocol.Token { return protocol.Token{Term: gossip.FirstEpoch(3), Seq: seq} }
	b := newBench(t, Config{Shards: 2}, 1, 2, 3)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK})
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	b.receive(2, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8},
		Claims: []protocol.Claim{{Shard: 0, Token: tok(1), State: protocol.ClaimHosted}},
	})
	b.receive(3, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Claims: []protocol.Claim{{Shard: 1, Token: tok(2), State: protocol.ClaimHosted}},
	})
	if m := one[*protocol.Drained](b.drain(2)); m.Left != 1 {
		t.Errorf("%d left, want 1", m.Left)
	}
	if b.drain(3).none(count[*protocol.Drained]); b.c.table.shards[1].phase != closing {
		t.Errorf("shard 1 of another node that drains is %v", b.c.table.shards[1].phase)
	}
}

// A home that was named for a shard which stopped before it was told to has nothing of it:
// it goes when it likes.
func TestAPreferenceIsNoState(t *testing.T) {
	b, tok, to, _ := leaver(t)
	stranger := gossip.NodeID(7 - to)
	b.receive(stranger, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8},
		Claims: []protocol.Claim{{Shard: 6, Token: tok, State: protocol.ClaimHosted}},
	})
	b.stopped(2, tok, 0).none(count[Write])
	if s := b.c.table.shards[0]; s.phase != free || s.waitOf().prefer != to {
		t.Fatalf("shard 0 is %v, and was to go to %v", s.phase, s.waitOf().prefer)
	}
	b.drain(to)
	for _, s := range find[Send](b) {
		if _, is := s.Msg.(*protocol.Drained); is && s.To == to {
			return
		}
	}
	t.Errorf("%v waits for a shard of which it has nothing", to)
}

// A member that is silent may be heard again, and take the shards then; or it leaves, and
// nobody waits for it.
func TestADrainWaitsForTheSilent(t *testing.T) {
	for _, heard := range []bool{true, false} {
		b := filled(t, Config{Shards: 2})
		b.mixed(nil, 1, 2).registersAs(2, true).step(Silent{Nodes: []gossip.NodeID{2}})
		b.drain(1).none(count[*protocol.Drained], count[*protocol.Begin])
		if heard {
			b.step(Silent{}).none(count[*protocol.Drained])
			if count[*protocol.Begin](b) == 0 {
				t.Error("nothing moves to it")
			}
			continue
		}
		one[*protocol.Drained](b.mixed(nil, 1))
	}
}

// While shards run under other settings nothing is placed; so nothing is taken from
// where it runs without need.
func TestNothingIsRebalancedBesideForeignShards(t *testing.T) {
	b := settledWithOne(t)
	b.view(1, 2, 3).receive(2, &protocol.Register{Head: b.head(), Hosts: true})
	b.receive(3, &protocol.CensusReport{
		Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 8},
		Claims: []protocol.Claim{{Shard: 6, Token: protocol.Token{Term: 1, Seq: 1}, State: protocol.ClaimHosted}},
	})
	b.step(Rebalance{}).none(count[*protocol.Begin])
	b.view(1, 2)
	if b.step(Rebalance{}); count[*protocol.Begin](b) == 0 {
		t.Error("moves nothing when they have gone")
	}
}
