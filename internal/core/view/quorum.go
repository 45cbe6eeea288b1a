package view

import "github.com/peerage-go/peerage/gossip"

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
