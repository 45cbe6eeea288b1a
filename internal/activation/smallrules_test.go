package activation

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
	"github.com/peerage-go/peerage/internal/core/flow"
)

// TestAPanicOfControlIsCounted checks that a message is an ordinary one if the type's Control panics, and that the
// panic is counted.
func TestAPanicOfControlIsCounted(t *testing.T) {
	counters := &Counters{}
	c := &Config[*Context, int, int]{Counters: counters, Control: func(req int) bool {
		if req == 1 {
			panic("control")
		}
		return req == 2
	}}
	for req, want := range []bool{false, false, true} {
		if got := c.isControl(&Message[int]{Req: req}); got != want {
			t.Errorf("message %d is a control message: %v", req, got)
		}
	}
	if n := counters.Panicked.Load(); n != 1 {
		t.Errorf("%d panics are counted, want 1", n)
	}
}

// TestALateMessageThatCannotBeDecodedIsReported checks that a message whose payload is decoded by the runner is
// handled only if that succeeds, and the failure is reported otherwise.
func TestALateMessageThatCannotBeDecodedIsReported(t *testing.T) {
	bad := errors.New("bad")
	var reported []error
	cfg := &Config[*Context, int, int]{
		Decode: func(b []byte) (int, error) {
			if len(b) == 0 {
				return 0, bad
			}
			return int(b[0]), nil
		},
		Undecoded: func(_ ReplyTo, err error) { reported = append(reported, err) },
	}
	for _, payload := range [][]byte{{7}, {}} {
		m := &Message[int]{rare: &rareFields{late: payload}}
		if ok := decodeLate(cfg, m); ok != (len(payload) > 0) || m.rare.late != nil || ok && m.Req != 7 {
			t.Errorf("payload %v: decoded %v as %d", payload, ok, m.Req)
		}
	}
	if len(reported) != 1 || reported[0] != bad {
		t.Errorf("reported %v", reported)
	}
}

// TestControlMessagesPassTheBatch checks what a runner does with control messages that have come since it took its
// batch: they stand before the ordinary messages, behind the control messages there, and senders see the new counts.
func TestControlMessagesPassTheBatch(t *testing.T) {
	for _, ordinary := range []int{0, 2} {
		r := runnerOf(0, 10)
		r.batch.msgs = []Message[int]{{Req: 1}, {Req: 100}, {Req: 2}, {Req: 3}}
		r.next, r.batch.control = 1, 2
		lent := &mailbox[int]{msgs: []Message[int]{{Req: 101}, {Req: 102}}, control: 2}
		for i := range ordinary {
			lent.msgs = append(lent.msgs, Message[int]{Req: 50 + i})
		}
		r.in.mailbox = lent
		r.in.flags.Or(flagControl)
		r.takeControl()
		var reqs []int
		for _, m := range r.batch.msgs[r.next:] {
			reqs = append(reqs, m.Req)
		}
		if !slices.Equal(reqs, []int{100, 101, 102, 2, 3}) || r.batch.control != 3 || r.in.hasFlag(flagControl) {
			t.Errorf("%d ordinary messages have come: %d are next, %d of them control messages", ordinary, reqs, r.batch.control)
		}
		if r.in.taken != 2 || r.in.left.Load() != 5 {
			t.Errorf("senders read %d ordinary messages, %d in sum", r.in.taken, r.in.left.Load())
		}
		if ordinary == 0 && (r.in.mailbox != nil || !slices.Equal(r.shard.mailboxes.spare, []*mailbox[int]{lent})) {
			t.Error("an empty mailbox stays with the instance, or is lent to two")
		}
		if ordinary > 0 && (r.in.mailbox != lent || len(lent.msgs) != ordinary || lent.control != 0 || len(r.shard.mailboxes.spare) != 0) {
			t.Errorf("%d of %d ordinary messages are left", len(lent.msgs), ordinary)
		}
	}
}

