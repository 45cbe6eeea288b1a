package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// stopped has a node say that shard 0 has stopped, in answer to the order seq.
func (b *bench) stopped(from gossip.NodeID, t protocol.Token, seq uint64) *bench {
	b.t.Helper()
	h := b.head()
	h.Seq = seq
	return b.receive(from, &protocol.Stopped{Head: h, Shards: []protocol.ShardToken{{Token: t}}})
}

func (b *bench) begun(m *protocol.Begin, from ...gossip.NodeID) *bench {
	b.t.Helper()
	for _, n := range from {
		b.receive(n, &protocol.BeginAck{Head: b.head(), Shards: m.Shards})
	}
	return b
}

// leaver is a coordinator on node 1 of four: shard 0 lives at 2, which drains, and the
// routes are being closed. It returns the new home, 3 or 4, and what closes them.
func leaver(t *testing.T) (b *bench, tok protocol.Token, to gossip.NodeID, begin *protocol.Begin) {
	tok = protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b = newBench(t, Config{Shards: 2}, 1, 2, 3, 4).settle(nil, map[gossip.NodeID][]protocol.Claim{
		1: {{Shard: 1, Token: protocol.Token{Term: gossip.FirstEpoch(3), Seq: 4}}}, 2: {{Token: tok}},
	})
	b.drain(2)
	return b, tok, b.c.table.shards[0].moveOf().target, find[*protocol.Begin](b)[0]
}

// handedOff is a leaver whose shard is stopping.
func handedOff(t *testing.T) (b *bench, tok protocol.Token, to gossip.NodeID) {
	b, tok, to, begin := leaver(t)
	b.begun(begin, 1, 2, 3, 4)
	if o := one[*protocol.HandOff](b).Shards[0]; o.To != to {
		t.Fatalf("sent to %v, not to %v", o.To, to)
	}
	return b, tok, to
}

// A node that begins to drain while a state is on its way to it is not done before
// the state has come, and gets the shard: from there it moves on, with the state.
func TestAStateIsPlacedWhereItWaitsAlsoIfThatNodeDrains(t *testing.T) {
	b, tok, to := handedOff(t)
	b.drain(to).none(count[*protocol.Drained])
	b.stopped(2, tok, 0)
	w := one[Write](b)
	if r := w.Records[0]; r.Home != to || r.From != 2 {
		t.Fatalf("written %+v, want %v from 2", r, to)
	}
	for _, e := range b.did {
		if s, ok := e.(Send); ok && s.To == to {
			if _, is := s.Msg.(*protocol.Drained); is {
				t.Error("told that it is drained while a shard comes")
			}
		}
	}
	b.step(WriteDone{ID: w.ID, Result: OK}).started()
	if begins := find[*protocol.Begin](b); len(begins) == 0 || b.c.table.shards[0].moveOf().target == 2 {
		t.Errorf("the shard does not move on: %+v", b.did)
	}
	b.none(count[*protocol.Drained])
}

// The same with nobody to move on to: the shard comes to life, and is stopped there
// in order.
func TestAStateIsPlacedWhereItWaitsAlsoIfAllDrain(t *testing.T) {
	b, tok, to := handedOff(t)
	for _, n := range b.c.view.Members {
		b.drain(n.ID)
	}
	b.stopped(2, tok, 0)
	w := one[Write](b)
	if r := w.Records[0]; r.Home != to || r.From != 2 {
		t.Fatalf("written %+v, want %v from 2", r, to)
	}
	b.step(WriteDone{ID: w.ID, Result: OK}).started()
	if m := one[*protocol.Drained](b); m.Left != 1 {
		t.Errorf("%+v", m)
	}
}

