package statetransfer

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

var (
	fromTwo = arrivalKey{"t", 3, 2}
	oldest  = protocol.Token{Term: 1, Seq: 1}
	older   = protocol.Token{Term: 1, Seq: 2}
	newer   = protocol.Token{Term: 2, Seq: 1}
)

// holds fails the test unless exactly these states of an allocation are held, and the count of
// bytes is right.
func (a *arrivals) holds(t *testing.T, k arrivalKey, token protocol.Token, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for id, state := range a.copyStates(k, token) {
		got[id] = string(state)
	}
	if !maps.Equal(got, want) {
		t.Errorf("kept of %v: %v, want %v", token, got, want)
	}
	sum := 0
	for _, kept := range a.all {
		for _, state := range kept.states {
			sum += len(state)
		}
	}
	if a.bytes != sum {
		t.Errorf("counts %d bytes of %d", a.bytes, sum)
	}
}

func TestStatesOfAShardStartItOnceAllOfThemAreHere(t *testing.T) {
	var a arrivals
	if a.completeShard(fromTwo, older, 0) {
		t.Error("complete before anything came")
	}
	a.addState(fromTwo, older, "a", []byte("1"))
	// Retransmitted after a loss.
	a.addState(fromTwo, older, "a", []byte("1"))
	if a.completeShard(fromTwo, older, 2) {
		t.Error("complete with one state of two")
	}
	a.addState(fromTwo, older, "b", []byte("22"))
	a.holds(t, fromTwo, older, map[string]string{"a": "1", "b": "22"})
	if a.completeShard(fromTwo, newer, 2) {
		t.Error("complete by the count of another allocation")
	}
	if !a.completeShard(fromTwo, older, 2) {
		t.Error("not complete with all states")
	}
	if got := a.takeStates(arrivalKey{"t", 3, 9}, newer); got != nil {
		t.Error("taken as those of another former home")
	}
	if got := a.takeStates(fromTwo, newer); len(got) != 2 || string(got["b"]) != "22" {
		t.Errorf("taken: %v", got)
	}
	a.holds(t, fromTwo, older, nil)
	if got := a.takeStates(fromTwo, newer); got != nil {
		t.Errorf("taken twice: %v", got)
	}
}

// A shard that starts before all of its states are here starts without any: entities with
// states would contradict entities without.
func TestPartOfAShardsStatesStartsNothing(t *testing.T) {
	var a arrivals
	a.addState(fromTwo, older, "a", []byte("1"))
	if got := a.takeStates(fromTwo, newer); got != nil {
		t.Errorf("taken: %v", got)
	}
	a.holds(t, fromTwo, older, nil)
}

// The allocation of states has ended: they start a later one only.
func TestStatesStartALaterAllocationThanTheirs(t *testing.T) {
	var a arrivals
	a.holdShard(fromTwo, newer, map[string][]byte{"a": nil}, false)
	if got := a.takeStates(fromTwo, newer); got != nil {
		t.Errorf("taken by the allocation that they are of: %v", got)
	}
}

func TestStatesOfALaterAllocationReplaceThoseOfAnEarlier(t *testing.T) {
	var a arrivals
	a.addState(fromTwo, older, "a", []byte("old"))
	a.addState(fromTwo, older, "b", []byte("old"))
	a.completeShard(fromTwo, older, 2)
	a.addState(fromTwo, newer, "a", []byte("newer"))
	// A late state of the former allocation.
	a.addState(fromTwo, older, "b", []byte("old"))
	a.holds(t, fromTwo, older, nil)
	a.holds(t, fromTwo, newer, map[string]string{"a": "newer"})
	if a.completeShard(fromTwo, older, 1) {
		t.Error("complete by the count of an earlier allocation")
	}
	if got := a.discard(fromTwo, older); got != nil {
		t.Error("discarded in the name of an earlier allocation")
	}
	if got := a.discard(fromTwo, newer); got == nil || string(got.states["a"]) != "newer" {
		t.Errorf("discarded: %+v", got)
	}
	a.holds(t, fromTwo, newer, nil)
	if got := a.discard(fromTwo, newer); got != nil {
		t.Error("discarded twice")
	}
}

