package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func (b *bench) drain(from gossip.NodeID) *bench {
	b.t.Helper()
	return b.receive(from, &protocol.Drain{Head: b.head()})
}

// settledWithOne is a coordinator alone, which hosts both shards.
func settledWithOne(t *testing.T) *bench {
	b := newBench(t, Config{Shards: 2}, 1).settle(nil, nil).ask(1, 0, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	return b
}

// The last node is told at once that nobody takes its shards. Not so while a
// member joins, or is up and has not registered: its shards were stopped in a
// hurry, without Begin, and messages on their way to them were lost (G9, seed
// 1004576 of the simulator's TestOrderly).
func TestDrainWaitsForWhoMayTakeShards(t *testing.T) {

	b := settledWithOne(t)
	one[*protocol.Drained](b.drain(1))

	b = settledWithOne(t)
	v := *b.c.view
	b.epoch++
	v.Epoch = b.epoch
	v.Members = append(v.Members[:1:1], gossip.Member{Node: gossip.Node{ID: 2}, Status: gossip.Joining})
	b.step(ViewChanged{View: &v}).drain(1).none(count[*protocol.Drained])
	b.view(1, 2).drain(1).none(count[*protocol.Drained])
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true}).none(count[*protocol.Drained])
	if begins := find[*protocol.Begin](b); len(begins) == 0 {
		t.Errorf("the shards do not move to the new member: %+v", b.did)
	}
}

// A member with the role that does not run the type, or was refused, takes
// nothing: it is asked, and when it has said so the drain ends.
func TestDrainAsksWhoHasNotSaid(t *testing.T) {
	b := settledWithOne(t)
	b.view(1, 2).drain(1).none(count[*protocol.Drained])
	one[*protocol.CensusRequest](b)
	b.receive(2, &protocol.CensusReport{Head: b.head()})
	one[*protocol.Drained](b)

	b = settledWithOne(t)
	b.view(1, 2).drain(1)
	b.receive(2, &protocol.Register{Head: b.head(), Hosts: true, Settings: protocol.Settings{Shards: 3}})
	one[*protocol.Drained](b)
}

// A node from which the last shard was taken is told so when the next home is on record,
// not before. Only its own region could tell a successor where the state went, and it
// would be gone (seed 1072325 of the simulator's TestOrderly: an office changed hands in
// between, and the one that was replaced said Drained).
func TestDrainEndsWhenTheNextHomeIsOnRecord(t *testing.T) {
	b, tok, to := handedOff(t)
	b.stopped(2, tok, 0).none(count[*protocol.Drained])
	w := one[Write](b)
	if r := w.Records[0]; r.Home != to || r.From != 2 {
		t.Fatalf("written %+v, want %v from 2", r, to)
	}
	b.drain(2).none(count[*protocol.Drained])
	b.step(WriteDone{ID: w.ID, Result: Unknown}).none(count[*protocol.Drained])
	b.now = b.c.Deadline()
	b.step(Tick{}).none(count[*protocol.Drained])
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	one[*protocol.Drained](b)
}

// If the next home collects states, the node waits until the shard runs there: the former home has
// all states, also if it is no longer known that the shard ended there in order.
func TestDrainEndsWhenTheNextHomeHasCollected(t *testing.T) {
	b, tok, _ := handedOff(t)
	b.c.env.cfg.Collects = true
	b.stopped(2, tok, 0).none(count[*protocol.Drained])
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).none(count[*protocol.Drained])
	b.started()
	one[*protocol.Drained](b)
}

// A coordinator that takes office knows from the record where a shard was that runs nowhere, and
// from which node one comes that is being started. Both nodes wait until it runs.
func TestDrainEndsWhenTheNextHomeHasCollectedAlsoForASuccessor(t *testing.T) {
	was, is := protocol.Token{Term: 5, Seq: 1}, protocol.Token{Term: 5, Seq: 2}
	starting := protocol.Record{Shard: 1, Home: 3, Token: is, State: protocol.Allocated, From: 2, Ended: was}
	claims := map[gossip.NodeID][]protocol.Claim{3: {{Shard: 1, Token: is, State: protocol.ClaimStarting}}}
	stopped := protocol.Record{Shard: 1, Home: 2, Token: was, State: protocol.Allocated}
	for name, c := range map[string]struct {
		record protocol.Record
		claims map[gossip.NodeID][]protocol.Claim
		waits  bool
	}{
		"a shard that starts":               {starting, claims, true},
		"a shard that runs nowhere":         {stopped, nil, true},
		"a shard that was to take a state":  {starting, nil, true},
		"one that was at the draining node": {protocol.Record{Shard: 1, Home: 3, Token: is, State: protocol.Allocated}, claims, false},
	} {
		b := newBench(t, Config{Shards: 4, Collects: true}, 1, 2, 3)
		b.settle([]protocol.Record{c.record}, c.claims)
		var start *protocol.HostShards
		if w := find[Write](b); c.claims == nil {
			start = one[*protocol.HostShards](b.step(WriteDone{ID: w[0].ID, Result: OK}))
		} else {
			start = one[*protocol.HostShards](b)
		}
		if b.drain(2); (count[*protocol.Drained](b) == 0) != c.waits {
			t.Errorf("%s: did %+v", name, b.did)
		}
		home := b.c.table.shards[1].home
		if b.receive(home, &protocol.ShardsHosted{Head: b.head(), Shards: []protocol.ShardToken{{Shard: 1, Token: start.Shards[0].Token}}}); c.waits {
			one[*protocol.Drained](b)
		}
	}
}

// If no member can take the shard, the node need not wait.
func TestADrainWithoutAnotherHomeCollectsNothing(t *testing.T) {
	b, tok, _ := handedOff(t)
	b.c.env.cfg.Collects = true
	b.drain(1).drain(3).drain(4)
	b.stopped(2, tok, 0)
	if s := &b.c.table.shards[0]; s.phase == free {
		t.Fatalf("shard 0 is %v: its state waits at its next home", s.phase)
	}
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	if count[*protocol.Drained](b) == 0 {
		t.Errorf("all drain, and none is told: %+v", b.did)
	}
}

// A member that obeyed its last order is not silent, even if the message that acknowledged
// the order is lost: it can be given shards, and shards can be moved (seed 4035630 of
// TestOrderly: a leaving coordinator waited for the other node for ever).
func TestWhoHasObeyedIsNotSilent(t *testing.T) {
	b, tok, _ := handedOff(t)
	for range 3 {
		b.now = b.c.Deadline()
		b.step(Tick{})
	}
	if why := b.c.members.unsettled(); why != "a member is silent" {
		t.Fatalf("no answer to three orders: %q", why)
	}
	b.stopped(2, tok, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	if why := b.c.members.unsettled(); why != "" {
		t.Errorf("all is done, and moves are held up: %s", why)
	}
}
