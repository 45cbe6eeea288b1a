package activation

import (
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/activation/evict"
)

// instance is one activation of an entity, and its mailbox. At rest an entity costs an
// instance, the application's own object and the entry of the table.
//
// All fields but left belong to the shard's mutex, or, while the instance is
// running, ent to its runner.
type instance[C, Req, Resp any] struct {
	id string
	// ent is nil before the first message and after OnStop.
	ent Entity[C, Req, Resp]
	// mailbox holds the waiting messages; nil if there are none.
	mailbox *mailbox[Req]
	// cold is nil for an instance that never needed it.
	cold *coldState[C, Req, Resp]
	// left is the number of messages of the runner's batch that have not begun, control
	// messages first. taken is the number of ordinary messages that the batch had: an
	// upper bound that is cheap to read. left is shared between two processors, so it is
	// read only when taken does not decide.
	taken uint32
	left  atomic.Int32
	// flags may be read without the mutex. The bits from bornBit on are the second of the
	// Host at which the instance was created: a field of its own would cost each entity 16
	// bytes.
	flags atomic.Uint32
	// used is the sweep, modulo 2^16, at which the instance had its last message.
	used  uint16
	state state
	// retire asks the runner to end the instance before the next message.
	retire bool
}

type state uint8

const (
	resting state = iota
	running
	parked
	// holding: it pauses after a panic.
	holding
	// detached: it was passivated, did not end in time, and is no longer in the table.
	detached
)

const (
	// flagWaited: messages wait for room in this mailbox, or are about to; see waitQueue.
	flagWaited uint32 = 1 << iota
	// flagControl: control messages have arrived since the runner took its batch.
	flagControl
	// flagListens: a receive time-out is set.
	flagListens
	// flagUrgent: control messages wait for room.
	flagUrgent
	// flagWatched is set by the watch for blocked calls, and cleared when the next call
	// begins.
	flagWatched
	// flagBegun: the instance lives, or is starting, or runs its OnStop.
	flagBegun
)

// bornBit is the lowest bit of the creation time in instance.flags, which has room for two
// years.
const bornBit = 6

// setBorn stores the creation time of a new instance, as the time since its Host began.
func (in *instance[C, Req, Resp]) setBorn(at time.Duration) {
	in.flags.Store(uint32(at/time.Second) << bornBit)
}

// age returns how long the instance has existed, in seconds, if its Host began this long ago.
func (in *instance[C, Req, Resp]) age(host time.Duration) uint64 {
	const mask = 1<<(32-bornBit) - 1
	return uint64((uint32(host/time.Second) - in.flags.Load()>>bornBit) & mask)
}

func (in *instance[C, Req, Resp]) hasFlag(flag uint32) bool { return in.flags.Load()&flag != 0 }

// isFull reports whether max messages wait already. Control messages have a count of
// their own, so that a full mailbox does not delay them.
func (in *instance[C, Req, Resp]) isFull(max int, control bool) bool {
	n, first := 0, 0
	if in.mailbox != nil {
		n, first = len(in.mailbox.msgs)-in.mailbox.control, in.mailbox.control
	}
	taken := int(in.taken)
	if control {
		left := int(in.left.Load())
		return first+left-min(left, taken) >= max
	}
	return n+taken >= max && n+int(in.left.Load()) >= max
}

// hasReserve reports whether the reserve of a mailbox for max messages has room.
func (in *instance[C, Req, Resp]) hasReserve(max int) bool {
	used := 0
	if in.mailbox != nil {
		used = in.mailbox.reserved
	}
	return used < max/4
}

// coldState holds the rarely used fields of an instance: timers, a stash, panics, its
// place in the order of passivation. It is made when first needed, so that other
// instances do not pay for it. It belongs to the shard's mutex.
type coldState[C, Req, Resp any] struct {
	timers map[string]*timer
	// stash holds the messages of Context.Stash, oldest first.
	stash []Message[Req]
	// lastHandled is the time of the last message, set while flagListens is set.
	lastHandled time.Time
	// panics counts panics in a row. No message is handled before until. rested is the
	// end of the last pause.
	panics uint32
	until  time.Time
	rested time.Time
	hold   *time.Timer
	// place is the place in the shard's order of passivation; its Value is nil while
	// there is none. endsWhenIdle: the instance was evicted, and ends when its mailbox is
	// empty.
	place        evict.Node[*instance[C, Req, Resp]]
	endsWhenIdle bool
	// dismissed: the instance ends before its next batch.
	dismissed bool
}

// needCold returns the instance's coldState and makes it if needed; called with the
// mutex.
func (in *instance[C, Req, Resp]) needCold() *coldState[C, Req, Resp] {
	if in.cold == nil {
		in.cold = &coldState[C, Req, Resp]{}
	}
	return in.cold
}

// endActivation stops the timers of the activation and returns its stash; called with the
// mutex.
func (in *instance[C, Req, Resp]) endActivation() (stash []Message[Req]) {
	x := in.cold
	if x == nil {
		return nil
	}
	in.stopTimers()
	stash, x.stash = x.stash, nil
	return stash
}

// unloadInstance is called with the mutex when an activation has ended. The next
// activation receives its stash first. If the shard stops there is no next one, and the
// stashed asks fail with ErrNotHosted.
func (s *Shard[C, Req, Resp]) unloadInstance(in *instance[C, Req, Resp]) {
	stash := in.endActivation()
	switch {
	case len(stash) == 0:
	case s.stopping != nil:
		s.host.work.Go(func() { s.failMessages(stash, ErrNotHosted) })
	default:
		if in.mailbox == nil {
			in.mailbox = s.mailboxes.borrow()
		}
		in.mailbox.insertAt(in.mailbox.control, stash)
	}
}

// appendMail puts a message into the mailbox of an instance that is not at rest; called
// with the mutex.
func (in *instance[C, Req, Resp]) appendMail(pool *mailboxPool[Req], m *Message[Req], control bool) {
	if in.mailbox == nil {
		in.mailbox = pool.borrow()
	}
	if control {
		in.mailbox.insertControl(0, *m)
		in.flags.Or(flagControl)
	} else {
		in.mailbox.msgs = append(in.mailbox.msgs, *m)
	}
}

// putBack makes the rest of b the head of the instance's mailbox; called with the mutex.
func (in *instance[C, Req, Resp]) putBack(pool *mailboxPool[Req], b *mailbox[Req], next int) {
	in.taken = 0
	in.left.Store(0)
	b.skip(next)
	if in.mailbox != nil {
		n := in.mailbox.control
		b.insertControl(0, in.mailbox.msgs[:n]...)
		b.msgs = append(b.msgs, in.mailbox.msgs[n:]...)
		b.reserved += in.mailbox.reserved
		pool.giveBack(in.mailbox)
	}
	in.mailbox = b
	if len(b.msgs) == 0 {
		pool.giveBack(b)
		in.mailbox = nil
	}
}
