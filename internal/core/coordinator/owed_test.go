package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const removeAfter = time.Second

// yields passes time until a deadline, and returns when the core named which member.
func (b *bench) yields(until time.Duration) (at []time.Duration, named []gossip.NodeID) {
	b.t.Helper()
	begin := b.now
	for b.c.Deadline() <= begin.Add(until) {
		b.now = max(b.now, b.c.Deadline())
		b.step(Tick{})
		for _, y := range find[Yield](b) {
			at, named = append(at, b.now.Sub(begin)), append(named, y.Subject)
		}
	}
	b.now = begin.Add(until)
	return at, named
}

// seen has a member confirm that an order arrived.
func (b *bench) seen(from gossip.NodeID) *bench {
	b.t.Helper()
	return b.receive(from, &protocol.Seen{Head: b.head()})
}

// A report to the census is an answer like any other. A member that owes it is named to the
// leader after RemoveAfter, and again after as long: without the report, nothing is placed.
func TestAMemberThatOwesItsCensusReportIsNamed(t *testing.T) {
	b := newBench(t, Config{RemoveAfter: removeAfter}, 1, 2)
	b.receive(1, &protocol.CensusReport{Head: b.head(), Hosts: true})
	// The first retransmission begins the count.
	first := b.c.cfg.Resend + removeAfter
	if at, named := b.yields(first - 1); len(named) > 0 {
		t.Fatalf("names %v after %v", named, at)
	}
	at, named := b.yields(removeAfter + b.c.cfg.Resend)
	if !slices.Equal(named, []gossip.NodeID{2, 2}) || at[0] != 1 || at[1] != 1+removeAfter {
		t.Errorf("names %v after another %v", named, at)
	}
}

// A member that shows that it receives what it is sent is not named, however long its answer
// takes. Nor is this node, which the leader cannot compare with itself.
func TestAMemberThatReceivesIsNotNamed(t *testing.T) {
	b := newBench(t, Config{RemoveAfter: removeAfter}, 1, 2)
	for range 10 {
		if at, named := b.yields(b.c.cfg.Resend); len(named) > 0 {
			t.Fatalf("names %v after %v", named, at)
		}
		b.seen(2)
	}
	if _, named := b.yields(removeAfter - b.c.cfg.Resend); len(named) > 0 {
		t.Errorf("names %v: the count did not begin again", named)
	}
}

// A confirmation that a shard is served answers a question. One that was under way when the
// coordinator asked is about the time before: the shard may have begun to stop since.
func TestAConfirmationBelongsToItsQuestion(t *testing.T) {
	b, id, home := askedHome(t)
	answer := func(term gossip.Epoch, seq uint64) (confirms bool) {
		m := &protocol.ShardsHosted{Head: b.head(), Shards: []protocol.ShardToken{{Shard: id, Token: b.c.table.shards[id].token}}}
		m.Term, m.Seq = term, seq
		b.receive(home, m)
		return b.traced(TraceStillServed) || b.c.table.shards[id].phase != asking
	}
	question := b.c.table.shards[id].moveOf().asked
	if answer(b.c.term, 0) || answer(b.c.term, question-1) || answer(b.c.term-1, question) {
		t.Error("an answer to an earlier order confirms the shard")
	}
	if !answer(b.c.term, question) {
		t.Error("the answer to the question confirms nothing")
	}
}

// askedHome returns a coordinator that asks a home whether it still serves a shard, since the
// order to stop it has had no answer.
func askedHome(t *testing.T) (b *bench, id protocol.ShardID, home gossip.NodeID) {
	b = newBench(t, Config{Shards: 2, RemoveAfter: time.Hour}, 1, 2).settle(nil, nil).ask(1, 0, 1)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	b.receive(2, &protocol.Drain{Head: b.head()})
	begin := beginTo(b, 1)
	for _, n := range []gossip.NodeID{1, 2} {
		b.receive(n, &protocol.BeginAck{Head: b.head(), Shards: begin.Shards})
	}
	id = begin.Shards[0].Shard
	b.now = b.c.table.shards[id].moveOf().deadline
	b.step(Tick{})
	if s := b.c.table.shards[id]; s.phase != asking || s.home != 2 {
		t.Fatalf("shard %v is in phase %v at %v", id, s.phase, s.home)
	}
	return b, id, 2
}

// beginTo returns the Begin that was sent to a node.
func beginTo(b *bench, to gossip.NodeID) *protocol.Begin {
	b.t.Helper()
	for _, e := range b.did {
		if s, is := e.(Send); is && s.To == to {
			if m, is := s.Msg.(*protocol.Begin); is {
				return m
			}
		}
	}
	b.t.Fatalf("no Begin to %v in %+v", to, b.did)
	return nil
}

// A node reports that it hosts a shard under a token that has ended: the report was under way
// while the shard stopped there and was allocated anew, maybe to the same node. It does not start
// the new allocation.
func TestAReportOfAnEndedAllocationStartsNoLaterOne(t *testing.T) {
	b := newBench(t, Config{Shards: 1}, 1, 2).settle(nil, nil).ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	home, first := b.c.table.shards[0].home, b.c.table.shards[0].token
	ended := []protocol.ShardToken{{Shard: 0, Token: first}}
	b.receive(home, &protocol.Stopped{Head: b.head(), Shards: ended})
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK})
	order := one[*protocol.HostShards](b)
	home = b.c.table.shards[0].home
	report := &protocol.ShardsHosted{Head: b.head(), Shards: ended}
	report.Seq = order.Seq
	b.receive(home, report).none(count[*protocol.Homes])
	report.Shards = []protocol.ShardToken{{Shard: 0, Token: order.Shards[0].Token}}
	for _, n := range []gossip.NodeID{1, 2} {
		if n != home {
			b.receive(n, report).none(count[*protocol.Homes])
		}
	}
	if b.receive(home, report); count[*protocol.Homes](b) == 0 || b.c.table.shards[0].phase != hosted {
		t.Errorf("its own report does not start it: %+v", b.did)
	}
}
