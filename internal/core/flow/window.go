package flow

import "math"

// The limits of a new Window, with which an Account begins too.
const (
	FirstMessages = 64
	FirstBytes    = 64 << 10
)

// The largest window of an Account.
const (
	MostMessages = 16_384
	MostBytes    = 4 << 20
)

// Class determines how much room a request finds.
type Class uint8

const (
	// Ordinary requests come from outside entities.
	Ordinary Class = iota
	// Handler requests are sent by handlers. They have room beyond that of ordinary requests, so
	// that a chain of handlers does not wait behind callers from outside.
	Handler
	// Control messages have room beyond that of both.
	Control
	classes
)

// ParseClass checks a Class that was received.
func ParseClass(b byte) (Class, bool) { return Class(b), Class(b) < classes }

// Spare and SpareBytes are the room of each further Class above the limit of the former.
const (
	Spare      = FirstMessages / 4
	SpareBytes = FirstBytes / 4
)

// allSpare and allSpareBytes are the room of all classes together above the limit.
const (
	allSpare      = (uint64(classes) - 1) * Spare
	allSpareBytes = (uint64(classes) - 1) * SpareBytes
)

// overhead is the cost of a waiting request besides its own bytes.
const overhead = 128

func cost(bytes int) uint64 { return uint64(bytes) + overhead }

// Window is a sender's state for one shard. The zero Window lets no request leave: Open it.
//
// A node has one for each shard that it sends to, so its limits are stored as distances.
type Window struct {
	sent, sentBytes uint64
	// room and roomBytes are how far the limits are above sent and sentBytes, negative if
	// requests of a higher Class, or a large one, have exceeded them.
	room, roomBytes int32
	// asked is the number of the home's last request to shrink that Shrink answered.
	asked uint64
}

// Grant is how far a sender may go. Asked is the number of the home's last request
// to shrink the window.
type Grant struct{ Limit, LimitBytes, Asked uint64 }

// Report is how far a sender has sent, and the limits it has received. Asked is the number
// of the last request to shrink that it has answered.
type Report struct{ Sent, SentBytes, Limit, LimitBytes, Asked uint64 }

// Open begins with a new home: the home grants a first window without being asked.
func (w *Window) Open() {
	w.room, w.roomBytes, w.asked = FirstMessages, FirstBytes, 0
}

// Sent returns the number of the last request that left.
func (w *Window) Sent() uint64 { return w.sent }

// MayLeave reports whether a request may leave. The last request may exceed the byte
// limit. So a request that is larger than the limit is sent, and the home holds at most
// one such request for each sender and shard beyond its grant.
func (w *Window) MayLeave(c Class) bool {
	return w.room > -int32(c)*Spare && w.roomBytes > -int32(c)*SpareBytes
}

// Left notes a request that left. Its number is Sent, afterwards.
func (w *Window) Left(bytes int) {
	limit, limitBytes := w.limits()
	w.sent++
	w.sentBytes += cost(bytes)
	w.room, w.roomBytes = roomTo(limit, w.sent), roomTo(limitBytes, w.sentBytes)
}

// limits returns the limits. Wrapping around cancels out for a negative room.
func (w *Window) limits() (messages, bytes uint64) {
	return w.sent + uint64(w.room), w.sentBytes + uint64(w.roomBytes)
}

// roomTo returns how far a limit is above what was sent, cut to an int32. No home grants more
// than MostMessages and MostBytes above what it has received.
func roomTo(limit, sent uint64) int32 {
	if limit >= sent {
		return int32(min(limit-sent, math.MaxInt32))
	}
	return -int32(min(sent-limit, math.MaxInt32))
}

// Raise applies a grant, and reports whether it raised a limit. A grant from before the
// request that Shrink last answered is void.
func (w *Window) Raise(g Grant) bool {
	if g.Asked < w.asked {
		return false
	}
	room, roomBytes := roomTo(g.Limit, w.sent), roomTo(g.LimitBytes, w.sentBytes)
	news := room > w.room || roomBytes > w.roomBytes
	w.room, w.roomBytes = max(w.room, room), max(w.roomBytes, roomBytes)
	return news
}

// Report returns a blocked sender's report to the home.
func (w *Window) Report() Report {
	limit, limitBytes := w.limits()
	return Report{w.sent, w.sentBytes, limit, limitBytes, w.asked}
}
