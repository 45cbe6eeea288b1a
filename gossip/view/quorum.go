package view

// This file holds the arithmetic of quorums (DESIGN 4.1). Both kinds count over
// the full view: dead members never change the denominator.
//
// Two plain quorums of one view meet, since each has more than half of the voters,
// or exactly half and the most senior one, who cannot be in both of two disjoint
// halves. A total quorum misses a plain one only if every member of the plain one
// is dead.

// has tells whether a node is in a set.
type has func(NodeID) bool

// plainQuorum reports whether the set holds more than half of v's voters, or
// exactly half of them including the most senior one, dead or not.
func plainQuorum(v *View, in has) bool {
	voters, yes := 0, 0
	senior := false
	for i := range v.Members {
		m := &v.Members[i]
		if !m.Status.Votes() {
			continue
		}
		voters++
		if in(m.ID) {
			yes++
			senior = senior || voters == 1
		}
	}
	return 2*yes > voters || 2*yes == voters && senior
}

// totalQuorum reports whether the set holds every member of v, joining ones
// included, that is not proven dead, and at least one voter.
func totalQuorum(v *View, in, dead has) bool {
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
func allOf(v *View, in has) bool {
	for i := range v.Members {
		if !in(v.Members[i].ID) {
			return false
		}
	}
	return len(v.Members) > 0
}
