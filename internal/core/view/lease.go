package view

import "github.com/peerage-go/peerage/internal/clock"

// Leases, and why at most one node at a time may act on a member's place.
//
//	leader          ping, sent at s ───────────▶ member
//	                                             promises: no other leader before receipt + L
//	                ◀─────────── pong, sent at t0
//	a plain quorum has answered the round of s: no other leader can be elected
//	before s + L, so this is the leader lease
//	                next ping: echo t0, r = rest of the leader lease ──▶
//	                                             lease until t0 + r
//
// t0 lies before the moment at which r was measured, so t0 + r lies before the end
// of the leader lease, on whatever clock it is read: clocks are never compared, only
// their rates matter, and margin() covers those. Invariants:
//
//   - no member's lease outlives its leader's lease;
//   - two leader leases never overlap, since their quorums share a member that has
//     promised, unless the former leader is proven dead;
//   - a leader holds no lease before a prepare in its current view has uncovered nothing:
//     an uncovered view may already have successors;
//   - while a proposal is in flight the round must be answered by a plain quorum of both
//     views, and members that the proposal leaves out are granted nothing;
//   - once it is committed, only rounds sent after the commit count. An answer to an
//     earlier one may come from a member that has not received the view and still obeys a
//     candidate of the old view that has found the attempt and carries it: that candidate
//     would lead the new view while this lease runs.
//
// Tried and rejected: counting the lease from the receipt of the answers (it then
// outlives the promises), and from the sending of the first ping only (every change
// of the view would pause everyone).

// leaseHolder holds this node's own lease, granted by a leader or by its own rounds.
type leaseHolder struct {
	*history
	lease Lease
	// grantedAt is when the newest grant was requested: the t0 of the answer that it
	// echoed. For a leader it is when the newest round was sent that a plain quorum
	// answered.
	grantedAt clock.Instant
	// waived is set once this node has asked to be left out: it adopts no lease.
	waived bool
}

// adoptGrant adopts the lease that a ping grants. The echo is this node's own clock.
func (h *leaseHolder) adoptGrant(p *Ping) {
	if p.Remaining <= 0 || p.Echo == 0 || h.waived || !h.votes() || p.Epoch != h.view.Epoch {
		return
	}
	t0 := clock.Instant(p.Echo)
	if t0.After(h.now) || p.Remaining > h.cfg.Lease {
		h.traceEvent("impossible lease grant, ignored", p.Ballot.Node, "")
		return
	}
	h.adoptLease(Lease{Until: t0.Add(p.Remaining), Generation: p.Epoch.Generation()}, t0)
}

// adoptLease adopts a lease that was requested at t0. If the lease had lapsed and returns in
// another generation, the instances of the former generation still run here: they are
// abandoned.
func (h *leaseHolder) adoptLease(l Lease, t0 clock.Instant) {
	h.grantedAt = max(h.grantedAt, t0)
	if l.Generation == h.lease.Generation && !l.Until.After(h.lease.Until) && l.Leader == h.lease.Leader {
		return
	}
	if h.lease.Generation != 0 && l.Generation != h.lease.Generation && !h.lease.Valid(h.now) {
		h.out.Abandon = true
	}
	l.Until = max(l.Until, h.lease.Until)
	h.lease = l
	h.out.Lease = &l
}

// adoptLeaderLease adopts the leader lease until the given end, by the round of sent.
func (h *leaseHolder) adoptLeaderLease(until, sent clock.Instant) {
	h.grantedAt = max(h.grantedAt, sent)
	if h.votes() && !h.waived {
		h.adoptLease(Lease{Until: until, Generation: h.view.Epoch.Generation(), Leader: true}, sent)
	}
}

// loseLeaderLease makes the lease that this node holds an ordinary one: it no longer leads.
func (h *leaseHolder) loseLeaderLease() {
	if h.lease.Leader {
		h.lease.Leader = false
		l := h.lease
		h.out.Lease = &l
	}
}

// dropLease ends the lease.
func (h *leaseHolder) dropLease() {
	h.lease = Lease{}
	h.out.Lease = &Lease{}
}

// waiveLease ends the lease for good: every later grant is ignored.
func (h *leaseHolder) waiveLease() {
	h.waived = true
	h.dropLease()
}
