package region

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// newStates returns an empty table of node 1, and the effects that it causes.
func newStates() (*stateTable, *Effects) {
	out := &Effects{}
	return &stateTable{env: &env{cfg: Config{Self: 1, Shards: 4}, floors: &Floors{term: 1}, out: out}}, out
}

func state(seq uint64, from int) protocol.Held {
	return protocol.Held{Shard: 2, Token: protocol.Token{Term: 1, Seq: seq}, From: gossip.NodeID(from), Term: 1}
}

func allocation(seq uint64) protocol.ShardToken {
	return protocol.ShardToken{Shard: 2, Token: protocol.Token{Term: 1, Seq: seq}}
}

// Of two states of a shard, that of the newer allocation stays, whichever came first.
func TestTheNewerStateStays(t *testing.T) {
	for _, order := range [][]uint64{{5, 9}, {9, 5}} {
		ss, out := newStates()
		for _, seq := range order {
			ss.stateHeld(state(seq, 7))
		}
		want := []protocol.Held{state(9, 7)}
		if got := ss.heldStates(false); !slices.Equal(got, want) {
			t.Errorf("order %v: holds %v", order, got)
		}
		dropped := DropState{Shard: 2, Token: protocol.Token{Term: 1, Seq: 5}, From: 7}
		if len(out.Do) != 1 || out.Do[0] != dropped {
			t.Errorf("order %v: did %v", order, out.Do)
		}
	}
}

// A state is dropped once the shard lives under a later token, and not before.
func TestStatesEndWithTheNextAllocation(t *testing.T) {
	ss, out := newStates()
	ss.stateHeld(state(5, 1))
	ss.noteSent(allocation(5), 7)
	if got := ss.heldStates(false); len(got) != 1 || got[0].To != 7 {
		t.Fatalf("holds %v, sent to 7", got)
	}
	if ss.dropState(2, 7, protocol.Token{Term: 1, Seq: 5}); len(out.Do) != 0 || len(ss.kept) != 1 {
		t.Error("dropped under the token of its own allocation")
	}
	ss.dropState(2, 7, protocol.Token{Term: 1, Seq: 6})
	if len(ss.kept)+len(ss.sent) != 0 || len(out.Do) != 1 {
		t.Errorf("kept %v, sent %v, did %v", ss.kept, ss.sent, out.Do)
	}
}

// A state for which there is no room here, but only at its next home, is reported for as long as
// a kept one, with the term of the stop, and there is nothing to drop.
func TestAStateThatIsOnlyAtItsNextHomeIsReported(t *testing.T) {
	ss, out := newStates()
	away := state(5, 1)
	away.To, away.Away = 7, true
	ss.stateHeld(away)
	ss.floors.term = 3
	ss.noteSent(allocation(4), 7)
	if got := ss.heldStates(false); len(got) != 1 || got[0] != away {
		t.Fatalf("after the stop of another allocation: holds %+v, want %+v", got, away)
	}
	ss.noteSent(allocation(5), 7)
	away.Term = 3
	if got := ss.heldStates(false); len(got) != 1 || got[0] != away || len(ss.sent) != 0 {
		t.Errorf("after its stop: holds %+v, sent %v, want %+v", got, ss.sent, away)
	}
	if ss.dropState(2, 7, allocation(5).Token); len(ss.heldStates(false)) != 1 {
		t.Error("forgotten under the token of its own allocation")
	}
	if ss.dropState(2, 7, allocation(6).Token); len(ss.heldStates(false)) != 0 || len(out.Do) != 0 {
		t.Errorf("under a later token: holds %+v, did %v", ss.heldStates(false), out.Do)
	}

	ss.stateHeld(away)
	ss.stateHeld(state(5, 7))
	if len(ss.away) != 1 {
		t.Error("forgotten because of a state that is not newer")
	}
	if ss.stateHeld(state(6, 7)); len(ss.away) != 0 {
		t.Errorf("a newer state waits here, and %+v stays", ss.away)
	}
}

// A node that does not hold the state has sent none.
func TestOnlyHeldStatesAreSent(t *testing.T) {
	ss, _ := newStates()
	if ss.noteSent(allocation(5), 7); len(ss.sent) != 0 {
		t.Errorf("sent %v", ss.sent)
	}
	if ss.stateHeld(protocol.Held{Shard: 4}); len(ss.kept) != 0 {
		t.Error("holds the state of a shard beyond the type's")
	}
}

