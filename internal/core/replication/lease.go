package replication

import (
	"fmt"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// Leases
//
// A removed node continues in its last view until it learns of its removal. Several
// removed nodes can be a majority of that view: all members of a role that was cut off as
// a whole, three of four when exactly half continued with the most senior, or the members
// that an emergency takeover left out. So a request at a level other than Local succeeds
// only while its asker holds a valid lease: one look at a clock at the end, and no round
// trip. Until then it waits, whichever replicas have answered.
//
// The asker's lease is enough, and replicas need none when they answer, since no node
// outside the newest view holds a valid lease. So when a request is counted over the view
// e, its asker a is in e and in every view from there to the newest one, n, and its
// answers came from a majority Q of e, itself included, in e or earlier. Every request
// that ends in n meets Q:
//
//   - before n is settled, it needs a majority of the voters of e, or all that are left.
//     A majority meets Q; if fewer are left, then a is one of them.
//   - n is settled by replicas that took over the state of as many members of e, in
//     exchanges in which both sides were in n. One member of Q is among those. It was in
//     n then, and had answered a in e before.
//
// So every request that ends later sees a write that has ended, and a read sees all
// writes that ended before it began. For removed nodes neither holds; they have no lease.
//
// To(n) and All need the lease too. To(n) guarantees nothing across requests, but
// promises that a value stands at n members, and values at removed nodes are lost when
// those join again. To(1) is Local.
//
// Rejected: to refuse such requests immediately. A lease lapses for a moment when a
// leader dies, and is back before most deadlines. Rejected: leases of the answering
// replicas, since they prove nothing that the asker's does not.

// hasLease reports whether requests may succeed now. A lease can arrive before the view
// that makes this node a voter. A request counted over the former view would then rest on
// a majority without it, an empty one where the other members of the role have left.
func (tb *table) hasLease() bool {
	if tb.cfg.LeaseValid == nil || tb.blunder == blunderNoLease {
		return true
	}
	return slices.Contains(tb.members.voters, tb.cfg.Self) && tb.cfg.LeaseValid()
}

// completeRequest ends a request whose level is fulfilled, or has it wait for the lease.
func (tb *table) completeRequest(now clock.Instant, r *request) {
	if tb.hasLease() {
		tb.finishRequest(r, nil)
		return
	}
	if r.leaseAt == 0 {
		// The shell reports when the lease is back, but not after a gap so short that
		// only this request has met it.
		r.leaseAt = now.Add(tb.cfg.ResendAfter)
		tb.timers.push(r.leaseAt, r.id)
	}
}

// retryLease tries again to end a request that waited for the lease alone.
func (tb *table) retryLease(now clock.Instant, r *request) {
	if r.leaseAt == 0 || now.Before(min(r.leaseAt, r.deadline)) {
		return
	}
	r.leaseAt = 0
	tb.proceed(now, r)
}

// onLease ends the requests that waited for the lease alone.
func (tb *table) onLease(now clock.Instant) {
	for _, id := range slices.Sorted(maps.Keys(tb.open)) {
		if r := tb.open[id]; r != nil && r.leaseAt != 0 {
			tb.proceed(now, r)
		}
	}
}

// giveUp ends a request at its deadline.
func (tb *table) giveUp(r *request) {
	err := shortfall(r.level, tb.members.quorumsFor(r.level), tb.counts(r))
	err.NoLease = !tb.hasLease()
	err.Unchanged = r.phase == stamping
	switch {
	case r.ahead != nil && !err.NoLease:
		tb.finishRequest(r, r.ahead)
		return
	case !tb.counts(r)(tb.cfg.Self):
		tb.finishRequest(r, fmt.Errorf("%w; %w: this node has it in memory alone: %w", err, replicator.ErrDurable, tb.disk.failure))
		return
	}
	tb.finishRequest(r, err)
}
