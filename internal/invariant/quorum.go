package invariant

import (
	"github.com/peerage-go/peerage/gossip"
)

// PlainQuorum reports whether the nodes for which has is true are a plain quorum of v:
// more than half of its voting members, or exactly half with the most senior voting
// member among them. It is implemented independently of the core, to check the core's
// arithmetic.
func PlainQuorum(v *gossip.View, has func(gossip.NodeID) bool) bool {
	voters, yes, senior := countVoters(v, has)
	return 2*yes > voters || 2*yes == voters && senior
}

// Quorum reports whether has is a quorum under a partition policy that this package
// implements; for any other policy, and nil, it is PlainQuorum.
func Quorum(p gossip.Policy, v *gossip.View, has func(gossip.NodeID) bool) bool {
	voters, yes, senior := countVoters(v, has)
	switch p := p.(type) {
	case gossip.StaticQuorum:
		return PlainQuorum(v, has) && (voters < p.N || yes >= p.N)
	case gossip.KeepOldest:
		if voters < 3 {
			return senior
		}
		return senior && yes >= 2 || yes == voters-1 && !senior
	}
	return PlainQuorum(v, has)
}

// Survives reports whether the policy lets these nodes go on alone when all other members
// are proven dead.
func Survives(p gossip.Policy, v *gossip.View, has func(gossip.NodeID) bool) bool {
	s, static := p.(gossip.StaticQuorum)
	voters, yes, _ := countVoters(v, has)
	return !static || voters < s.N || yes >= s.N
}

func countVoters(v *gossip.View, has func(gossip.NodeID) bool) (voters, yes int, senior bool) {
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