// A state that is sent again is the same state. It keeps the newer term: its shard had not
// stopped when that term was obeyed.
func TestAStateKeepsItsNewestTerm(t *testing.T) {
	for _, order := range [][]gossip.Epoch{{3, 4}, {4, 3}} {
		ss, out := newStates()
		for _, term := range order {
			s := state(5, 7)
			s.Term = term
			ss.stateHeld(s)
		}
		if got := ss.heldStates(false); len(got) != 1 || got[0].Term != 4 {
			t.Errorf("terms %v: holds %+v", order, got)
		}
		if len(out.Do) != 0 {
			t.Errorf("terms %v: did %+v", order, out.Do)
		}
	}
}

// The term of a stop is the newest that this node obeyed before the shard had stopped, and not
// the one in which it stopped another allocation.
func TestTheTermOfAStop(t *testing.T) {
	ss, _ := newStates()
	ss.stateHeld(state(5, 1))
	ss.floors.term = 9
	for _, c := range []struct {
		stopped uint64
		want    gossip.Epoch
	}{{4, 1}, {5, 9}} {
		if ss.noteSent(allocation(c.stopped), 7); ss.heldStates(false)[0].Term != c.want {
			t.Errorf("after the stop of %d: holds %+v, want term %v", c.stopped, ss.heldStates(false), c.want)
		}
	}
	received := state(6, 8)
	ss.stateHeld(received)
	if ss.noteSent(allocation(6), 7); ss.heldStates(false)[0].Term != received.Term {
		t.Errorf("the state of another node: holds %+v", ss.heldStates(false))
	}
}

// A stop that leaves no state, or none of this allocation, is reported immediately, also if its
// receiver has left: there is nothing to send elsewhere.
func TestAStopWithoutAStateIsNotStranded(t *testing.T) {
	for name, stop := range map[string]func(*bench, protocol.Token){
		"no receiver": func(b *bench, tok protocol.Token) { b.send(1, tok, 0).view(boss, self).keep(1, tok) },
		"no state": func(b *bench, tok protocol.Token) {
			b.send(1, tok, other).view(boss, self).step(ShardStopped{Shards: st(1, tok)})
		},
		"a former state": func(b *bench, tok protocol.Token) {
			b.send(1, tok, other).view(boss, self)
			b.step(StateHeld{Shard: 1, Token: protocol.Token{Term: tok.Term, Seq: tok.Seq - 1}, From: self})
			b.step(ShardStopped{Shards: st(1, tok)})
		},
		"a receiver that is there": func(b *bench, tok protocol.Token) { b.send(1, tok, other).keep(1, tok) },
	} {
		b := newBench(t, &Floors{})
		tok := b.run(1)
		if stop(b, tok); len(all[*protocol.Stopped](b)) != 1 {
			t.Errorf("%s: does %s", name, b.show())
		}
	}
}

// An order that is repeated while the shard stops is the one that the stop answers.
func TestAStopAnswersTheNewestOrder(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.send(1, tok, other)
	b.send(1, tok, other)
	newest := b.seq
	if m := only[*protocol.Stopped](b.keep(1, tok)); m.Seq != newest {
		t.Errorf("answers %d, want %d", m.Seq, newest)
	}
	// So is the order that leaves a stranded state where it is.
	b = newBench(t, &Floors{})
	tok = b.run(1)
	b.send(1, tok, other).view(boss, self).keep(1, tok)
	b.send(1, tok, 0)
	if m := only[*protocol.Stopped](b); m.Seq != b.seq {
		t.Errorf("answers %d, want %d", m.Seq, b.seq)
	}
}

// While a shard stops, an order to send its state elsewhere counts if the receiver has left. One
// without a receiver takes nothing back, and one that came while the receiver was there is void.
func TestOnlyALostReceiverIsReplaced(t *testing.T) {
	b := newBench(t, &Floors{})
	b.view(boss, self, other, fourth)
	tok := b.run(1)
	b.send(1, tok, other)
	b.view(boss, self, fourth).send(1, tok, fourth).send(1, tok, 0)
	if s := only[StopShard](b.keep(1, tok)); s.To != fourth {
		t.Errorf("sends the state to %v", s.To)
	}
	b = newBench(t, &Floors{})
	b.view(boss, self, other, fourth)
	tok = b.run(1)
	b.send(1, tok, other).send(1, tok, fourth)
	b.view(boss, self, fourth).keep(1, tok)
	refuse[StopShard](b)
	refuse[*protocol.Stopped](b)
}

