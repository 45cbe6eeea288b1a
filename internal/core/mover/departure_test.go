package mover

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

const within = time.Minute

// resendWait is Config.Resend.
const resendWait = 500 * time.Millisecond

// beginSmall begins a transfer of some states, one in each chunk, two in flight.
func beginSmall(a Allocation, states map[string]string) (*Core, *Departure) {
	c := New(Config{Self: oldHome, ChunkBytes: 1, Window: 2})
	return c, c.Begin(begin, a, Order{To: newHome, Term: 7, Within: within}, bytesOf(states))
}

// nextChunks returns the chunks that a transfer can send now.
func (d *Departure) nextChunks(now clock.Instant, isMember bool) (all []Chunk) {
	for m, ok := d.Next(now, isMember); ok; m, ok = d.Next(now, isMember) {
		all = append(all, m)
	}
	return all
}

func (d *Departure) isEnded() bool {
	_, ended := d.Result()
	return ended
}

func TestATransferIsDoneWhenItsOwnAckComes(t *testing.T) {
	c, d := beginSmall(older, map[string]string{"a": "1"})
	d.nextChunks(begin, true)
	c.OnAck(begin, newHome, Ack{Allocation: older, Next: 1})
	if d.isEnded() {
		t.Error("done before all states are there")
	}
	c.OnAck(begin, newHome, Ack{Allocation: oldest, Complete: true})
	c.OnAck(begin, 9, Ack{Allocation: older, Complete: true})
	if d.isEnded() {
		t.Error("done by the ack of an earlier allocation, or of another node")
	}
	if c.OnAck(begin, newHome, Ack{Allocation: older, Complete: true}) != d {
		t.Error("its ack does not find it")
	}
	// The acknowledgement of a retransmission.
	if c.OnAck(begin, newHome, Ack{Allocation: older, Complete: true}) != nil {
		t.Error("an ack finds a transfer that has ended")
	}
	if res, ended := d.Result(); !ended || !res.Arrived || !res.Held {
		t.Errorf("not done by its ack: %+v, %v", res, ended)
	}
	other := c.Begin(begin, newer, Order{To: newHome, Term: 7, Within: within}, bytesOf(map[string]string{"a": "1"}))
	other.nextChunks(begin, true)
	other.Cancel()
	c.OnAck(begin, newHome, Ack{Allocation: newer, Complete: true})
	if res, _ := other.Result(); res.Arrived {
		t.Error("done after it was cancelled")
	}
}

func TestATransferEndsWithoutItsNewHome(t *testing.T) {
	for name, end := range map[string]struct {
		at       clock.Instant
		isMember bool
	}{
		"the new home has left": {begin.Add(resendWait), false},
		"no time is left":       {begin.Add(within), true},
	} {
		c, d := beginSmall(older, map[string]string{"a": "1"})
		d.nextChunks(begin, false)
		d.nextChunks(end.at-1, end.isMember)
		if d.isEnded() {
			t.Errorf("%s: ended before", name)
		}
		d.nextChunks(end.at, end.isMember)
		if res, ended := d.Result(); !ended || res.Arrived || !res.Held || c.Held(older) == nil {
			t.Errorf("%s: %+v, ended %v", name, res, ended)
		}
	}
}

// States that no connection takes stay behind, and the others arrive.
func TestTooLargeStatesStayBehind(t *testing.T) {
	for _, limit := range []int{0, 10, 100, 1000} {
		states := map[string]string{}
		fit := 0
		for i, size := range []int{5, 50, 500, 5, 5000, 7, 0, 5000} {
			states[fmt.Sprint(i)] = string(make([]byte, size))
			if size <= limit {
				fit++
			}
		}
		c, got := New(Config{Self: oldHome, Window: 2}), newCore()
		d := c.Begin(begin, older, Order{To: newHome, Term: 7, Within: within}, bytesOf(states))
		removed := 0
		for m, ok := d.Next(begin, true); ok; m, ok = d.Next(begin, true) {
			size := 0
			for _, st := range m.States {
				size += len(st.Data)
			}
			if size > limit {
				if _, ok := d.OnTooLarge(); ok {
					removed++
				}
				continue
			}
			ack, _, _ := got.OnChunk(begin, oldHome, m)
			c.OnAck(begin, newHome, ack)
		}
		res, ended := d.Result()
		if taken := got.Take(newer, oldHome, older.Token); !ended || !res.Arrived || len(taken) != fit || len(res.States) != fit || removed != len(states)-fit {
			t.Errorf("limit %d: %d arrived, %d removed of %d; arrived %v, ended %v", limit, len(taken), removed, len(states), res.Arrived, ended)
		}
		c.checkBytes(t)
	}
}

