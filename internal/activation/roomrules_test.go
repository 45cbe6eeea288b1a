package activation

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/peerage-go/peerage/internal/core/reliable"
)

// runnerOf returns the runner of a batch of n messages, whose senders read how many have not begun.
func runnerOf(n, mailboxMax int) *runner[*Context, int, int] {
	s := &Shard[*Context, int, int]{host: &Host[*Context, int, int]{cfg: Config[*Context, int, int]{Mailbox: mailboxMax}}}
	r := &runner[*Context, int, int]{shard: s, in: &instance[*Context, int, int]{}, batch: &mailbox[int]{msgs: make([]Message[int], n)}}
	r.recount()
	return r
}

// TestTheDepthOfABatchIsPublished checks that senders read the number of messages which have not begun: exactly
// for a small batch, and for a large one at most a sixteenth too high, in far fewer writes.
func TestTheDepthOfABatchIsPublished(t *testing.T) {
	for _, all := range []int{1, 2, 31, 32, 33, 63, 64, 100, 1000, 1024} {
		r := runnerOf(all, all)
		writes, published := 0, int(r.in.left.Load())
		for r.next < all {
			r.next++
			r.publishDepth()
			got, left := int(r.in.left.Load()), all-r.next
			if got < left || got-left > all/16 || all < 32 && got != left {
				t.Fatalf("batch of %d: %d are published, %d have not begun", all, got, left)
			}
			if got != published {
				writes, published = writes+1, got
			}
		}
		if all >= 32 && writes > all/2+1 {
			t.Errorf("batch of %d: published %d times", all, writes)
		}
	}
}

// TestTheCountsOfABatch checks what recount notes: the messages that have not begun, and the ordinary ones
// among them.
func TestTheCountsOfABatch(t *testing.T) {
	for _, c := range []struct {
		next, control int
		taken, left   int
	}{{0, 0, 10, 10}, {4, 0, 6, 6}, {4, 7, 3, 6}, {8, 7, 2, 2}, {10, 0, 0, 0}} {
		r := runnerOf(10, 10)
		r.next, r.batch.control = c.next, c.control
		if r.recount(); int(r.in.taken) != c.taken || int(r.in.left.Load()) != c.left {
			t.Errorf("%+v: %d ordinary messages, %d in sum", c, r.in.taken, r.in.left.Load())
		}
	}
}

// TestARunnerFreesTheMemoryOfABurst checks that a runner keeps its own mailbox for the next message only while it
// is small, and that all other mailboxes return to the shard.
func TestARunnerFreesTheMemoryOfABurst(t *testing.T) {
	for _, c := range []struct{ room, kept int }{{1, 1}, {spareRoomMax, spareRoomMax}, {spareRoomMax + 1, 0}} {
		r := runnerOf(1, 10)
		r.worker = &worker[*Context, int, int]{own: &mailbox[int]{msgs: make([]Message[int], 1, c.room), control: 1, reserved: 1}}
		r.batch = r.own
		r.releaseBatch()
		if cap(r.own.msgs) != c.kept || len(r.own.msgs)+r.own.control+r.own.reserved != 0 || r.batch != nil || len(r.shard.mailboxes.spare) != 0 {
			t.Errorf("a mailbox with room for %d: %+v with room for %d is kept, %d are spare", c.room, *r.own, cap(r.own.msgs), len(r.shard.mailboxes.spare))
		}
		lent := &mailbox[int]{}
		r.batch = lent
		if r.releaseBatch(); r.batch != nil || !slices.Equal(r.shard.mailboxes.spare, []*mailbox[int]{lent}) {
			t.Errorf("%d mailboxes are spare, want the one that was lent", len(r.shard.mailboxes.spare))
		}
	}
}

// TestSendersAreWokenAtEverySixteenth checks that a runner looks for room for waiting senders at every sixteenth
// of the mailbox, and not at each message, for which it would need the mutex.
func TestSendersAreWokenAtEverySixteenth(t *testing.T) {
	for mailboxMax, every := range map[int]int{64: 4, 32: 2, 16: 1, 4: 1} {
		for _, waits := range []bool{true, false} {
			r := runnerOf(2*mailboxMax, mailboxMax)
			if waits {
				r.in.flags.Or(flagWaited)
			}
			for r.next = 1; r.next <= mailboxMax; r.next++ {
				r.in.left.Store(-1)
				r.wakeSenders()
				if looked, want := r.in.left.Load() >= 0, waits && r.next%every == 0; looked != want {
					t.Errorf("mailbox of %d, senders wait %v: message %d looks for room %v", mailboxMax, waits, r.next, looked)
				}
			}
		}
	}
}

// waitTableOf returns a table with the mailbox of one entity, and a function that makes a message wait.
func waitTableOf(mailboxMax int) (*waitTable[*Context, int, int], *instance[*Context, int, int], func(req int, from *Sender, control bool)) {
	pool := &mailboxPool[int]{shared: &sync.Pool{New: func() any { return new(mailbox[int]) }}}
	w := &waitTable[*Context, int, int]{cfg: &Config[*Context, int, int]{Type: "t", Mailbox: mailboxMax, Counters: &Counters{}}, mailboxes: pool}
	in := &instance[*Context, int, int]{id: "a", state: running}
	return w, in, func(req int, from *Sender, control bool) {
		m := Message[int]{Req: req, From: from}
		in.flags.Or(flagWaited)
		w.enqueue(in, &waiter[int]{m: m, done: make(chan error, 1), class: classOf(&m, "t", in.id, control)})
	}
}