// A shard that has stopped here with its state stops once more to send it, if the state is that
// of the order and its new home is another member. Otherwise the node repeats its promise.
func TestAKeptStateIsSentOnOrder(t *testing.T) {
	stopped := func() (*bench, protocol.Token) {
		b := newBench(t, &Floors{})
		tok := b.run(1)
		return b.send(1, tok, 0).keep(1, tok), tok
	}
	b, tok := stopped()
	b.send(1, tok, other)
	if s := only[StopShard](b); s.To != other || s.Token != tok {
		t.Errorf("sends %+v", s)
	}
	refuse[*protocol.Stopped](b)
	if m := only[*protocol.Stopped](b.keep(1, tok)); m.Seq != b.seq {
		t.Errorf("answers %d, want %d", m.Seq, b.seq)
	}
	for name, order := range map[string]func(*bench, protocol.Token){
		"to this node":     func(b *bench, tok protocol.Token) { b.send(1, tok, self) },
		"to no node":       func(b *bench, tok protocol.Token) { b.send(1, tok, 0) },
		"to the departed":  func(b *bench, tok protocol.Token) { b.view(boss, self).send(1, tok, other) },
		"of another token": func(b *bench, _ protocol.Token) { b.send(1, b.token(), other) },
		"of another shard": func(b *bench, tok protocol.Token) { b.send(2, tok, other) },
		"of another home": func(b *bench, tok protocol.Token) {
			b.step(StateHeld{Shard: 3, Token: tok, From: boss}).send(3, tok, other)
		},
	} {
		b, tok := stopped()
		order(b, tok)
		refuse[StopShard](b)
		if m := only[*protocol.Stopped](b); m.Seq != b.seq || len(b.c.Hosted()) != 0 {
			t.Errorf("%s: answers %d, want %d; hosts %v", name, m.Seq, b.seq, b.c.Hosted())
		}
	}
}

// The queries show the shards that live here, with those that stop.
func TestHostedShardsAreListed(t *testing.T) {
	b := newBench(t, &Floors{})
	runs, stops := b.run(1), b.run(4)
	b.handOff(4, stops)
	want := []protocol.Claim{{Shard: 1, Token: runs, State: protocol.ClaimHosted}, {Shard: 4, Token: stops, State: protocol.ClaimStopping}}
	if got := b.c.Hosted(); !slices.Equal(got, want) {
		t.Errorf("lists %+v, want %+v", got, want)
	}
}

// Of two states of one allocation, which cannot be, the later report counts. The census reports
// no more states than fit into its message.
func TestStatesOfTheCensusAreBounded(t *testing.T) {
	ss, out := newStates()
	ss.stateHeld(state(5, 7))
	ss.stateHeld(state(5, 8))
	if got := ss.heldStates(false); len(got) != 1 || got[0] != state(5, 8) || len(out.Do) != 1 {
		t.Errorf("holds %+v, does %+v", got, out.Do)
	}
	if ss.dropState(3, 7, protocol.Token{Term: 1, Seq: 9}); len(out.Do) != 1 {
		t.Errorf("drops a state that is not here: %+v", out.Do)
	}
	ss.cfg.Shards = protocol.ShardsMax
	for i := range protocol.HeldMax + 2 {
		s := state(5, 7)
		s.Shard = protocol.ShardID(i)
		ss.stateHeld(s)
	}
	if got := ss.heldStates(false); len(got) != protocol.HeldMax || got[len(got)-1].Shard != protocol.HeldMax-1 {
		t.Errorf("reports %d states, the last of shard %v", len(got), got[len(got)-1].Shard)
	}
	own := state(5, 1)
	own.Shard = protocol.HeldMax + 1
	ss.stateHeld(own)
	if got := ss.heldStates(true); len(got) != 1 || got[0].Shard != own.Shard {
		t.Errorf("a node that starts nothing reports %d states, and not its own behind those of others", len(got))
	}
}