// A new home without room is offered the states again, later.
func TestStatesWaitForRoom(t *testing.T) {
	c, d := beginSmall(older, map[string]string{"a": "1", "b": "2"})
	to := New(Config{Self: newHome, HeldBytesMax: 3 * stateCost})
	blocker := newerOf(older)
	blocker.Shard = 9
	to.Hold(blocker, map[string][]byte{"x": nil}, true)
	now := begin
	exchange := func() {
		for _, m := range d.nextChunks(now, true) {
			ack, _, _ := to.OnChunk(now, oldHome, m)
			c.OnAck(now, newHome, ack)
		}
	}
	for range 5 {
		exchange()
		if d.isEnded() || !now.Before(d.Deadline()) {
			t.Fatalf("ended %v, deadline %v at %v", d.isEnded(), d.Deadline(), now)
		}
		now = d.Deadline()
	}
	to.Drop(blocker, newHome, 0)
	for range 20 {
		exchange()
		now = d.Deadline()
	}
	if res, _ := d.Result(); !res.Arrived || len(to.Take(newer, oldHome, older.Token)) != 2 {
		t.Errorf("%+v", res)
	}
}

// TestTransfersSurviveTheNetwork: over a network that loses, duplicates and reorders, with a full
// connection now and then, the states arrive as they were, or the old home holds them.
func TestTransfersSurviveTheNetwork(t *testing.T) {
	arrived := 0
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		states := map[string]string{}
		for i := range 1 + rng.IntN(12) {
			states[fmt.Sprint(i)] = string(make([]byte, rng.IntN(40)))
		}
		c, to := New(Config{Self: oldHome, ChunkBytes: 150, Window: 3}), New(Config{Self: newHome, PartialMax: 2 * time.Second})
		d := c.Begin(begin, older, Order{To: newHome, Term: 7, Within: within}, bytesOf(states))
		var held int
		for now := begin; !d.isEnded(); now = now.Add(20 * time.Millisecond) {
			for _, m := range d.nextChunks(now, true) {
				if rng.IntN(9) == 0 {
					d.TakeBack()
					break
				}
				for range [4]int{0, 1, 1, 2}[rng.IntN(4)] {
					ack, answer, complete := to.OnChunk(now, oldHome, m)
					if complete {
						held++
					}
					if answer && rng.IntN(4) > 0 {
						c.OnAck(now, newHome, ack)
					}
				}
			}
			to.checkBytes(t)
		}
		res, _ := d.Result()
		got := to.Take(newer, oldHome, older.Token)
		if res.Arrived != (got != nil) || res.Arrived && (!maps.EqualFunc(got, states, func(a []byte, b string) bool { return string(a) == b }) || held != 1) {
			t.Fatalf("seed %d: arrived %v, takes %v of %v, complete %d times", seed, res.Arrived, got, states, held)
		}
		if len(c.Held(older)) != len(states) {
			t.Fatalf("seed %d: the old home holds %v", seed, c.Held(older))
		}
		if res.Arrived {
			arrived++
		}
	}
	if arrived < 1900 {
		t.Errorf("%d of 2000 arrived", arrived)
	}
}

// Each chunk has the term of its order: the one that completes the states reports it.
func TestStatesTravelWithTheTermOfTheirStop(t *testing.T) {
	_, d := beginSmall(older, map[string]string{"a": "1", "b": "2"})
	all := d.nextChunks(begin, true)
	for _, m := range all {
		if m.Term != 7 {
			t.Errorf("%+v", m)
		}
	}
	if len(all) != 2 {
		t.Errorf("%d chunks", len(all))
	}
}

// A chunk takes as many states as fit, to the last byte. A state that is larger than a chunk
// leaves alone.
func TestAChunkTakesTheStatesThatFit(t *testing.T) {
	states := map[string]string{"a": "1", "b": "22", "c": "1", "d": "22", "e": string(make([]byte, 500)), "f": ""}
	c := New(Config{Self: oldHome, ChunkBytes: costOf("a", []byte("1")) + costOf("b", []byte("22"))})
	d := c.Begin(begin, older, Order{To: newHome, Term: 7, Within: within}, bytesOf(states))
	var got []string
	for _, m := range d.nextChunks(begin, true) {
		ids := ""
		for _, st := range m.States {
			ids += st.ID
		}
		got = append(got, ids)
		if m.Last != (ids == "f") || m.Number != uint64(len(got)-1) {
			t.Errorf("chunk %d is numbered %d, last %v", len(got)-1, m.Number, m.Last)
		}
	}
	if want := []string{"ab", "cd", "e", "f"}; !slices.Equal(got, want) {
		t.Errorf("chunks %v, want %v", got, want)
	}
}

// A shard without states has one empty chunk. If no connection takes that, the transfer ends as
// failed, instead of making smaller chunks for ever.
func TestAnEmptyTransferThatIsTooLargeEnds(t *testing.T) {
	_, d := beginSmall(older, nil)
	if all := d.nextChunks(begin, true); len(all) != 1 || len(all[0].States) != 0 || !all[0].Last {
		t.Fatalf("sends %+v", all)
	}
	if removed, ok := d.OnTooLarge(); ok {
		t.Errorf("removes %+v", removed)
	}
	if res, ended := d.Result(); !ended || res.Arrived || res.Held {
		t.Errorf("%+v, ended %v", res, ended)
	}
}

