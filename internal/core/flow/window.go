package flow

// What a new Window may send, and an Account begins with.
const (
	FirstMessages = 64
	FirstBytes    = 64 << 10
)

// What the window of an Account grows to.
const (
	MostMessages = 16_384
	MostBytes    = 4 << 20
)

// Class says how much room a request finds.
type Class uint8

const (
	// Ordinary requests come from outside entities.
	Ordinary Class = iota
	// Handler requests are sent by handlers. They have room beyond that of ordinary ones, so
	// that a chain of handlers does not wait behind callers from outside.
	Handler
	// Control messages have room beyond that of both.
	Control
	classes
)

// ParseClass checks a Class that was received.
func ParseClass(b byte) (Class, bool) { return Class(b), Class(b) < classes }

// Spare and SpareBytes are what each further Class may send above the limit of the former.
const (
	Spare      = FirstMessages / 4
	SpareBytes = FirstBytes / 4
)

// allSpare and allSpareBytes are what all of them may send above the limit.
const (
	allSpare      = (uint64(classes) - 1) * Spare
	allSpareBytes = (uint64(classes) - 1) * SpareBytes
)

// overhead is what a request that waits costs besides its own bytes.
const overhead = 128

func cost(bytes int) uint64 { return uint64(bytes) + overhead }

// Window is what a sender knows of one shard. The zero Window lets nothing leave: Open it.
type Window struct {
	sent, sentBytes   uint64
	limit, limitBytes uint64
	// asked is the number of the home's last question that Shrink answered.
	asked uint64
}

// Grant is how far a sender may go. Asked is the number of the home's last question whether
// the window shrinks.
type Grant struct{ Limit, LimitBytes, Asked uint64 }

// Report is how far a sender has gone, and may go as far as it knows. Asked is the number
// of the last question that it has answered.
type Report struct{ Sent, SentBytes, Limit, LimitBytes, Asked uint64 }

// Open begins with a new home: it promises a first window without being asked.
func (w *Window) Open() {
	w.limit, w.limitBytes, w.asked = w.sent+FirstMessages, w.sentBytes+FirstBytes, 0
}

// Sent returns the number of the last request that left.
func (w *Window) Sent() uint64 { return w.sent }

// MayLeave reports whether a request may leave. The last one may go beyond the limit of
// bytes: so a request that is larger than the limit is sent, and the home holds at most
// one such for each sender and shard more than it promised.
func (w *Window) MayLeave(c Class) bool {
	return w.sent < w.limit+uint64(c)*Spare && w.sentBytes < w.limitBytes+uint64(c)*SpareBytes
}

// Left notes a request that left. Its number is Sent, afterwards.
func (w *Window) Left(bytes int) {
	w.sent++
	w.sentBytes += cost(bytes)
}

// Raise takes a grant, and reports whether it was news. One from before the question that
// Shrink answered last is void.
func (w *Window) Raise(g Grant) bool {
	if g.Asked < w.asked {
		return false
	}
	news := g.Limit > w.limit || g.LimitBytes > w.limitBytes
	w.limit, w.limitBytes = max(w.limit, g.Limit), max(w.limitBytes, g.LimitBytes)
	return news
}

// Report returns what a blocked sender reports to the home.
func (w *Window) Report() Report {
	return Report{w.sent, w.sentBytes, w.limit, w.limitBytes, w.asked}
}