// The bytes of waiting states of all types are bounded. States beyond the bound are neither
// held nor acknowledged. A transfer that was abandoned half way makes room after a minute; a
// whole one waits until its shard runs.
func TestStatesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := arrivals{bytes: arrivalsBytesMax - 10}
		whole, half, full := fromTwo, arrivalKey{"u", 3, 2}, arrivalKey{"u", 4, 2}
		a.addState(whole, older, "a", make([]byte, 4))
		a.completeShard(whole, older, 1)
		a.addState(half, older, "a", make([]byte, 6))
		a.addState(full, older, "a", make([]byte, 1))
		if a.completeShard(full, older, 1) {
			t.Error("takes a state beyond the bound")
		}
		if a.holdShard(full, older, map[string][]byte{"a": make([]byte, 1)}, false) {
			t.Error("holds states beyond the bound")
		}
		if !a.holdShard(half, older, map[string][]byte{"a": make([]byte, 6)}, false) {
			t.Error("states that replace as many bytes of their own are refused")
		}
		a.discard(half, older)
		a.addState(half, older, "a", make([]byte, 6))

		<-time.After(arrivalMax)
		a.addState(full, older, "a", make([]byte, 1))
		if a.completeShard(full, older, 1) {
			t.Error("a partial transfer made room before its time")
		}
		<-time.After(1)
		a.addState(full, newer, "a", make([]byte, 6))
		if !a.completeShard(full, newer, 1) {
			t.Error("an abandoned partial transfer made no room")
		}
		if a.bytes -= arrivalsBytesMax - 10; a.bytes != 10 {
			t.Errorf("counts %d bytes of 10", a.bytes)
		}
		a.holds(t, half, older, nil)
		a.holds(t, whole, older, map[string]string{"a": "\x00\x00\x00\x00"})
	})
}

// A node that leaves counts the states as lost that no other node has, once.
func TestUndeliveredStatesAreTakenOnce(t *testing.T) {
	const self gossip.NodeID = 1
	var a arrivals
	state := map[string][]byte{"a": nil}
	alone, came := arrivalKey{"t", 1, self}, arrivalKey{"t", 2, self}
	a.holdShard(alone, older, state, false)
	a.holdShard(came, older, state, true)
	a.holdShard(arrivalKey{"other", 1, self}, older, state, false)
	a.holdShard(fromTwo, older, state, false)
	if got := a.takeUndelivered("t", self); len(got) != 1 || got[alone] == nil {
		t.Errorf("alone: %v", got)
	}
	if got := a.takeUndelivered("t", self); len(got) != 0 {
		t.Errorf("a second time: %v", got)
	}
}

// A sender may remove states from its copy: the held ones stay.
func TestWhatIsKeptIsHandedOutAsACopy(t *testing.T) {
	var a arrivals
	a.holdShard(fromTwo, older, map[string][]byte{"a": nil, "b": nil}, false)
	delete(a.copyStates(fromTwo, older), "a")
	a.holds(t, fromTwo, older, map[string]string{"a": "", "b": ""})
	a.holds(t, fromTwo, newer, nil)
}

func TestATransferIsDoneWhenItsOwnAckComes(t *testing.T) {
	var d departures
	d.ackReceived(departure{"t", 1, older})
	acked, other := d.awaitAck(departure{"t", 1, older}), d.awaitAck(departure{"t", 2, older})
	d.ackReceived(departure{"t", 1, oldest})
	select {
	case <-acked:
		t.Error("done by the ack of an earlier allocation")
	default:
	}
	d.ackReceived(departure{"t", 1, older})
	// The acknowledgement of a retransmission.
	d.ackReceived(departure{"t", 1, older})
	select {
	case <-acked:
	default:
		t.Error("not done by its ack")
	}
	d.dropTransfer(departure{"t", 2, older})
	d.ackReceived(departure{"t", 2, older})
	select {
	case <-other:
		t.Error("done after it was given up")
	default:
	}
}
