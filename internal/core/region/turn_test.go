package region

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// send orders the node to stop a shard and to send its state to another.
func (b *bench) send(s protocol.ShardID, t protocol.Token, to gossip.NodeID) *bench {
	b.t.Helper()
	h := b.head()
	return b.receive(&protocol.HandOff{Head: h, Within: time.Second, Shards: []protocol.HandOffOrder{{Shard: s, Token: t, Move: h.Stamp(), To: to}}})
}

// keep is what the shell says when a shard has stopped and its state is kept.
func (b *bench) keep(s protocol.ShardID, t protocol.Token) *bench {
	b.t.Helper()
	return b.step(StateHeld{Shard: s, Token: t, From: self}).step(ShardStopped{Shards: st(s, t)})
}

// A node that drains starts a shard whose state waits there, until it has received that
// nothing more can go: from there the shard can be moved on.
func TestADrainingNodeTakesWhatWaitsThere(t *testing.T) {
	for _, last := range []bool{false, true} {
		b := newBench(t, &Floors{})
		b.run(5)
		b.step(Drain{}).step(StateHeld{Shard: 1, Token: b.token(), From: other})
		if last {
			b.receive(&protocol.Drained{Head: b.head(), Left: 1})
		}
		b.hostShard(1, b.token())
		if last {
			refuse[StartShard](b)
			want[*protocol.Stopped](b)
			continue
		}
		want[StartShard](b)
		b.hostShard(2, b.token())
		refuse[StartShard](b)
	}
}

// TestADrainedNodeReportsOnlyItsOwnStates checks that a node, once no shard can be moved away from it,
// reports no state that waits there for a shard: it would not start the shard. It still reports what
// an allocation of its own has left, which it can send again.
func TestADrainedNodeReportsOnlyItsOwnStates(t *testing.T) {
	b := newBench(t, &Floors{})
	own := b.run(5)
	b.send(5, own, other).keep(5, own)
	b.step(Drain{}).step(StateHeld{Shard: 1, Token: b.token(), From: other})
	b.receive(&protocol.CensusRequest{Head: b.head()})
	if m := want[*protocol.CensusReport](b); len(m.Held) != 2 {
		t.Errorf("a draining node reports %+v, want both states", m.Held)
	}
	b.receive(&protocol.Drained{Head: b.head()})
	b.receive(&protocol.CensusRequest{Head: b.head()})
	if m := want[*protocol.CensusReport](b); len(m.Held) != 1 || m.Held[0].Shard != 5 {
		t.Errorf("a drained node reports %+v, want its own state", m.Held)
	}
}

// The shell starts a shard with the state that the order names, and with no other.
func TestAShardStartsWithTheStateThatTheOrderNames(t *testing.T) {
	b := newBench(t, &Floors{})
	undone, ended := b.token(), b.token()
	b.step(StateHeld{Shard: 1, Token: undone, From: other})
	o := protocol.HostOrder{Shard: 1, Token: b.token(), From: other, Ended: ended}
	b.receive(&protocol.HostShards{Head: b.head(), Shards: []protocol.HostOrder{o}})
	if s := want[StartShard](b); s != (StartShard{Shard: 1, Token: o.Token, From: other, Ended: ended}) {
		t.Errorf("%+v", s)
	}
	if d := want[DropState](b); d.Token != undone {
		t.Errorf("%+v", d)
	}
}

// The home to which a state was sent has died: Stopped is not said before another
// one has it, or the coordinator has none listed.
func TestAStrandedStateGoesToAnother(t *testing.T) {
	const third gossip.NodeID = 4
	b := newBench(t, &Floors{})
	b.view(boss, self, other, third)
	tok := b.run(1)
	b.send(1, tok, other)
	b.view(boss, self, third).keep(1, tok)
	refuse[*protocol.Stopped](b)
	b.send(1, tok, other)
	refuse[StopShard](b)
	b.send(1, tok, third)
	if s := want[StopShard](b); s.To != third || s.Token != tok {
		t.Errorf("%+v", s)
	}
	seq := b.seq
	b.keep(1, tok)
	if m := want[*protocol.Stopped](b); m.Seq != seq || m.Shards[0].Token != tok {
		t.Errorf("%+v answers, want %d", m, seq)
	}
	// The same order once more was late, and is answered; another one is obeyed.
	b.send(1, tok, third)
	refuse[StopShard](b)
	if m := want[*protocol.Stopped](b); m.Seq != b.seq {
		t.Errorf("%+v answers, want %d", m, b.seq)
	}
	b.send(1, tok, boss)
	if s := want[StopShard](b); s.To != boss {
		t.Errorf("%+v", s)
	}
}

func TestAStrandedStateStaysIfThereIsNoOther(t *testing.T) {
	for name, end := range map[string]func(*bench, protocol.Token){
		"ordered":   func(b *bench, tok protocol.Token) { b.send(1, tok, 0) },
		"asked":     func(b *bench, tok protocol.Token) { b.hostShard(1, tok) },
		"abandoned": func(b *bench, _ protocol.Token) { b.step(Abandoned{}) },
		"drained":   func(b *bench, _ protocol.Token) { b.step(Drain{}).receive(&protocol.Drained{Head: b.head()}) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, &Floors{})
			tok := b.run(1)
			b.send(1, tok, other)
			b.view(boss, self).keep(1, tok)
			refuse[*protocol.Stopped](b)
			end(b, tok)
			want[*protocol.Stopped](b)
			if len(b.c.Hosted()) > 0 || len(b.c.states.kept) != 1 {
				t.Errorf("hosted %v, kept %v", b.c.Hosted(), b.c.states.kept)
			}
		})
	}
}

// A stop that an earlier coordinator has ordered answers no order of this one.
func TestAStopAnswersOnlyOrdersOfItsTerm(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.send(1, tok, other)
	b.view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	b.step(ShardStopped{Shards: st(1, tok)})
	if m := want[*protocol.Stopped](b); m.Seq != 0 {
		t.Errorf("answers %d", m.Seq)
	}
}

// A shard keeps its token when the generation rises. The order to stop it is of the new
// generation, and so is the term of its state, here and at its new home. If another coordinator
// takes office meanwhile, the term of the state that stays here is that one's.
func TestAStateHasTheTermInWhichItsShardStopped(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		b := newBench(t, &Floors{})
		tok := b.run(1)
		b.epoch = gossip.TakeoverEpoch(2)
		b.view(boss, self, other).send(1, tok, other)
		ordered := b.epoch
		if s := want[StopShard](b); s.Token != tok || s.Term != ordered {
			t.Fatalf("%+v, want term %v", s, ordered)
		}
		if replaced {
			b.view(boss, self, other).receive(&protocol.CensusRequest{Head: b.head()})
		}
		b.step(StateHeld{Shard: 1, Token: tok, From: self, Term: ordered}).step(ShardStopped{Shards: st(1, tok)})
		obeyed := b.epoch
		b.view(boss, self, other).receive(&protocol.CensusRequest{Head: b.head()})
		kept := protocol.Held{Shard: 1, Token: tok, From: self, To: other, Term: obeyed}
		if m := want[*protocol.CensusReport](b); len(m.Held) != 1 || m.Held[0] != kept {
			t.Errorf("replaced %v: holds %+v, want %+v", replaced, m.Held, kept)
		}
	}
}