// TestMessagesThatUseTheReserveAreCounted checks that waiting messages of handlers which enter through the reserve use
// it up, and that a queue which moves to another mailbox leaves none behind.
func TestMessagesThatUseTheReserveAreCounted(t *testing.T) {
	w, in, wait := waitTableOf(8)
	in.mailbox = &mailbox[int]{msgs: make([]Message[int], 8)}
	for req := range 5 {
		wait(req, &Sender{Type: "t", ID: "b"}, false)
	}
	if n := w.admitAll(in); n != 2 || in.mailbox.reserved != 2 || in.hasReserve(8) {
		t.Errorf("%d are admitted, %d count as reserved, want a quarter of 8", n, in.mailbox.reserved)
	}
	next := &instance[*Context, int, int]{id: "a"}
	w.moveQueue(in, next)
	if q := w.queues[next]; len(w.queues) != 1 || q == nil || q.lanes[flow.Handler].first.m.Req != 2 || !next.hasFlag(flagWaited) {
		t.Errorf("%d queues after the move", len(w.queues))
	}
	first := w.queues[next].lanes[flow.Handler].first
	if first.leaveLane(); first.lane != nil || first.prev != nil || first.next != nil {
		t.Error("a waiter that has left is still linked")
	}
}

// TestOnlyTheReceiveTimeoutIsListenedFor checks that the end of a timer clears the mark of a receive time-out only if
// it is that.
func TestOnlyTheReceiveTimeoutIsListenedFor(t *testing.T) {
	for name, listens := range map[string]bool{"x": true, ReceiveTimeout: false} {
		in := &instance[*Context, int, int]{}
		clock := time.AfterFunc(time.Hour, func() {})
		set := &timer{name: name, clock: clock}
		in.needCold().timers = map[string]*timer{name: set}
		in.flags.Or(flagListens)
		in.dropTimer(name)
		if in.hasFlag(flagListens) != listens || len(in.cold.timers) != 0 || !set.stopped || clock.Stop() {
			t.Errorf("%q ends: listens %v, %d timers are left, its clock runs %v", name, in.hasFlag(flagListens), len(in.cold.timers), !set.stopped)
		}
	}
}

// TestStatesLeaveOnlyWithTheirShard checks that a table collects no state before the shard leaves, nor without a table.
func TestStatesLeaveOnlyWithTheirShard(t *testing.T) {
	var none *stateTable
	none.addLeaving("a", []byte{1})
	s := &stateTable{}
	if s.addLeaving("a", []byte{1}); none.leavingStates() != nil || len(s.leavingStates()) != 0 {
		t.Errorf("%d states leave with a shard that stays", len(s.leavingStates()))
	}
	s.startLeaving()
	if s.addLeaving("a", []byte{1}); len(s.leavingStates()) != 1 {
		t.Errorf("%d states leave", len(s.leavingStates()))
	}
}

// TestAnInstanceWithoutAPlaceIsDropped checks that an instance which never had a place in the order of eviction can be
// dropped from it, and no other one loses its place.
func TestAnInstanceWithoutAPlaceIsDropped(t *testing.T) {
	o := newEvictionOrder[*Context, int, int](evict.LRU, 2)
	in := &instance[*Context, int, int]{id: "a"}
	o.recordUse(in)
	o.dropInstance(&instance[*Context, int, int]{id: "b"})
	o.dropInstance(&instance[*Context, int, int]{id: "c", cold: &coldState[*Context, int, int]{}})
	if o.policy.Len() != 1 {
		t.Errorf("%d instances have a place, want 1", o.policy.Len())
	}
	if o.dropInstance(in); o.policy.Len() != 0 || in.cold.place.Value != nil {
		t.Error("an instance that has ended has a place")
	}
}

// TestOneMessageOfManyIsTimed checks that the duration of the first of every sampleEvery messages is measured, and
// none of timers.
func TestOneMessageOfManyIsTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		measured := 0
		r := newRig(t, func(c *Config[*Context, int, int]) {
			c.Mailbox, c.Took = 4*sampleEvery, func(time.Duration) { measured++ }
		})
		s := r.start(t, 0)
		deliver(t, s, "a", ask(-2, 1))
		synctest.Wait()
		for i := range 2 * sampleEvery {
			deliver(t, s, "a", ask(i, uint64(i+2)))
		}
		close(r.gate)
		synctest.Wait()
		if measured != 3 {
			t.Errorf("%d of %d messages are measured, want 3", measured, 2*sampleEvery+1)
		}
	})
}
