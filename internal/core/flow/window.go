package flow

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
type Window struct {
	sent, sentBytes   uint64
	limit, limitBytes uint64
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
	w.limit, w.limitBytes, w.asked = w.sent+FirstMessages, w.sentBytes+FirstBytes, 0
}

// Sent returns the number of the last request that left.
func (w *Window) Sent() uint64 { return w.sent }

// MayLeave reports whether a request may leave. The last request may exceed the byte
// limit. So a request that is larger than the limit is sent, and the home holds at most
// one such request for each sender and shard beyond its grant.
func (w *Window) MayLeave(c Class) bool {
	return w.sent < w.limit+uint64(c)*Spare && w.sentBytes < w.limitBytes+uint64(c)*SpareBytes
}

// Left notes a request that left. Its number is Sent, afterwards.
func (w *Window) Left(bytes int) {
	w.sent++
	w.sentBytes += cost(bytes)
}

// Raise applies a grant, and reports whether it raised a limit. A grant from before the
// request that Shrink last answered is void.
func (w *Window) Raise(g Grant) bool {
	if g.Asked < w.asked {
		return false
	}
	news := g.Limit > w.limit || g.LimitBytes > w.limitBytes
	w.limit, w.limitBytes = max(w.limit, g.Limit), max(w.limitBytes, g.LimitBytes)
	return news
}

// Report returns a blocked sender's report to the home.
func (w *Window) Report() Report {
	return Report{w.sent, w.sentBytes, w.limit, w.limitBytes, w.asked}
}