// The new home may hold an older state from the same former home, of a move that was undone. So
// the record and the order to start name the allocation that ended there.
func TestTheOrderToStartNamesTheAllocationThatEnded(t *testing.T) {
	b, ended, to := handedOff(t)
	from := gossip.NodeID(2)
	for range 2 {
		w := one[Write](b.stopped(from, ended, 0))
		if r := w.Records[0]; r.From != from || r.Ended != ended {
			t.Errorf("written %+v, want %v from %v", r, ended, from)
		}
		order := one[*protocol.HostShards](b.step(WriteDone{ID: w.ID, Result: OK}))
		if o := order.Shards[0]; o.From != from || o.Ended != ended {
			t.Errorf("ordered %+v, want %v from %v", o, ended, from)
		}
		from, ended = to, order.Shards[0].Token
		b.started()
		b.begun(find[*protocol.Begin](b.drain(to))[0], 1, 2, 3, 4)
		to = b.c.table.shards[0].moveOf().target
	}
}

// If the new home begins to drain, or dies, before anything was stopped, another
// one is named; if there is none, the shard stays.
func TestAMoveTurnsBeforeAnythingStops(t *testing.T) {
	b, _, to, begin := leaver(t)
	b.drain(to).begun(begin, 1, 2, 3, 4)
	if o := one[*protocol.HandOff](b).Shards[0]; o.To == to || o.To == 2 || o.To == 0 {
		t.Errorf("sent to %v", o.To)
	}
	b, tok, _, begin := leaver(t)
	for n := gossip.NodeID(1); n <= 4; n++ {
		b.drain(n)
	}
	b.begun(begin, 1, 2, 3, 4).none(count[*protocol.HandOff])
	if s := &b.c.table.shards[0]; s.phase != hosted || s.home != 2 || s.token != tok {
		t.Errorf("in phase %v at %v under %v", s.phase, s.home, s.token)
	}
}

// The new home dies while the shard stops: its former home, which keeps the state,
// receives another one. Answers that it sent before it received the change do not count.
func TestAMoveTurnsWhenItsNewHomeDies(t *testing.T) {
	b, tok, to := handedOff(t)
	b.view(1, 2, 7-to)
	order := one[*protocol.HandOff](b)
	if o := order.Shards[0]; o.To == to || o.To == 0 || o.Token != tok {
		t.Fatalf("ordered %+v", o)
	}
	b.stopped(2, tok, order.Seq-1).none(count[Write])
	if !b.traced(TraceStale) {
		t.Error("not said")
	}
	b.stopped(2, tok, order.Seq)
	if r := one[Write](b).Records[0]; r.Home != order.Shards[0].To || r.From != 2 {
		t.Errorf("written %+v", r)
	}
}

// The former home dies before it can say that the shard has stopped: its state may
// be at the new one, which gets the shard.
func TestAStateThatCameFromTheDeadIsTaken(t *testing.T) {
	b, _, to := handedOff(t)
	b.view(1, 3, 4)
	if r := one[Write](b).Records[0]; r.Home != to || r.From != 2 {
		t.Errorf("written %+v, want %v from 2", r, to)
	}
	// Not so if it was not stopping.
	b, _, _, _ = leaver(t)
	b.view(1, 3, 4)
	if r := one[Write](b).Records[0]; r.From != 0 {
		t.Errorf("written %+v", r)
	}
}

// A successor finds a state at its new home, which drains: it is placed there, if the
// former home has gone or may not say it again.
func TestResumesAMoveToANodeThatDrains(t *testing.T) {
	tok := protocol.Token{Term: gossip.FirstEpoch(3), Seq: 5}
	b := newBench(t, Config{Shards: 1}, 1, 2, 3)
	b.step(ReadDone{ID: b.c.census.readID, Result: OK, Records: []protocol.Record{
		{Home: 3, From: 2, Ended: tok, Token: protocol.Token{Term: gossip.FirstEpoch(3), Seq: 8}, State: protocol.Allocated},
	}})
	b.drain(3)
	for n := gossip.NodeID(1); n <= 3; n++ {
		r := &protocol.CensusReport{Head: b.head(), Hosts: true}
		if n == 3 {
			r.Held = []protocol.Held{{Token: tok, From: 2, Term: tok.Term}}
		}
		b.receive(n, r)
	}
	if r := one[Write](b).Records[0]; r.Home != 3 || r.From != 2 {
		t.Errorf("written %+v", r)
	}
}
