package route

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Expects reports whether a message that left under token and number, and was refused by the
// node from, may be sent again: it left on the present way, or on the way whose refusals the
// route waits for. A message from an earlier way to the same node may not: since then, messages
// may have left for another home, or run here.
func (r *Route[M]) Expects(from gossip.NodeID, token protocol.Token, number uint64) bool {
	return r.home == from && r.token == token && number > r.before || r.backlog.settlesWith(from) && number > r.backlog.settle.before
}

// Refused takes back an expected message that left under number and was refused by the node
// from.
func (r *Route[M]) Refused(from gossip.NodeID, number uint64, it Item[M]) {
	it.number, it.Returned = number, true
	b := needBacklog(r)
	b.back = append(b.back, it)
	if b.isSettling() {
		return
	}
	if r.open {
		r.open, r.suspended, r.asked = false, false, true
		require(r, doHide|doMisrouted)
	}
	r.settleWith(from)
}

// settleWith waits for everything that a node refuses of what it was sent.
func (r *Route[M]) settleWith(owner gossip.NodeID) {
	r.markers++
	needBacklog(r).settle = settling{owner: owner, number: r.markers, before: r.before}
	r.ReleaseCallers()
	require(r, doSettle)
}

// MarkerAcked takes the acknowledgement of a marker that the route sent to the node from.
// Acknowledgements of a coordinator's markers, which have a term, are not the route's.
func (r *Route[M]) MarkerAcked(from gossip.NodeID, number uint64) {
	if r.backlog.settlesWith(from) && r.backlog.settle.number == number {
		r.settled()
	}
}

// settled ends the wait for refusals. The route may have been closed meanwhile, when it had
// no message to ask a home for.
func (r *Route[M]) settled() {
	r.sortBack()
	r.startFlow()
	r.Reask()
}

// sortBack decides about the refused messages: the head of the buffer, or Lost.
func (r *Route[M]) sortBack() {
	if r.backlog == nil {
		return
	}
	r.backlog.settle = settling{}
	r.backlog.due.clearDue(doSettle)
	again, lost := sortReturned(r.backlog.back, r.window.Sent())
	r.backlog.back = nil
	for i := range lost {
		if !lost[i].Placeholder {
			r.backlog.due.giveUp(&lost[i])
		}
	}
	again = slices.DeleteFunc(slices.Clone(again), func(it Item[M]) bool { return it.Placeholder })
	if len(again) == 0 {
		return
	}
	for i := range again {
		r.backlog.bytes += again[i].Bytes
	}
	// These had room once; the limits apply to new messages.
	r.backlog.buf = append(again, r.backlog.buf...)
}

// sortReturned splits refused messages into those that may return to the head of the buffer
// and those that must be given up, because a message behind them was accepted: the longest run
// of consecutive numbers that ends at the last one sent returns.
func sortReturned[M any](back []Item[M], sent uint64) (again, lost []Item[M]) {
	from := len(back)
	for want := sent; from > 0 && back[from-1].number == want; want-- {
		from--
	}
	return back[from:], back[:from]
}
