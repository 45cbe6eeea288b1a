package invariant

import "github.com/peerage-go/peerage/gossip/view"

// PlainQuorum reports whether the nodes for which has is true are a plain quorum of v:
// more than half of its voting members, or exactly half with the most senior voting
// member among them. It is implemented independently of the core, to check the core's
// arithmetic.
func PlainQuorum(v *view.View, has func(view.NodeID) bool) bool {
	voters, yes, senior := countVoters(v, has)
	return 2*yes > voters || 2*yes == voters && senior
}

// Quorum reports whether has is a quorum under a partition policy that this package
// implements; for any other policy, and nil, it is PlainQuorum.
func Quorum(p view.Policy, v *view.View, has func(view.NodeID) bool) bool {
	voters, yes, senior := countVoters(v, has)
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

// Survives reports whether the policy lets these nodes go on alone when all other members
// are proven dead.
func Survives(p view.Policy, v *view.View, has func(view.NodeID) bool) bool {
	s, static := p.(view.StaticQuorum)
	voters, yes, _ := countVoters(v, has)
	return !static || voters < s.N || yes >= s.N
}

func countVoters(v *view.View, has func(view.NodeID) bool) (voters, yes int, senior bool) {
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
