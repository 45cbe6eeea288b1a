package sharding

import (
	"maps"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

var (
	fromTwo = arrivalKey{"t", 3, 2}
	oldest  = protocol.Token{Term: 1, Seq: 1}
	older   = protocol.Token{Term: 1, Seq: 2}
	newer   = protocol.Token{Term: 2, Seq: 1}
)

// holds fails the test unless exactly these states are kept of an allocation, and the
// count of bytes is that of all that is kept.
func (a *arrivals) holds(t *testing.T, k arrivalKey, token Token, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for id, state := range a.kept(k, token) {
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
	if a.complete(fromTwo, older, 0) {
		t.Error("complete before anything came")
	}
	a.add(fromTwo, older, "a", []byte("1"))
	// Sent again as a whole, after a loss.
	a.add(fromTwo, older, "a", []byte("1"))
	if a.complete(fromTwo, older, 2) {
		t.Error("complete with one state of two")
	}
	a.add(fromTwo, older, "b", []byte("22"))
	a.holds(t, fromTwo, older, map[string]string{"a": "1", "b": "22"})
	if a.complete(fromTwo, newer, 2) {
		t.Error("complete by the count of another allocation")
	}
	if !a.complete(fromTwo, older, 2) {
		t.Error("not complete with all states")
	}
	if got := a.take(arrivalKey{"t", 3, 9}, newer); got != nil {
		t.Error("taken as those of another former home")
	}
	if got := a.take(fromTwo, newer); len(got) != 2 || string(got["b"]) != "22" {
		t.Errorf("taken: %v", got)
	}
	a.holds(t, fromTwo, older, nil)
	if got := a.take(fromTwo, newer); got != nil {
		t.Errorf("taken twice: %v", got)
	}
}

// A shard that is started before the rest of its states came does without them all: some
// of them would be as if the others had never lived.
func TestPartOfAShardsStatesStartsNothing(t *testing.T) {
	var a arrivals
	a.add(fromTwo, older, "a", []byte("1"))
	if got := a.take(fromTwo, newer); got != nil {
		t.Errorf("taken: %v", got)
	}
	a.holds(t, fromTwo, older, nil)
}

// States are those of an allocation that has ended: they start a later one only.
func TestStatesStartALaterAllocationThanTheirs(t *testing.T) {
	var a arrivals
	a.put(fromTwo, newer, map[string][]byte{"a": nil}, false)
	if got := a.take(fromTwo, newer); got != nil {
		t.Errorf("taken by the allocation that they are of: %v", got)
	}
}

func TestStatesOfALaterAllocationReplaceThoseOfAnEarlier(t *testing.T) {
	var a arrivals
	a.add(fromTwo, older, "a", []byte("old"))
	a.add(fromTwo, older, "b", []byte("old"))
	a.complete(fromTwo, older, 2)
	a.add(fromTwo, newer, "a", []byte("newer"))
	// Late, of the former.
	a.add(fromTwo, older, "b", []byte("old"))
	a.holds(t, fromTwo, older, nil)
	a.holds(t, fromTwo, newer, map[string]string{"a": "newer"})
	if a.complete(fromTwo, older, 1) {
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

// What waits is bounded in bytes over all types: what is beyond is not taken, so that it
// is not acknowledged, and its old home knows. What was given up half way makes room
// after a minute; what is whole waits until its shard lives somewhere.
func TestStatesThatWaitAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := arrivals{bytes: arrivalsBytesMax - 10}
		whole, half, full := fromTwo, arrivalKey{"u", 3, 2}, arrivalKey{"u", 4, 2}
		a.add(whole, older, "a", make([]byte, 4))
		a.complete(whole, older, 1)
		a.add(half, older, "a", make([]byte, 6))
		a.add(full, older, "a", make([]byte, 1))
		if a.complete(full, older, 1) {
			t.Error("takes what is beyond the bound")
		}
		if a.put(full, older, map[string][]byte{"a": make([]byte, 1)}, false) {
			t.Error("keeps what is beyond the bound")
		}
		if !a.put(half, older, map[string][]byte{"a": make([]byte, 6)}, false) {
			t.Error("what replaces as much of its own is refused")
		}
		a.discard(half, older)
		a.add(half, older, "a", make([]byte, 6))

		pass(arrivalMax)
		a.add(full, older, "a", make([]byte, 1))
		if a.complete(full, older, 1) {
			t.Error("what came half way made room before its time")
		}
		pass(1)
		a.add(full, newer, "a", make([]byte, 6))
		if !a.complete(full, newer, 1) {
			t.Error("what came half way, and is given up, made no room")
		}
		if a.bytes -= arrivalsBytesMax - 10; a.bytes != 10 {
			t.Errorf("counts %d bytes of 10", a.bytes)
		}
		a.holds(t, half, older, nil)
		a.holds(t, whole, older, map[string]string{"a": "\x00\x00\x00\x00"})
	})
}

// A node that leaves counts as lost what it alone has: of its own type's shards, what
// it sent nowhere. It counts it once.
func TestWhatANodeAloneHasIsFoundOnce(t *testing.T) {
	const self gossip.NodeID = 1
	var a arrivals
	state := map[string][]byte{"a": nil}
	alone, came := arrivalKey{"t", 1, self}, arrivalKey{"t", 2, self}
	a.put(alone, older, state, false)
	a.put(came, older, state, true)
	a.put(arrivalKey{"other", 1, self}, older, state, false)
	a.put(fromTwo, older, state, false)
	if got := a.alone("t", self); len(got) != 1 || got[alone] == nil {
		t.Errorf("alone: %v", got)
	}
	if got := a.alone("t", self); len(got) != 0 {
		t.Errorf("alone, asked again: %v", got)
	}
}

// Who sends kept states on leaves out what cannot travel; what is kept stays as it is
// meanwhile, for who counts it.
func TestWhatIsKeptIsHandedOutAsACopy(t *testing.T) {
	var a arrivals
	a.put(fromTwo, older, map[string][]byte{"a": nil, "b": nil}, false)
	delete(a.kept(fromTwo, older), "a")
	a.holds(t, fromTwo, older, map[string]string{"a": "", "b": ""})
	a.holds(t, fromTwo, newer, nil)
}

func TestATransferIsDoneWhenItsOwnAckComes(t *testing.T) {
	var d departures
	d.done(departure{"t", 1, older})
	acked, other := d.expect(departure{"t", 1, older}), d.expect(departure{"t", 2, older})
	d.done(departure{"t", 1, oldest})
	select {
	case <-acked:
		t.Error("done by the ack of an earlier allocation")
	default:
	}
	d.done(departure{"t", 1, older})
	// The ack of what was sent again.
	d.done(departure{"t", 1, older})
	select {
	case <-acked:
	default:
		t.Error("not done by its ack")
	}
	d.forget(departure{"t", 2, older})
	d.done(departure{"t", 2, older})
	select {
	case <-other:
		t.Error("done after it was given up")
	default:
	}
}
