package flow

// What a window has grown by is taken from a budget that all senders to a node share. An
// idle window gives it back, else those that were busy once would keep it from later ones
// for the life of the process:
//
//	Account                                Window
//	Idle(): nothing came     -- shrink -->  Shrink(): lowers its limit
//	Shrunk(): first window   <-- shrunk --  with its report, behind its requests
//
// The home asks, since it knows what it holds of the budget: it asks again until the answer
// comes, whatever was lost. It takes an answer only if it has granted nothing since it asked,
// for a limit may be used until the sender has given it up. Each question has a number, which
// later grants carry: a grant from before the question that comes behind it is void.

// Idle notes that a while has passed, and reports whether to ask the sender, with a number,
// to give back what its window has grown by: nothing came since Idle was called last, and
// nothing waits.
func (a *Account) Idle() (number uint64, ask bool) {
	idle := a.seen == a.seenIdle && !a.waits() && !a.blocked
	a.seenIdle = a.seen
	if !idle || a.messages == FirstMessages && a.bytes == FirstBytes {
		return 0, false
	}
	if !a.asking {
		a.asking = true
		a.asked++
	}
	return a.asked, true
}

// waits reports whether requests of the sender wait for a mailbox.
func (a *Account) waits() bool { return a.parked > 0 || len(a.slow) > 0 }

// Shrunk takes the answer, which came behind all requests that the sender had sent, and
// makes the window a first one. It reports false if the answer no longer holds; then the
// sender may send less than the home believes until it reports that it is blocked.
func (a *Account) Shrunk(r Report, b *Budget) bool {
	if !a.asking || r.Asked != a.asked || a.waits() {
		return false
	}
	a.asking = false
	a.seen, a.seenBytes = r.Sent, r.SentBytes
	a.granted, a.grantedBytes = r.Limit, r.LimitBytes
	b.Give(a.bytes - FirstBytes)
	a.messages, a.bytes = FirstMessages, FirstBytes
	return true
}

// Shrink lowers the limit to that of a first window, for a question of the home with a
// number, and returns the answer. False means that a later one was answered.
func (w *Window) Shrink(number uint64) (Report, bool) {
	if number < w.asked {
		return Report{}, false
	}
	w.asked = number
	w.limit = min(w.limit, w.sent+FirstMessages)
	w.limitBytes = min(w.limitBytes, w.sentBytes+FirstBytes)
	return w.Report(), true
}