// The new home asks to begin again: the transfer starts from its first state in a new attempt,
// once for each time that it was sent. An acknowledgement that comes twice, or belongs to an
// earlier attempt, changes nothing.
func TestATransferBeginsAgainOncePerAttempt(t *testing.T) {
	c, d := beginSmall(older, map[string]string{"a": "1", "b": "2", "c": "3"})
	restart := func(attempt uint64) { c.OnAck(begin, newHome, Ack{Allocation: older, Attempt: attempt, Restart: true}) }
	// Nothing was sent yet: the message is a copy of one about an earlier transfer.
	if restart(0); d.attempt != 0 {
		t.Errorf("attempt %d before the first chunk", d.attempt)
	}
	first := d.nextChunks(begin, true)
	restart(0)
	restart(0)
	restart(1)
	if d.attempt != 1 || len(d.nextChunks(begin, true)) != 0 {
		t.Fatalf("attempt %d, and sends before its deadline", d.attempt)
	}
	again := d.nextChunks(d.sender.Deadline(), true)
	if len(again) != len(first) {
		t.Fatalf("sends %+v, before %+v", again, first)
	}
	for i := range again {
		want := first[i]
		want.Attempt = 1
		if !reflect.DeepEqual(again[i], want) {
			t.Errorf("sends %+v, want %+v", again[i], want)
		}
	}
}

// After deadline upon deadline, the transfer begins again by itself: the new home may have
// dropped what it acknowledged.
func TestATransferBeginsAgainAfterManyDeadlines(t *testing.T) {
	c, d := beginSmall(older, map[string]string{"a": "1", "b": "2", "c": "3"})
	now := begin
	d.nextChunks(now, true)
	c.OnAck(now, newHome, Ack{Allocation: older, Next: 1})
	d.nextChunks(now, true)
	for range missesMax {
		now = d.sender.Deadline()
		if all := d.nextChunks(now, true); d.attempt != 0 || len(all) != 2 || all[0].Number != 1 {
			t.Fatalf("after %d deadlines: attempt %d, sends %+v", d.sender.Misses(), d.attempt, all)
		}
	}
	for attempt := range uint64(2) {
		now = d.sender.Deadline()
		if all := d.nextChunks(now, true); d.attempt != attempt+1 || len(all) != 0 {
			t.Fatalf("attempt %d, sends %+v", d.attempt, all)
		}
		now = d.sender.Deadline()
		if all := d.nextChunks(now, true); len(all) != 2 || all[0].Number != 0 || all[0].Attempt != attempt+1 || all[0].States[0].ID != "a" {
			t.Fatalf("then sends %+v", all)
		}
	}
}

// A transfer of the same allocation replaces the former one, which ends.
func TestATransferReplacesTheFormerOne(t *testing.T) {
	c, former := beginSmall(older, map[string]string{"a": "1"})
	d := c.Begin(begin, older, Order{To: newHome, Term: 8, Within: within}, bytesOf(map[string]string{"a": "1"}))
	if res, ended := former.Result(); !ended || res.Arrived {
		t.Errorf("the former one: %+v, ended %v", res, ended)
	}
	if d.nextChunks(begin, true); c.OnAck(begin, newHome, Ack{Allocation: older, Complete: true}) != d {
		t.Error("the acknowledgement does not find the new one")
	}
}

// A chunk for which the connection had no room is the next to leave.
func TestAChunkThatWasTakenBackIsTheNext(t *testing.T) {
	_, d := beginSmall(older, map[string]string{"a": "1", "b": "2"})
	first, _ := d.Next(begin, true)
	d.TakeBack()
	if again, ok := d.Next(begin, true); !ok || !reflect.DeepEqual(again, first) {
		t.Errorf("sends %+v, want %+v", again, first)
	}
}

// A transfer of which no state fits into a chunk has arrived: there is nothing to send.
func TestATransferWithoutAStateThatFitsHasArrived(t *testing.T) {
	_, d := beginSmall(older, map[string]string{"a": "1"})
	d.nextChunks(begin, true)
	if removed, ok := d.OnTooLarge(); !ok || removed.ID != "a" {
		t.Errorf("removes %+v, %v", removed, ok)
	}
	if res, ended := d.Result(); !ended || !res.Arrived || len(res.States) != 0 {
		t.Errorf("%+v, ended %v", res, ended)
	}
}

// Without a setting, a chunk has 256 KiB.
func TestChunksHaveASizeByDefault(t *testing.T) {
	half := string(make([]byte, 128<<10-stateCost-1))
	d := New(Config{Self: oldHome}).Begin(begin, older, Order{To: newHome, Within: within}, bytesOf(map[string]string{"a": half, "b": half, "c": half}))
	if all := d.nextChunks(begin, true); len(all) != 2 || len(all[0].States) != 2 {
		t.Errorf("%d chunks", len(all))
	}
}
