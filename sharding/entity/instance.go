package entity

import "sync/atomic"

// instance is one activation of an entity, and its mailbox. At rest it is all
// that the entity costs besides the application's own object and the map's entry.
//
// All fields but left belong to the shard's mutex, or, while the instance is
// running, ent to its runner.
type instance[Req, Resp any] struct {
	id string
	// ent is nil before the first message and after OnStop.
	ent Entity[Req, Resp]
	// box holds what waits; nil when nothing does.
	box *box[Req]
	// used is the sweep at which the instance had its last message.
	used uint32
	// taken is the size of the batch that the runner holds, left how much of it has
	// not begun. taken is an upper bound that costs nothing to read; left is exact
	// and shared between two processors, so it is asked only when it matters.
	taken uint32
	left  atomic.Int32
	state state
	// waited: senders wait for room in this mailbox; see Shard.waiters.
	waited atomic.Bool
	// retire asks the runner to end the instance before the next message.
	retire bool
}

type state uint8

const (
	resting state = iota
	running
	parked
)

// full reports whether max messages wait already.
func (in *instance[Req, Resp]) full(max int) bool {
	n := 0
	if in.box != nil {
		n = len(in.box.msgs)
	}
	return n+int(in.taken) >= max && n+int(in.left.Load()) >= max
}
