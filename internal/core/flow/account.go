package flow

import "github.com/peerage-go/peerage/internal/assert"

// Account is the state that the home of a shard keeps of one sender.
//
// Invariant: while the sender keeps to its grants,
// granted - seen + parked <= messages, and likewise in bytes, except for the spare room of
// classes and one request; see Window.MayLeave.
type Account struct {
	// seen is the highest number that came, or was reported lost.
	seen, seenBytes       uint64
	granted, grantedBytes uint64
	// waiting is nil until the first request is parked: a home has an account for each shard and
	// sender, and few ever park anything.
	waiting *waitingRequests
	// asked numbers the requests to shrink the window.
	asked uint64
	// messages and bytes are the window.
	messages, bytes uint32
	// seenIdle is the low half of seen at the last Idle.
	seenIdle uint32
	// blocked is set when the sender has reported it, until a grant answers.
	blocked bool
	// slowed: a request was charged to the pool since the sender was last blocked.
	slowed bool
	// asking: the sender may still answer the last request to shrink the window, and no grant
	// was sent since.
	asking bool
	// closed is set by Close: the window of a closed account no longer grows.
	closed bool
}

// waitingRequests are those that wait for mailboxes.
type waitingRequests struct {
	// parked are charged to the window.
	parked, parkedBytes uint64
	slow                slowEntities
}

// needWaiting returns the waiting requests for writing.
func (a *Account) needWaiting() *waitingRequests {
	if a.waiting == nil {
		a.waiting = &waitingRequests{}
	}
	return a.waiting
}

// slowEntities returns the slow entities, nil if there never were any.
func (a *Account) slowEntities() *slowEntities {
	if a.waiting == nil {
		return nil
	}
	return &a.waiting.slow
}

// Budget bounds the bytes that many accounts share: of their windows beyond the first ones,
// and of the pools for parked requests.
type Budget struct{ Used, Most uint64 }

// Take takes bytes, if that many are left.
func (b *Budget) Take(bytes uint64) bool {
	if b.Used+bytes > b.Most {
		return false
	}
	b.Used += bytes
	return true
}

// Give returns bytes.
func (b *Budget) Give(bytes uint64) {
	if assert.Enabled && bytes > b.Used {
		assert.Broken("S9", "%d bytes are returned to a budget of which %d are used", bytes, b.Used)
	}
	b.Used -= bytes
}

// Pool is charged for the parked requests of one type. It has a share that no other type can
// use. All types compete for the rest.
//
// Invariant: Used <= Share + Rest.Most; what exceeds Share is in Rest.Used.
type Pool struct {
	Used, Share uint64
	// Rest is shared by all types of a node, nil if there is none.
	Rest *Budget
}

// Take takes bytes, if that many are left: of the share first, then of the rest.
func (p *Pool) Take(bytes uint64) bool {
	if more := p.excess(p.Used+bytes) - p.excess(p.Used); more > 0 && (p.Rest == nil || !p.Rest.Take(more)) {
		return false
	}
	p.Used += bytes
	if assert.Enabled && p.Rest != nil && p.Used > p.Share+p.Rest.Most {
		assert.Broken("S9", "a pool with a share of %d bytes has %d, of %d for all", p.Share, p.Used, p.Rest.Most)
	}
	return true
}

// Give returns bytes: to the rest first, then to the share.
func (p *Pool) Give(bytes uint64) {
	if less := p.excess(p.Used) - p.excess(p.Used-bytes); less > 0 {
		p.Rest.Give(less)
	}
	p.Used -= bytes
}

// excess returns the part of used bytes that the rest is charged for.
func (p *Pool) excess(used uint64) uint64 { return used - min(used, p.Share) }

// NewAccount returns the account of a sender, given the number of its next request.
func NewAccount(number uint64) Account {
	seen := max(number, 1) - 1
	return Account{
		seen: seen, messages: FirstMessages, bytes: FirstBytes,
		granted: seen + FirstMessages, grantedBytes: FirstBytes,
	}
}

// Run collects requests of one sender to one shard. The reader of a connection adds to it
// without the lock that an Account needs. The zero Run is empty.
type Run struct {
	last, bytes uint64
	// parked of the messages wait for a mailbox.
	messages, parked uint32
	// fewMessages and fewBytes are an eighth of the window. A smaller Run need not be accepted:
	// the limit that its requests would raise is far away.
	fewBytes    uint32
	fewMessages uint16
	// added: Add has returned true.
	added bool
}

