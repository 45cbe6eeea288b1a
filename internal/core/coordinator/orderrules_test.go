package coordinator

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// inPhase returns a coordinator on node 1 of four. Shard 0 lives at 2 and is in the given phase, shard 1 is
// being started, so that an order is out. The order of shard 0 has left at the returned time.
func inPhase(t *testing.T, p phase) (b *bench, left clock.Instant) {
	b = newBench(t, Config{Shards: 2, Rebalance: time.Hour, RemoveAfter: time.Hour}, 1, 2, 3, 4)
	claim := protocol.Claim{Token: protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}}
	if p == starting {
		claim.State = protocol.ClaimStarting
	}
	b.settle(nil, map[gossip.NodeID][]protocol.Claim{2: {claim}, 1: {{Shard: 1, Token: protocol.Token{Term: 5, Seq: 1}, State: protocol.ClaimStarting}}})
	if p == starting || p == hosted {
		return b, b.now
	}
	b.drain(2)
	if p == closing {
		return b, b.now
	}
	b.begun(&protocol.Begin{Shards: []protocol.ShardToken{{Shard: 0, Token: b.c.table.shards[0].move.stamp}}}, 1, 2, 3, 4)
	if p == asking {
		b.now = b.c.table.shards[0].move.deadline
		b.step(Tick{})
	}
	if got := b.c.table.shards[0].phase; got != p {
		t.Fatalf("in phase %v, want %v", got, p)
	}
	return b, b.now
}

// ordersOf counts the orders of the last step about shard 0, by the phase that they belong to.
func (b *bench) ordersOf(p phase) (n int) {
	for _, e := range b.did {
		s, ok := e.(Send)
		if !ok {
			continue
		}
		switch m := s.Msg.(type) {
		case *protocol.Begin:
			n += len(m.Shards) * btoi(p == closing)
		case *protocol.HandOff:
			n += len(m.Shards) * btoi(p == stopping)
		case *protocol.HostShards:
			for _, o := range m.Shards {
				n += btoi((p == starting || p == asking) && o.Shard == 0)
			}
		}
	}
	return n
}

func btoi(is bool) int {
	if is {
		return 1
	}
	return 0
}

// TestEachOrderIsSentAgainAfterAWhile checks, for each phase that waits, that its order is sent again in a round of
// retransmissions to those that have not answered, not sooner than half the time between rounds after it last left;
// and that these owe an answer from then on.
func TestEachOrderIsSentAgainAfterAWhile(t *testing.T) {
	for p, owe := range map[phase][]gossip.NodeID{starting: {2}, closing: {2, 3, 4}, stopping: {2}, asking: {2}} {
		to := len(owe) + btoi(p == closing) // this node closes its own route, and owes itself nothing
		b, left := inPhase(t, p)
		half := b.c.cfg.Resend / 2
		for range 2 {
			b.c.table.nextResend = left.Add(half - 1)
			b.now = b.c.table.nextResend
			if n := b.step(Tick{}).ordersOf(p); n != 0 {
				t.Errorf("%v: sent again to %d nodes after less than half the time", p, n)
			}
			b.c.table.nextResend = left.Add(half)
			b.now = b.c.table.nextResend
			if n := b.step(Tick{}).ordersOf(p); n != to {
				t.Errorf("%v: sent again to %d nodes, want %d", p, n, to)
			}
			left = b.now
		}
		for n, q := range b.c.members.peers {
			if (q.owed != 0) != slices.Contains(owe, n) {
				t.Errorf("%v: node %v owes an answer since %v", p, n, q.owed)
			}
		}
		b.c.table.nextResend, b.now = left.Add(2*time.Second), left.Add(time.Second)
		if n := b.step(Tick{}).ordersOf(p); n != 0 {
			t.Errorf("%v: sent again to %d nodes before the round", p, n)
		}
	}
}

// TestAnOrderThatATickCausesIsNoProbe checks that only a retransmission asks for a sign of life, and not the first order
// of a move that a look at the balance begins.
func TestAnOrderThatATickCausesIsNoProbe(t *testing.T) {
	home := gossip.NodeID(2)
	b := newBench(t, Config{Shards: 1, Strategy: homeAt{node: &home}}, 1, 2).settle(nil, nil).ask(1, 0)
	b.step(WriteDone{ID: one[Write](b).ID, Result: OK}).started()
	home, b.now = 1, b.c.nextRebalance
	begins := find[*protocol.Begin](b.step(Tick{}))
	if len(begins) != 2 || begins[0].Probe || begins[1].Probe {
		t.Errorf("ordered %+v, want two orders that are no probes", begins)
	}
	b.now = b.c.table.nextResend
	if again := find[*protocol.Begin](b.step(Tick{})); len(again) != 2 || !again[0].Probe || !again[1].Probe {
		t.Errorf("repeated %+v, want two probes", again)
	}
	if o := one[*protocol.HandOff](b.begun(begins[0], 1, 2)); o.Probe {
		t.Errorf("ordered %+v after a round of retransmissions, want no probe", o)
	}
}

