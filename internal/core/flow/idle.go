package flow

// A window grows out of a budget that all senders to a node share. An idle window returns
// its growth; otherwise senders that were busy once would deny it to later senders
// for the life of the process:
//
//	Account                                Window
//	Idle(): nothing came     -- shrink -->  Shrink(): lowers its limit
//	Shrunk(): first window   <-- shrunk --  with its report, behind its requests
//
// The home asks, since it accounts for the budget. It repeats the request until the answer
// arrives. It accepts an answer only if it has sent no grant since it
// asked, for a limit may be used until the sender has given it up. Each request has a number,
// which later grants carry: an older grant that arrives after the request is void.

// Idle marks the end of an interval, and reports whether to ask the sender, with a number,
// to return its window's growth: no request has arrived since the last Idle, or since a later
// answer, and none waits. Messages grow whenever bytes do.
func (a *Account) Idle() (number uint64, ask bool) {
	idle := uint32(a.seen) == a.seenIdle && !a.waits() && !a.blocked
	a.seenIdle = uint32(a.seen)
	if !idle || a.messages == FirstMessages {
		return 0, false
	}
	if !a.asking {
		a.asking = true
		a.asked++
	}
	return a.asked, true
}

// waits reports whether requests of the sender wait for a mailbox.
func (a *Account) waits() bool {
	return a.waiting != nil && (a.waiting.parked > 0 || a.waiting.slow.areAny())
}

// Shrunk handles the answer, which arrives after all requests that the sender had sent, and
// resets the window to a first one. It returns false if the answer no longer holds. Then the
// sender may send less than the home assumes, until it reports that it is blocked. Requests that
// the home accounts for with the answer had arrived before it: the next Idle asks again.
func (a *Account) Shrunk(r Report, b *Budget) bool {
	if !a.asking || r.Asked != a.asked || a.waits() {
		a.seenIdle = uint32(a.seen)
		return false
	}
	a.asking = false
	a.seen, a.seenBytes = r.Sent, r.SentBytes
	a.granted, a.grantedBytes = r.Limit, r.LimitBytes
	b.Give(uint64(a.bytes) - FirstBytes)
	a.messages, a.bytes = FirstMessages, FirstBytes
	return true
}

// Shrink lowers the limit to that of a first window, in answer to the home's request with
// that number, and returns the answer. False means that a later request was answered.
func (w *Window) Shrink(number uint64) (Report, bool) {
	if number < w.asked {
		return Report{}, false
	}
	w.asked = number
	w.room, w.roomBytes = min(w.room, FirstMessages), min(w.roomBytes, FirstBytes)
	return w.Report(), true
}