// Add notes the arrival of a request. It returns true, once, when the Run is worth an Accept.
func (r *Run) Add(number uint64, bytes int) bool {
	r.last = max(r.last, number)
	r.messages++
	r.bytes += cost(bytes)
	if r.added || r.messages < uint32(r.fewMessages) && r.bytes < uint64(r.fewBytes) {
		return false
	}
	r.added = true
	return true
}

// Wait notes that one of them waits for a mailbox: a window is not small because of it.
func (r *Run) Wait() { r.parked++ }

// Last returns the highest number among the requests.
func (r *Run) Last() uint64 { return r.last }

// Accept accounts for the requests in r, and empties r. Some may never reach a mailbox; then
// their sender, or the caller, got an error. Accept reports whether the window is small for so
// many at a time. Then Grow may keep the sender from being blocked by network latency
// alone.
func (a *Account) Accept(r *Run) (small bool) {
	a.seen = max(a.seen, r.last)
	a.seenBytes += r.bytes
	parked, _ := a.Parked()
	small = parked+uint64(r.parked) == 0 && a.messages < MostMessages && (r.messages >= a.messages/2 || r.bytes >= uint64(a.bytes)/2)
	*r = Run{fewMessages: uint16(a.messages / 8), fewBytes: a.bytes / 8}
	return small
}

// Parked returns the parked requests charged to the window, in messages and bytes.
func (a *Account) Parked() (messages, bytes uint64) {
	if a.waiting == nil {
		return 0, 0
	}
	return a.waiting.parked, a.waiting.parkedBytes
}

// window returns the window.
func (a *Account) window() (messages, bytes uint64) { return uint64(a.messages), uint64(a.bytes) }

// limits returns the limits that can be granted now.
func (a *Account) limits() Grant {
	room, roomBytes := a.window()
	if a.waiting != nil {
		room, roomBytes = room-min(a.waiting.parked, room), roomBytes-min(a.waiting.parkedBytes, roomBytes)
	}
	return Grant{max(a.granted, a.seen+room), max(a.grantedBytes, a.seenBytes+roomBytes), a.asked}
}

// Due reports whether a grant is worth a frame: it raises a limit by half a window, or a
// notice waits. For a blocked sender, a quarter of its window suffices.
func (a *Account) Due() bool {
	if a.slowEntities().noticesWait() {
		return true
	}
	g := a.limits()
	messages, bytes := a.window()
	if a.blocked {
		return g.Limit >= a.seen+messages/4 && g.LimitBytes >= a.seenBytes+bytes/4
	}
	return g.Limit-a.granted >= messages/2 || g.LimitBytes-a.grantedBytes >= bytes/2
}

// Urgent reports whether a grant that is due must be sent now. Any other waits for one that
// is urgent, of any shard, and leaves in the same frame: its sender still has more than a
// quarter of its window.
func (a *Account) Urgent() bool {
	messages, bytes := a.window()
	return a.slowEntities().noticesWait() || a.blocked ||
		a.granted <= a.seen+messages/4 || a.grantedBytes <= a.seenBytes+bytes/4
}

// Grant returns the grant to send, after the Notices, and records it as sent.
func (a *Account) Grant() Grant {
	g := a.limits()
	a.granted, a.grantedBytes, a.blocked, a.asking = g.Limit, g.LimitBytes, false, false
	return g
}

// Reconcile handles the report of a blocked sender, which arrives after all of its requests:
// those that have not arrived were lost. A sender that is blocked while none of its requests
// is parked waits for the network, so its window doubles, as far as the budget allows.
func (a *Account) Reconcile(r Report, b *Budget) {
	a.seen, a.seenBytes = r.Sent, r.SentBytes
	a.granted, a.grantedBytes = r.Limit, r.LimitBytes
	a.blocked = true
	if r.Asked > a.asked {
		a.asked, a.asking = r.Asked, false // a former account of the sender asked
	}
	if parked, _ := a.Parked(); parked == 0 && !a.slowed {
		a.Grow(b)
	}
	a.slowed = false
}

// Grow doubles the window, as far as the budget allows.
func (a *Account) Grow(b *Budget) {
	if a.closed {
		return
	}
	a.messages = min(2*a.messages, MostMessages)
	if more := min(2*a.bytes, MostBytes) - a.bytes; b.Take(uint64(more)) {
		a.bytes += more
	}
}

// Close returns the account's share of the budget. Requests may still be accounted for: the
// reader of a connection may hold a block while the shell closes the account.
func (a *Account) Close(b *Budget) {
	b.Give(uint64(a.bytes) - FirstBytes)
	a.bytes, a.closed = FirstBytes, true
}
