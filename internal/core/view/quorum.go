package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// This file holds the arithmetic of quorums. Both kinds count over the full view: dead
// members never change the denominator.
//
// The policy defines plain quorums (Policy.Quorum). Two plain quorums of one view
// intersect. With KeepMajority, each has more than half of the voters, or exactly half
// and the most senior one, which cannot be in both of two disjoint halves. A total quorum
// misses a plain one only if every member of the plain one is dead.

// has reports whether a node is in a set.
type has func(gossip.NodeID) bool

// totalQuorum reports whether the set holds every member of v, joining ones
// included, that is not proven dead, and at least one voter.
func totalQuorum(v *gossip.View, in, dead has) bool {
	voter := false
	for i := range v.Members {
		m := &v.Members[i]
		switch {
		case in(m.ID):
			voter = voter || m.Status.Votes()
		case !dead(m.ID):
			return false
		}
	}
	return voter
}

// allOf reports whether the set holds every member of v.
func allOf(v *gossip.View, in has) bool {
	for i := range v.Members {
		if !in(v.Members[i].ID) {
			return false
		}
	}
	return len(v.Members) > 0
}

// quorums decides whether a set of nodes may act for a view, by the policy and by the
// proofs of death.
type quorums struct {
	*history
	evidence *evidence
	holder   *leaseHolder
	silence  *silence
}

// inWindow reports whether, at a moment when this node already had all certain proofs of
// the view's dead, no leader could have removed it without its request: less than L (less
// the drift margin) had passed since its newest grant was requested, and a leader with a
// weak proof waits for L. A removed node that wakes and finds all other members dead is
// in the same state as a sole survivor; only time distinguishes them.
func (q *quorums) inWindow() bool {
	if q.holder.grantedAt == 0 {
		return false
	}
	last := clock.Instant(0)
	for i := range q.view.Members {
		if p := q.evidence.proofs[q.view.Members[i].ID]; p != nil && p.certain {
			last = max(last, p.at)
		}
	}
	window := q.cfg.Lease
	return last.Sub(q.holder.grantedAt) < window-q.margin(window)
}

// total reports whether the set is a total quorum of the view and may be used as one.
func (q *quorums) total(in has) bool {
	if q.holder.waived {
		// A view may have left this node out at its own request, which no window
		// excludes.
		return false
	}
	return q.cfg.Evidence == gossip.EvidenceFull && q.votes() && totalQuorum(q.view, in, q.evidence.certainlyDead) && (q.inWindow() || q.silence.assumes()) &&
		q.cfg.Partition.Survives(q.view, func(id gossip.NodeID) bool { return in(id) && q.evidence.mayLive(id) })
}

// plain asks the policy whether a set is a plain quorum.
func (q *quorums) plain(v *gossip.View, in has) bool {
	return q.cfg.Partition.Quorum(v, in)
}

// hopeless reports whether a view on top of ours can no longer be committed: too many
// of the members that would have to accept it are dead. It may have been committed before
// they died, so a leader that finds it cannot drop it. But it does not bind a total
// quorum, which continues without the dead and ignores it (evidence.go).
func (q *quorums) hopeless(next *gossip.View, emergency bool, living has) bool {
	if len(q.evidence.proofs) == 0 {
		return false
	}
	return !(q.plain(q.view, living) && q.plain(next, living)) && !(emergency && allOf(next, living))
}

// chooseWay returns the next step after the answers of a quorum.
func (q *quorums) chooseWay(in has, plain bool, found *attempt) way {
	switch {
	case !plain:
		return wayTakeOver
	case found == nil:
		return wayAfresh
	case !q.hopeless(found.next, found.emergency, q.evidence.mayLive):
		return wayCarry
	case q.total(in):
		return wayTakeOver
	case q.total(q.evidence.mayLive):
		return wayWait
	}
	return wayNone
}

// carriesStep reports whether a set carries the step to a proposed view.
func (q *quorums) carriesStep(next *gossip.View, emergency bool, in has) bool {
	if q.plain(q.view, in) && q.plain(next, in) {
		return true
	}
	return emergency && q.total(in) && allOf(next, in)
}

// way is the next step after a prepare that a quorum has answered.
type way uint8

const (
	// wayAfresh: nothing was uncovered.
	wayAfresh way = iota
	// wayCarry: an attempt was uncovered, to be carried on.
	wayCarry
	// wayTakeOver: an emergency takeover.
	wayTakeOver
	// wayWait: a takeover, once all living members answer.
	wayWait
	// wayNone: the uncovered attempt needs dead members, and this node cannot take over.
	wayNone
)
