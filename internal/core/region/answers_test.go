package region

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// replies returns the messages of type M that the last step sent, with their receivers.
func replies[M protocol.Message](b *bench) (to []gossip.NodeID, all []M) {
	for _, e := range b.did {
		if s, is := e.(Send); is {
			if m, is := s.Msg.(M); is {
				to, all = append(to, s.To), append(all, m)
			}
		}
	}
	return to, all
}

// Orders that waited for the lease are obeyed in one step. Each is answered by itself: the number
// of an answer names one order, and the coordinator counts only answers to its newest one.
func TestEachOrderIsAnsweredByItself(t *testing.T) {
	b := newBench(t, &Floors{})
	one, two := b.run(1), b.run(2)
	stops := []protocol.ShardToken{{Shard: 3, Token: b.token()}, {Shard: 4, Token: b.token()}}
	b.step(LeaseChanged{})
	b.hostShard(1, one)
	first := b.seq
	b.hostShard(2, two)
	// These shards do not run here. The last order is about one that does, and so all wait.
	h := b.head()
	for _, s := range stops {
		b.receive(&protocol.HandOff{Head: h, Shards: []protocol.HandOffOrder{
			{Shard: s.Shard, Token: s.Token, Move: h.Stamp()}, {Shard: 1, Token: one, Move: protocol.Token{}},
		}})
		h = b.head()
	}
	b.step(LeaseChanged{Valid: true})
	_, hosted := replies[*protocol.ShardsHosted](b)
	if len(hosted) != 2 || hosted[0].Seq != first || hosted[1].Seq != first+1 ||
		!slices.Equal(hosted[0].Shards, st(1, one)) || !slices.Equal(hosted[1].Shards, st(2, two)) {
		t.Errorf("hosted: %s", b.show())
	}
	_, stopped := replies[*protocol.Stopped](b)
	if len(stopped) != 2 || stopped[0].Seq != first+2 || stopped[1].Seq != first+3 ||
		!slices.Equal(stopped[0].Shards, stops[:1]) || !slices.Equal(stopped[1].Shards, stops[1:]) {
		t.Errorf("stopped: %s", b.show())
	}
}

// Two orders about one shard, which waited for the lease together, have an answer each: the
// coordinator may count only answers to its last one.
func TestTwoOrdersAboutOneShardAreAnsweredTwice(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.step(LeaseChanged{})
	b.hostShard(1, tok)
	first := b.seq
	b.hostShard(1, tok)
	b.step(LeaseChanged{Valid: true})
	_, hosted := replies[*protocol.ShardsHosted](b)
	if len(hosted) != 2 || hosted[0].Seq != first || hosted[1].Seq != first+1 || !slices.Equal(hosted[1].Shards, st(1, tok)) {
		t.Errorf("hosted: %s", b.show())
	}
}

// Orders of two nodes are answered to each of them, in the order of the nodes.
func TestEachSenderHasItsAnswers(t *testing.T) {
	var a answers
	entry := func(to gossip.NodeID, seq uint64, s protocol.ShardID) {
		a.addAnswer(to, &protocol.Head{Seq: seq}, protocol.ShardToken{Shard: s})
	}
	entry(7, 1, 0)
	entry(5, 2, 1)
	entry(5, 1, 2)
	entry(7, 1, 3)
	entry(7, 1, 3) // a copy of the order
	entry(5, 1, 4)
	type sent struct {
		to     gossip.NodeID
		seq    uint64
		shards []protocol.ShardID
	}
	var got []sent
	a.drainAnswers(func(to gossip.NodeID, seq uint64, list []protocol.ShardToken) {
		s := sent{to: to, seq: seq}
		for _, st := range list {
			s.shards = append(s.shards, st.Shard)
		}
		got = append(got, s)
	})
	want := []sent{{5, 1, []protocol.ShardID{2, 4}}, {5, 2, []protocol.ShardID{1}}, {7, 1, []protocol.ShardID{0, 3}}}
	if !slices.EqualFunc(got, want, func(a, b sent) bool { return a.to == b.to && a.seq == b.seq && slices.Equal(a.shards, b.shards) }) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

// A refusal comes from any node that this one asked to register, also from the coordinator of
// another role under a later term. It is no order: the term of this type's coordinator is obeyed
// as before.
func TestARefusalRaisesNoFloor(t *testing.T) {
	b := newBench(t, &Floors{})
	b.run(1)
	term := b.c.floors.term
	b.view(boss, self, other)
	for _, from := range []gossip.NodeID{other, boss} {
		b.step(Received{From: from, Msg: &protocol.RegisterRefused{Head: b.head(), Conflict: protocol.Conflict{Setting: "role"}}})
	}
	if b.c.floors.term != term {
		t.Errorf("obeys terms from %v on, %v before", b.c.floors.term, term)
	}
	order := &protocol.HostShards{Head: b.headOf(term), Shards: []protocol.HostOrder{{Shard: 2, Token: protocol.Token{Term: term, Seq: b.seq}}}}
	b.receive(order)
	want[StartShard](b)
}

// A node that drains and has no lease runs no stop handler: it is user code, and the shard may
// run elsewhere by now. The stops begin when the lease returns.
func TestADrainStopsNothingWithoutALease(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	starts := b.token()
	b.hostShard(2, starts)
	b.step(Drain{}).step(LeaseChanged{})
	b.receive(&protocol.Drained{Head: b.head(), Left: 2})
	for range 3 {
		refuse[StopShard](b)
		refuse[Drained](b)
		b.tick(time.Second)
	}
	b.step(LeaseChanged{Valid: true})
	var stops []protocol.ShardToken
	for _, e := range b.did {
		if s, is := e.(StopShard); is {
			stops = append(stops, protocol.ShardToken{Shard: s.Shard, Token: s.Token})
		}
	}
	if !slices.Equal(stops, append(st(1, tok), st(2, starts)...)) {
		t.Fatalf("stops %v", stops)
	}
	b.step(ShardStopped{Shards: stops[:1]})
	refuse[Drained](b)
	b.step(ShardStopped{Shards: stops[1:]})
	want[Drained](b)
	// It is reported once.
	b.tick(time.Second)
	refuse[Drained](b)
}
