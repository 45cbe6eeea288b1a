package activation

import "sync/atomic"

// instance is one activation of an entity, and its mailbox. At rest it is all
// that the entity costs besides the application's own object and the map's entry.
//
// All fields but left belong to the shard's mutex, or, while the instance is
// running, ent to its runner.
type instance[C, Req, Resp any] struct {
	id string
	// ent is nil before the first message and after OnStop.
	ent Entity[C, Req, Resp]
	// box holds what waits; nil when nothing does.
	box *box[Req]
	// extra is nil for those who never needed any of it.
	extra *extra[C, Req, Resp]
	// left is how much of the batch that the runner holds has not begun, control
	// messages first; taken is how many ordinary ones there were. taken is an upper
	// bound of those that are left, and costs nothing to read; left is shared between
	// two processors, so it is asked only when it matters.
	taken uint32
	left  atomic.Int32
	// flags may be read without the mutex.
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
	// loose: it was passivated, did not end in time, and is no more in the map.
	loose
)

const (
	// flagWaited: messages wait for room in this mailbox, or are about to; see waitQueue.
	flagWaited uint32 = 1 << iota
	// flagControl: control messages came while the runner holds a batch.
	flagControl
	// flagListens: a receive time-out is set.
	flagListens
	// flagUrgent: among them are control messages.
	flagUrgent
	// flagWatched is set by the watch for blocked calls, and cleared when the next call
	// begins.
	flagWatched
	// flagBegun: it lives, or is being asked to, or runs its OnStop.
	flagBegun
)

func (in *instance[C, Req, Resp]) has(flag uint32) bool { return in.flags.Load()&flag != 0 }

// full reports whether max messages wait already. Control messages have a count of
// their own, so that a full mailbox does not hold them up.
func (in *instance[C, Req, Resp]) full(max int, control bool) bool {
	n, first := 0, 0
	if in.box != nil {
		n, first = len(in.box.msgs)-in.box.control, in.box.control
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
	if in.box != nil {
		used = in.box.reserved
	}
	return used < max/4
}