// TestRoomBesideWaitingMessages checks that a message finds room in a mailbox that is not full if all waiting
// messages are of kinds that have room of their own, and that it never overtakes one of its kind.
func TestRoomBesideWaitingMessages(t *testing.T) {
	handler := &Sender{Type: "t", ID: "b"}
	for name, c := range map[string]struct {
		waits []string
		want  map[string]room
	}{
		"none wait":             {nil, map[string]room{"ordinary": common, "handler": common, "control": common}},
		"control messages wait": {[]string{"control"}, map[string]room{"ordinary": common, "handler": common, "control": noRoom}},
		"an ordinary one waits": {[]string{"ordinary"}, map[string]room{"ordinary": noRoom, "handler": reserved, "control": common}},
		"one of a handler":      {[]string{"handler"}, map[string]room{"ordinary": noRoom, "handler": noRoom, "control": common}},
	} {
		w, in, wait := waitTableOf(4)
		in.flags.Or(flagWaited) // a message may be about to wait
		message := func(kind string) (from *Sender, control bool) {
			if kind == "handler" {
				from = handler
			}
			return from, kind == "control"
		}
		for _, kind := range c.waits {
			from, control := message(kind)
			wait(1, from, control)
		}
		for kind, want := range c.want {
			from, control := message(kind)
			if got := w.findRoom(in, &Message[int]{From: from}, control); got != want {
				t.Errorf("%s: room %d for a message that is %s, want %d", name, got, kind, want)
			}
		}
	}
}

// TestAdmittedMessagesAreCounted checks that the messages of all kinds count that enter a mailbox, and that the
// flags of the entity say afterwards which kinds still wait.
func TestAdmittedMessagesAreCounted(t *testing.T) {
	w, in, wait := waitTableOf(4)
	for req := range 2 {
		wait(100+req, nil, true)
	}
	for req := range 6 {
		wait(req, nil, false)
	}
	if !in.hasFlag(flagUrgent) {
		t.Error("control messages wait, and the flag is not set")
	}
	if n := w.admitAll(in); n != 6 {
		t.Errorf("%d are admitted, want two control messages and four ordinary ones", n)
	}
	if in.hasFlag(flagUrgent) || !in.hasFlag(flagWaited) {
		t.Error("two ordinary messages wait, and no control message: the flags say otherwise")
	}
	in.mailbox.skip(4)
	if n := w.admitAll(in); n != 2 || in.hasFlag(flagWaited) || len(w.queues) != 0 {
		t.Errorf("%d are admitted of the last two, %d queues are left", n, len(w.queues))
	}
}

// TestAnOrderlyStopSendsTheMemoryAlong checks that a shard which moves takes along which reliable messages were
// handled, and one that stays does not.
func TestAnOrderlyStopSendsTheMemoryAlong(t *testing.T) {
	for _, keep := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			o := &outcomes{}
			r := newRig(t, func(c *Config[*Context, int, int]) { c.Confirm = o.confirm })
			s := r.start(t, 0)
			deliver(t, s, "a", reliably(3, 1))
			r.expectLog(t, "a:3")
			o.expect(t, ReliableHandled)
			st := r.stopShard(t, keep)
			memory, ok := st.States[memoryKey]
			if ok != keep {
				t.Fatalf("keep %v: the memory goes along %v", keep, ok)
			}
			var next reliable.Memory
			if !keep {
				return
			}
			if err := next.Restore(memory); err != nil {
				t.Fatal(err)
			}
			if v := next.Check("a", reliable.Stamp{Producer: 1, Seq: 1, Floor: 1}, false); v != reliable.Duplicate {
				t.Errorf("the next home takes a copy for %v", v)
			}
		})
	}
}

// TestAMailboxIsLentOnce checks that an instance whose whole batch was handled keeps no mailbox when the batch is put
// back: it returned to the pool.
func TestAMailboxIsLentOnce(t *testing.T) {
	for handled, want := range map[int][]int{2: nil, 1: {2}, 0: {1, 2}} {
		pool := &mailboxPool[int]{shared: &sync.Pool{New: func() any { return new(mailbox[int]) }}}
		in := &instance[*Context, int, int]{}
		in.putBack(pool, &mailbox[int]{msgs: []Message[int]{{Req: 1}, {Req: 2}}}, handled)
		if (in.mailbox == nil) != (want == nil) || len(pool.spare) == 1 != (want == nil) {
			t.Fatalf("%d of 2 are handled: the instance has mailbox %v, %d are spare", handled, in.mailbox, len(pool.spare))
		}
		if want == nil {
			continue
		}
		var left []int
		for _, m := range in.mailbox.msgs {
			left = append(left, m.Req)
		}
		if !slices.Equal(left, want) {
			t.Errorf("%d of 2 are handled: %d are left", handled, left)
		}
	}
}

// TestHandledMessagesAreReleased checks that a mailbox holds no message that it has dropped, so that the memory of
// its request is freed.
func TestHandledMessagesAreReleased(t *testing.T) {
	for name, drop := range map[string]func(b *mailbox[int]){"some": func(b *mailbox[int]) { b.skip(2) }, "all": (*mailbox[int]).dropAll} {
		b := &mailbox[int]{msgs: []Message[int]{{Req: 1}, {Req: 2}, {Req: 3}}, control: 3}
		drop(b)
		kept := len(b.msgs)
		for _, m := range b.msgs[kept:cap(b.msgs)] {
			if m.Req != 0 {
				t.Errorf("%s are dropped, and message %d is held", name, m.Req)
			}
		}
		if kept > 0 && b.msgs[0].Req != 3 || b.control != kept {
			t.Errorf("%s are dropped: %d are left, %d of them control messages", name, kept, b.control)
		}
	}
}
