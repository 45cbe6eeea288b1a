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
		if got := ss.heldStates(); !slices.Equal(got, want) {
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
	if got := ss.heldStates(); len(got) != 1 || got[0].To != 7 {
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
		if got := ss.heldStates(); len(got) != 1 || got[0].Term != 4 {
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
		if ss.noteSent(allocation(c.stopped), 7); ss.heldStates()[0].Term != c.want {
			t.Errorf("after the stop of %d: holds %+v, want term %v", c.stopped, ss.heldStates(), c.want)
		}
	}
	received := state(6, 8)
	ss.stateHeld(received)
	if ss.noteSent(allocation(6), 7); ss.heldStates()[0].Term != received.Term {
		t.Errorf("the state of another node: holds %+v", ss.heldStates())
	}
}
