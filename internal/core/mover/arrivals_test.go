package mover

import (
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const (
	oldHome, newHome gossip.NodeID = 2, 1
	begin            clock.Instant = 1
)

var (
	oldest = Allocation{"t", 3, protocol.Token{Term: 1, Seq: 1}}
	older  = Allocation{"t", 3, protocol.Token{Term: 1, Seq: 2}}
	newer  = Allocation{"t", 3, protocol.Token{Term: 2, Seq: 1}}
)

// newCore returns the Core of a new home. Each chunk of the states that it is sent has one state.
func newCore() *Core { return New(Config{Self: newHome}) }

// chunksOf returns the chunks of states on their way from the old home, one state in each.
func chunksOf(a Allocation, states map[string]string) (all []Chunk) {
	c := New(Config{Self: oldHome, ChunkBytes: 1, Window: 1 << 20})
	d := c.Begin(begin, a, Order{To: newHome, Term: 7, Within: time.Hour}, bytesOf(states))
	for m, ok := d.Next(begin, true); ok; m, ok = d.Next(begin, true) {
		all = append(all, m)
	}
	return all
}

func bytesOf(states map[string]string) map[string][]byte {
	out := map[string][]byte{}
	for id, data := range states {
		out[id] = []byte(data)
	}
	return out
}

// deliver passes chunks to a core, and reports whether the last one completed its transfer.
func (c *Core) deliver(now clock.Instant, all ...Chunk) (complete bool) {
	for _, m := range all {
		_, _, complete = c.OnChunk(now, oldHome, m)
	}
	return complete
}

// holds fails the test unless exactly these states of an allocation are held that came from the
// old home, and the bytes of all are right.
func (c *Core) holds(t *testing.T, a Allocation, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	if h := c.arrivals.all[arrivalKey{a.Type, a.Shard, oldHome}]; h != nil && h.token == a.Token {
		for id, data := range h.states {
			got[id] = string(data)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("holds of %v: %v, want %v", a, got, want)
	}
	c.checkBytes(t)
}

func (c *Core) checkBytes(t *testing.T) {
	t.Helper()
	sum := 0
	for _, h := range c.arrivals.all {
		need := 0
		for id, data := range h.states {
			need += costOf(id, data)
		}
		if sum += h.room; h.room < need || h.complete && h.room != need {
			t.Errorf("room for %d bytes of %d, complete %v", h.room, need, h.complete)
		}
	}
	if c.arrivals.bytes != sum {
		t.Errorf("counts %d bytes of %d", c.arrivals.bytes, sum)
	}
}

func TestStatesOfAShardStartItOnceAllOfThemAreHere(t *testing.T) {
	c := newCore()
	all := chunksOf(older, map[string]string{"a": "1", "b": "22"})
	// The first chunk is sent again after a loss.
	if len(all) != 2 || c.deliver(begin, all[0], all[0]) {
		t.Error("complete with one state of two")
	}
	if got := newCore().deliver(begin, all[1]); got {
		t.Error("complete with the last chunk alone")
	}
	if !c.deliver(begin, all[1]) {
		t.Error("not complete with all states")
	}
	c.holds(t, older, map[string]string{"a": "1", "b": "22"})
	if ack, answer, complete := c.OnChunk(begin, oldHome, all[1]); complete || !answer || !ack.Complete {
		t.Errorf("a copy of the last chunk: %+v, %v, complete %v", ack, answer, complete)
	}
	if got := c.Take(newer, 9, older.Token); got != nil {
		t.Error("taken as those of another former home")
	}
	if got := c.Take(newer, oldHome, older.Token); len(got) != 2 || string(got["b"]) != "22" {
		t.Errorf("taken: %v", got)
	}
	c.holds(t, older, nil)
	if got := c.Take(newer, oldHome, older.Token); got != nil {
		t.Errorf("taken twice: %v", got)
	}
}

// A shard that starts before all of its states are here starts without any: entities with
// states would contradict entities without.
func TestPartOfAShardsStatesStartsNothing(t *testing.T) {
	c := newCore()
	c.deliver(begin, chunksOf(older, map[string]string{"a": "1", "b": "2"})[0])
	if got := c.Take(newer, oldHome, older.Token); got != nil {
		t.Errorf("taken: %v", got)
	}
	c.holds(t, older, nil)
}

// The allocation of states has ended: they start a later one only.
func TestStatesStartALaterAllocationThanTheirs(t *testing.T) {
	for _, a := range []Allocation{newer, older} {
		if got := takeFromLater(a); got != nil {
			t.Errorf("%v takes states of %v: %v", a, newer, got)
		}
	}
}

// A move was undone, and the shard ran again on its former home. It ended there a second time
// without a transfer: nothing reached this node, or the shard had no states. What the first move
// brought is not the state with which it ended.
func TestStatesOfAnUndoneMoveStartNothing(t *testing.T) {
	if got := takeUndone(); got != nil {
		t.Errorf("taken: %v", got)
	}
}

// takeUndone orders a start with the states of a later allocation than those that have arrived.
func takeUndone() map[string][]byte {
	c := newCore()
	c.deliver(begin, chunksOf(oldest, map[string]string{"a": "before the undone move"})...)
	return c.Take(newer, oldHome, older.Token)
}

// takeFromLater takes the states of an allocation that is not before a.
func takeFromLater(a Allocation) map[string][]byte {
	c := newCore()
	c.deliver(begin, chunksOf(newer, map[string]string{"a": ""})...)
	c.deliver(begin, chunksOf(older, map[string]string{"a": ""})...)
	return c.Take(a, oldHome, newer.Token)
}

func TestStatesOfALaterAllocationReplaceThoseOfAnEarlier(t *testing.T) {
	c := newCore()
	early := chunksOf(older, map[string]string{"a": "old", "b": "old"})
	c.deliver(begin, early...)
	c.deliver(begin, chunksOf(newer, map[string]string{"a": "newer"})...)
	// A late state of the former allocation.
	if _, answer, complete := c.OnChunk(begin, oldHome, early[1]); answer || complete {
		t.Errorf("a late chunk of an earlier allocation is answered %v, completes %v", answer, complete)
	}
	c.holds(t, older, nil)
	c.holds(t, newer, map[string]string{"a": "newer"})
	if _, why := c.Drop(older, oldHome, 7); why != NotLost {
		t.Error("dropped in the name of an earlier allocation")
	}
	c.holds(t, newer, map[string]string{"a": "newer"})
	if got, why := c.Drop(newer, oldHome, 7); why != NotNeeded || string(got["a"]) != "newer" {
		t.Errorf("dropped: %v, %v", got, why)
	}
	c.holds(t, newer, nil)
	if _, why := c.Drop(newer, oldHome, 7); why != NotLost {
		t.Error("lost twice")
	}
}

// The bytes of waiting states of all types are bounded. States beyond the bound are neither
// held nor acknowledged. A transfer that was abandoned half way makes room after a minute; a
// whole one waits until its shard runs.
func TestStatesThatWaitAreBounded(t *testing.T) {
	const whole, half = 4 + 1 + stateCost, 2 * (6 + 1 + stateCost)
	c := New(Config{Self: newHome, HeldBytesMax: whole + half})
	u3, u4 := older, older
	u3.Type, u4.Type, u4.Shard = "u", "u", 4
	small := chunksOf(u4, map[string]string{"a": ""})
	if !c.deliver(begin, chunksOf(older, map[string]string{"a": "1234"})...) {
		t.Fatal("the whole transfer has no room")
	}
	// The first chunk takes the room of the whole transfer.
	abandoned := chunksOf(u3, map[string]string{"a": "123456", "b": "123456"})
	c.deliver(begin, abandoned[0])
	if ack, _, complete := c.OnChunk(begin, oldHome, small[0]); complete || !ack.Restart || ack.Next != 0 {
		t.Errorf("takes a state beyond the bound: %+v", ack)
	}
	if c.Hold(u4, map[string][]byte{"a": nil}, false) {
		t.Error("holds states beyond the bound")
	}
	later := begin.Add(time.Minute)
	if c.deliver(later, small...) {
		t.Error("a partial transfer made room before its time")
	}
	c.checkBytes(t)
	if !c.deliver(later+1, small...) {
		t.Error("an abandoned partial transfer made no room")
	}
	if ack, _, _ := c.OnChunk(later+1, oldHome, abandoned[1]); !ack.Restart {
		t.Errorf("the rest of an abandoned transfer is acknowledged: %+v", ack)
	}
	if !c.deliver(later+1, chunksOf(newerOf(u4), map[string]string{"a": "123456"})...) {
		t.Error("states that replace others of their shard are refused")
	}
	c.holds(t, older, map[string]string{"a": "1234"})
	if c.arrivals.bytes != whole+half/2 {
		t.Errorf("counts %d bytes of %d", c.arrivals.bytes, whole+half/2)
	}
}

func newerOf(a Allocation) Allocation {
	a.Token.Term++
	return a
}

// A chunk that contradicts its transfer ends it, and the old home begins again.
func TestADamagedTransferBeginsAgain(t *testing.T) {
	c := newCore()
	all := chunksOf(older, map[string]string{"a": "1", "b": "2"})
	c.deliver(begin, all[0])
	bad := all[1]
	bad.States = []State{{"b", []byte("3")}}
	if ack, answer, complete := c.OnChunk(begin, oldHome, bad); !answer || !ack.Restart || complete {
		t.Errorf("%+v, answered %v, complete %v", ack, answer, complete)
	}
	c.holds(t, older, nil)
	if !c.deliver(begin, all...) {
		t.Error("does not complete the second time")
	}
}

// A node that leaves counts the states as lost that no other node has, once.
func TestUndeliveredStatesAreTakenOnce(t *testing.T) {
	c := newCore()
	state := map[string][]byte{"a": nil}
	alone, came, other := older, older, older
	alone.Shard, came.Shard, other.Type = 1, 2, "other"
	c.Hold(alone, state, false)
	c.Hold(came, state, true)
	c.Hold(other, state, false)
	c.deliver(begin, chunksOf(older, map[string]string{"a": ""})...)
	if got := c.TakeUndelivered("t"); len(got) != 1 || got[1] == nil {
		t.Errorf("alone: %v", got)
	}
	if got := c.TakeUndelivered("t"); len(got) != 0 {
		t.Errorf("a second time: %v", got)
	}
	if _, why := c.Drop(alone, newHome, 7); why != NotLost {
		t.Error("counted as lost twice")
	}
}

// A sender may remove states from its copy: the held ones stay.
func TestWhatIsKeptIsHandedOutAsACopy(t *testing.T) {
	c := newCore()
	c.Hold(older, map[string][]byte{"a": nil, "b": nil}, false)
	delete(c.Held(older), "a")
	if got := c.Held(older); len(got) != 2 {
		t.Errorf("held: %v", got)
	}
	if got := c.Held(newer); got != nil {
		t.Errorf("held of a later allocation: %v", got)
	}
	if got, why := c.Drop(older, newHome, 7); why != NotSent || len(got) != 2 {
		t.Errorf("dropped: %v, %v", got, why)
	}
}

// An attempt replaces those before it, of the same allocation. A late chunk of an earlier attempt
// is not answered: its sender has begun again.
func TestTheLatestAttemptCounts(t *testing.T) {
	c := newCore()
	early := chunksOf(older, map[string]string{"a": "1", "b": "2"})
	late := chunksOf(older, map[string]string{"a": "3", "b": "4"})
	for i := range late {
		late[i].Attempt = 3
	}
	c.deliver(begin, early[0], late[0])
	c.holds(t, older, map[string]string{"a": "3"})
	if _, answer, complete := c.OnChunk(begin, oldHome, early[1]); answer || complete {
		t.Errorf("a chunk of an earlier attempt is answered %v, completes %v", answer, complete)
	}
	if !c.deliver(begin, late[1]) {
		t.Error("the later attempt is not complete")
	}
	// Attempts are counted for each allocation by itself.
	if !c.deliver(begin, chunksOf(newer, map[string]string{"a": "5"})...) {
		t.Error("the first attempt of a later allocation is not complete")
	}
	c.holds(t, newer, map[string]string{"a": "5"})
}

// A chunk whose predecessors are missing is answered: the old home must begin again.
func TestAChunkWithoutItsPredecessorsIsAnswered(t *testing.T) {
	ack, answer, _ := newCore().OnChunk(begin, oldHome, chunksOf(older, map[string]string{"a": "1", "b": "2"})[1])
	if !answer || !ack.Restart {
		t.Errorf("answered %v with %+v", answer, ack)
	}
}

// A transfer is abandoned when no chunk has come for PartialMax, however long all of it takes.
func TestATransferThatGoesOnIsNotAbandoned(t *testing.T) {
	c := newCore()
	all := chunksOf(older, map[string]string{"a": "1", "b": "2", "c": "3"})
	other := older
	other.Shard = 9
	now := begin
	for _, m := range all {
		c.deliver(now, m)
		now = now.Add(c.arrivals.cfg.PartialMax)
		other.Shard++ // the first chunk of another transfer has abandoned ones dropped
		c.deliver(now, chunksOf(other, map[string]string{"x": ""})...)
	}
	c.holds(t, older, map[string]string{"a": "1", "b": "2", "c": "3"})
}

// A transfer takes the room of its announced size until it is complete. States that were left out
// as too large give theirs back then.
func TestACompleteTransferTakesTheRoomOfItsStates(t *testing.T) {
	c := New(Config{Self: oldHome, ChunkBytes: 1})
	d := c.Begin(begin, older, Order{To: newHome, Within: within}, bytesOf(map[string]string{"a": "1", "b": string(make([]byte, 1000))}))
	to := newCore()
	first, _ := d.Next(begin, true)
	to.deliver(begin, first)
	d.Next(begin, true)
	d.OnTooLarge()
	last, _ := d.Next(begin, true)
	if !to.deliver(begin, last) {
		t.Fatalf("%+v does not complete the transfer", last)
	}
	to.holds(t, older, map[string]string{"a": "1"})
}

// States of a shard that are held again replace those that were held, to the last byte of the
// bound. Nothing is held of an allocation that was never stopped here.
func TestHeldStatesAreReplaced(t *testing.T) {
	c := New(Config{Self: newHome, HeldBytesMax: costOf("a", nil)})
	for range 2 {
		if !c.Hold(older, map[string][]byte{"a": nil}, false) {
			t.Error("states that fit are not held")
		}
		c.checkBytes(t)
	}
	if got := c.Held(Allocation{"t", 4, older.Token}); got != nil {
		t.Errorf("holds %v of another shard", got)
	}
}

// States that came here are not lost if their shard went back to its former home: that home kept
// them.
func TestStatesAreNotLostAtTheirFormerHome(t *testing.T) {
	c := newCore()
	c.deliver(begin, chunksOf(older, map[string]string{"a": "1"})...)
	if got, why := c.Drop(older, oldHome, oldHome); why != NotLost || got != nil {
		t.Errorf("dropped: %v, %v", got, why)
	}
	c.holds(t, older, nil)
}