// TestAStopThatTakesTooLongIsAskedAfter checks the time that an owner has to stop a shard: only then it is asked
// whether it still serves the shard, which has no time-out.
func TestAStopThatTakesTooLongIsAskedAfter(t *testing.T) {
	b, left := inPhase(t, stopping)
	deadline := b.c.table.shards[0].move.deadline
	if deadline != left.Add(b.c.cfg.StopTimeout+stopGrace) {
		t.Errorf("the owner has %v, want %v", deadline.Sub(left), b.c.cfg.StopTimeout+stopGrace)
	}
	b.now = deadline - 1
	if b.step(Tick{}); b.c.table.shards[0].phase != stopping {
		t.Errorf("before the time-out in phase %v", b.c.table.shards[0].phase)
	}
	b.c.table.nextResend, b.now = deadline, deadline
	if b.step(Tick{}); b.c.table.shards[0].phase != asking || b.ordersOf(asking) != 1 {
		t.Errorf("after it in phase %v, asked %d times", b.c.table.shards[0].phase, b.ordersOf(asking))
	}
	b.now = b.now.Add(time.Hour)
	if b.step(Tick{}); b.c.table.shards[0].phase != asking {
		t.Errorf("an hour later in phase %v", b.c.table.shards[0].phase)
	}
}

// TestWhatAStopMeans checks, for each phase, which Stopped frees a shard: that of its home under its token or
// a higher one. Only after an order to stop, the state waits at that home.
func TestWhatAStopMeans(t *testing.T) {
	for _, c := range []struct {
		phase       phase
		from        gossip.NodeID
		seq         uint64 // of the token; the shard has 5
		frees, keep bool
	}{
		{starting, 2, 5, true, false}, {starting, 2, 4, false, false}, {starting, 3, 5, false, false},
		{hosted, 2, 5, true, false}, {hosted, 2, 6, true, false}, {hosted, 2, 4, false, false}, {hosted, 3, 9, false, false},
		{closing, 2, 5, true, false}, {closing, 3, 5, false, false},
		{stopping, 2, 5, true, true}, {stopping, 2, 6, true, true}, {stopping, 2, 4, false, false}, {stopping, 4, 5, false, false},
		{asking, 2, 5, true, true}, {asking, 2, 4, false, false}, {asking, 3, 5, false, false},
	} {
		b, _ := inPhase(t, c.phase)
		tok := b.c.table.shards[0].token
		b.step(LeaseChanged{}) // nothing is placed
		target := b.c.table.shards[0].moveOf().target
		b.stopped(c.from, protocol.Token{Term: tok.Term, Seq: c.seq}, 0)
		one[*protocol.StoppedAck](b)
		s := &b.c.table.shards[0]
		if (s.phase == free) != c.frees {
			t.Errorf("%v, from %v with number %d: the shard is %v", c.phase, c.from, c.seq, s.phase)
			continue
		}
		w := s.waitOf()
		if kept := w.from == 2 && w.ended == tok; kept != c.keep || !kept && w.from != 0 {
			t.Errorf("%v: the state of %v waits at %v", c.phase, w.ended, w.from)
		}
		if c.frees && (w.prefer != target || !s.known || w.failed != btoi(c.phase == starting)) {
			t.Errorf("%v: goes to %v, want %v, after %d failed starts", c.phase, w.prefer, target, w.failed)
		}
	}
}

// TestAnswersToATurnedMove checks which Stopped counts once a move was turned to another home: an answer to the
// order that turned it, or to a later one of this term.
func TestAnswersToATurnedMove(t *testing.T) {
	for name, c := range map[string]struct {
		turned bool
		term   gossip.Epoch // less than the present one
		seq    int          // beyond that of the order
		want   bool
	}{
		"the order": {true, 0, 0, true}, "a later one": {true, 0, 1, true}, "an earlier one": {true, 0, -1, false},
		"one of another term": {true, 1, 1, false}, "one of another term, and it was not turned": {false, 1, 1, true},
	} {
		b, tok, to := handedOff(t)
		if c.turned {
			b.view(1, 2, 7-to)
		}
		h := b.head()
		h.Term, h.Seq = h.Term-c.term, uint64(int(b.c.table.shards[0].move.turned)+c.seq)
		b.receive(2, &protocol.Stopped{Head: h, Shards: []protocol.ShardToken{{Token: tok}}})
		if ended := b.c.table.shards[0].phase != stopping; ended != c.want {
			t.Errorf("in answer to %s: counts %v, want %v", name, ended, c.want)
		}
	}
}

// TestTheCountOfMovesIsBounded checks that the count stops at its highest value.
func TestTheCountOfMovesIsBounded(t *testing.T) {
	var s shard
	for range 2 * math.MaxUint8 {
		s.noteMove(1, time.Hour, 3)
	}
	if s.moves != math.MaxUint8 || s.since != 3 {
		t.Errorf("%d moves since %v", s.moves, s.since)
	}
}

// TestWhichOrdersAnAnswerEnds checks that an acknowledgement of Begin counts for the move that it names.
func TestWhichOrdersAnAnswerEnds(t *testing.T) {
	b, _ := inPhase(t, closing)
	stamp := b.c.table.shards[0].move.stamp
	earlier := protocol.Token{Term: stamp.Term, Seq: stamp.Seq - 1}
	for _, st := range []protocol.ShardToken{{Shard: 0, Token: earlier}, {Shard: 1, Token: stamp}, {Shard: 2, Token: stamp}} {
		b.begun(&protocol.Begin{Shards: []protocol.ShardToken{st}}, 1, 2, 3, 4)
	}
	if s := &b.c.table.shards[0]; s.phase != closing || len(s.move.closers) != 4 {
		t.Errorf("in phase %v, %d answers are missing, want 4", s.phase, len(s.moveOf().closers))
	}
}
