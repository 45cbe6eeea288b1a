package invariant

import "github.com/peerage-go/peerage/gossip/view"

// PlainQuorum reports whether the nodes for which has is true are a plain quorum
// of v (DESIGN 4.1): more than half of its voting members, or exactly half with
// the most senior voting member among them. It is written anew here, so that the
// core's own arithmetic has a second opinion.
func PlainQuorum(v *view.View, has func(view.NodeID) bool) bool {
	voters, yes, senior := 0, 0, false
	for i := range v.Members {
		if !v.Members[i].Status.Votes() {
			continue
		}
		voters++
		if has(v.Members[i].ID) {
			yes++
			senior = senior || voters == 1
		}
	}
	return 2*yes > voters || 2*yes == voters && senior
}
