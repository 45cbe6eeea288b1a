package invariant

import "github.com/peerage-go/peerage/gossip/view"

// PlainQuorum reports whether the nodes for which has is true are a plain quorum
// of v (DESIGN 4.1): more than half of its voting members, or exactly half with
// the most senior voting member among them. It is written anew here, so that the
// core's own arithmetic has a second opinion.
func PlainQuorum(v *view.View, has func(view.NodeID) bool) bool {
	voters, yes, senior := count(v, has)
	return 2*yes > voters || 2*yes == voters && senior
}

// Quorum is the quorum of a partition policy (DESIGN 4.6) of which this package has an
// opinion of its own; of others it is PlainQuorum. Nil is the default policy.
func Quorum(p view.Policy, v *view.View, has func(view.NodeID) bool) bool {
	voters, yes, senior := count(v, has)
	switch p := p.(type) {
	case view.StaticQuorum:
		return PlainQuorum(v, has) && (voters < p.N || yes >= p.N)
	case view.KeepOldest:
		if voters < 3 {
			return senior
		}
		return senior && yes >= 2 || yes == voters-1 && !senior
	}
	return PlainQuorum(v, has)
}

// Survives reports whether the policy lets these nodes go on by themselves when all
// others are proven dead.
func Survives(p view.Policy, v *view.View, has func(view.NodeID) bool) bool {
	s, static := p.(view.StaticQuorum)
	voters, yes, _ := count(v, has)
	return !static || voters < s.N || yes >= s.N
}

func count(v *view.View, has func(view.NodeID) bool) (voters, yes int, senior bool) {
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
	return voters, yes, senior
}
