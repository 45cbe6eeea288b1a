package gossip

import (
	"fmt"
	"math/bits"
	"time"
)

// Policy decides which part of a view continues when its members cannot reach each other.
// Every node calls it, with unrelated views, so it must be a pure function of its
// arguments. All nodes of a cluster must have the same policy; they compare its String
// when they join.
//
// A policy is a quorum system: everything that must not happen twice - a leader's
// election, a step to the next view, a lease - rests on a set of members for which Quorum
// returns true. A part that cannot gather such a set stops when its last lease ends.
//
// An application may implement its own. Quorum documents the requirements; VerifyPolicy
// checks them.
type Policy interface {
	// String names the policy and its parameters.
	String() string
	// Quorum reports whether the members in a set are enough to act for the view v. Two
	// parts of a cluster may act at the same time unless:
	//
	//   - any two sets of one view for which it returns true share a voter: a member
	//     whose Status.Votes; other members must not count;
	//   - it returns true for every larger set as well;
	//   - it returns true for the set of all voters.
	//
	// A leader calls it at every answer to a ping: it should visit every member only
	// once. If the result depends only on the number of voters, the number of them in the
	// set, and whether the most senior is in the set, add a method
	//
	//	EnoughVoters(voters, yes int, senior bool) bool
	//
	// with the same result. A leader then counts answers instead of calling Quorum.
	Quorum(v *View, in func(NodeID) bool) bool
	// Survives reports whether the living members of v may continue alone although they
	// are no quorum, when all other members are proven dead in time (CrashEvidence full).
	// It may return false in any case.
	Survives(v *View, living func(NodeID) bool) bool
}

// countVoters counts the voters of v that are in a set.
func countVoters(v *View, in func(NodeID) bool) (voters, yes int, senior bool) {
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
	return voters, yes, senior
}

// KeepMajority is the default: the part with more than half of the voters lives, or with
// exactly half and the most senior one. The other parts stop.
type KeepMajority struct{}

// String returns "keep majority".
func (KeepMajority) String() string { return "keep majority" }

// Quorum reports whether the set is a plain quorum.
func (p KeepMajority) Quorum(v *View, in func(NodeID) bool) bool {
	return p.EnoughVoters(countVoters(v, in))
}

// Survives returns true: one of n members continues once the other members are proven
// dead.
func (KeepMajority) Survives(*View, func(NodeID) bool) bool { return true }

// EnoughVoters returns what Quorum does for these numbers.
func (KeepMajority) EnoughVoters(voters, yes int, senior bool) bool {
	return 2*yes > voters || 2*yes == voters && senior
}

// StaticQuorum lets a part live that has at least N voters, and no part if none has. It
// is for clusters of a fixed size that prefer no service to one with fewer than N. Once N
// nodes have joined, no crash and no partition leaves fewer than N that continue, even if
// all other members are proven dead. The remaining nodes stop, and return as new
// incarnations after ReformAfter, once all missing members are proven dead.
//
// While fewer than N have joined, and when members have left in order until fewer than N
// remain, it is as KeepMajority. In a cluster of 2N and more members, N voters are not
// enough, since two parts could have them: there a majority is required.
type StaticQuorum struct {
	// N is the number of voters that a part needs. It is at least 1.
	N int
}

// String returns "static quorum" and N.
func (p StaticQuorum) String() string { return fmt.Sprintf("static quorum %d", p.N) }

// Quorum reports whether the set has N voters and is a majority. With fewer than N voters
// in the view it must be a majority.
func (p StaticQuorum) Quorum(v *View, in func(NodeID) bool) bool {
	return p.EnoughVoters(countVoters(v, in))
}

// Survives reports whether N voters are living; true if the view has fewer than N.
func (p StaticQuorum) Survives(v *View, living func(NodeID) bool) bool {
	voters, yes, _ := countVoters(v, living)
	return voters < p.N || yes >= p.N
}

// EnoughVoters returns what Quorum does for these numbers.
func (p StaticQuorum) EnoughVoters(voters, yes int, senior bool) bool {
	return KeepMajority{}.EnoughVoters(voters, yes, senior) && (voters < p.N || yes >= p.N)
}

// KeepOldest lets the part live that has the most senior voter, however small, for
// clusters whose oldest node matters more than many other nodes. There is one exception:
// of three and more, the oldest alone stops, and all other voters together live. So a
// crash of the oldest does not stop everything, as long as no other node is missing.
//
// A small part that lives may lack writes that a majority holds: writes acknowledged at
// ddata.Majority may be lost with the part that stops.
type KeepOldest struct{}

// String returns "keep oldest".
func (KeepOldest) String() string { return "keep oldest" }

// Quorum reports whether the set has the most senior voter and one more, or all but
// the most senior.
func (p KeepOldest) Quorum(v *View, in func(NodeID) bool) bool {
	return p.EnoughVoters(countVoters(v, in))
}

// Survives returns true.
func (KeepOldest) Survives(*View, func(NodeID) bool) bool { return true }

// EnoughVoters returns what Quorum does for these numbers.
func (KeepOldest) EnoughVoters(voters, yes int, senior bool) bool {
	if voters < 3 {
		return senior
	}
	return senior && yes > 1 || !senior && yes == voters-1
}

// AssumeCrash is KeepMajority until a part without a quorum has received no sign of life
// of the other members for After: then it assumes that they have crashed, and continues
// without them. In a partition that lasts that long EVERY part continues: entities run
// once in each, and when the network heals and the parts merge, the work of all parts but
// one is lost. Single instance (G1) and fencing between the parts hold only as long as
// silence really means a crash.
//
// It needs CrashEvidence full: an assumed crash is treated as a proven one, except that
// it may come late, and that any sign of life withdraws it. A member with which another
// one in the same part has a link is not assumed dead.
type AssumeCrash struct {
	// After is the silence after which a part assumes that the other members have crashed. It
	// must exceed RemoveAfter + Lease: a majority must have had the time to continue before a
	// minority does.
	After time.Duration
}

// String returns "assume crash after" and After.
func (p AssumeCrash) String() string { return "assume crash after " + p.After.String() }

// Quorum is that of KeepMajority.
func (AssumeCrash) Quorum(v *View, in func(NodeID) bool) bool { return KeepMajority{}.Quorum(v, in) }

// Survives returns true.
func (AssumeCrash) Survives(*View, func(NodeID) bool) bool { return true }

// EnoughVoters returns what Quorum does for these numbers.
func (AssumeCrash) EnoughVoters(voters, yes int, senior bool) bool {
	return KeepMajority{}.EnoughVoters(voters, yes, senior)
}

// PolicyError describes how a policy violates the requirements of Policy.Quorum.
type PolicyError struct {
	Policy string
	// View is a view for which the policy violates them, A and B are the sets of members
	// that show this.
	View *View
	A, B []NodeID
	// Why names the requirement.
	Why string
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("view: policy %q, view of %d: %v and %v: %s", e.Policy, len(e.View.Members), e.A, e.B, e.Why)
}

// VerifyPolicy checks the requirements of Policy.Quorum for every pair of sets of a
// view's members. It returns a *PolicyError for the first violation. It makes 4^n calls
// for n members, of which it checks the first 10 at most.
func VerifyPolicy(p Policy, v *View) error {
	n := min(len(v.Members), 10)
	small := &View{Cluster: v.Cluster, Epoch: v.Epoch, Members: v.Members[:n]}
	voters := uint(0)
	index := map[NodeID]int{}
	for i := range small.Members {
		index[small.Members[i].ID] = i
		if small.Members[i].Status.Votes() {
			voters |= 1 << i
		}
	}
	if voters == 0 {
		return nil
	}
	yes := make([]bool, 1<<n)
	for set := range yes {
		yes[set] = p.Quorum(small, func(id NodeID) bool { i, ok := index[id]; return ok && set>>i&1 == 1 })
	}
	return verifySets(p, small, voters, yes)
}

func verifySets(p Policy, v *View, voters uint, yes []bool) error {
	broken := func(a, b int, why string) error {
		return &PolicyError{Policy: p.String(), View: v, A: idsOf(v, a), B: idsOf(v, b), Why: why}
	}
	if !yes[voters] {
		return broken(int(voters), 0, "all voters are not enough")
	}
	for a := range yes {
		if !yes[a] {
			continue
		}
		for b := range yes {
			switch {
			case a&b == a && !yes[b]:
				return broken(a, b, "the smaller set is enough, but the larger is not")
			case yes[b] && uint(a&b)&voters == 0:
				return broken(a, b, "both are enough, but they have no voter in common")
			}
		}
	}
	return nil
}

// idsOf lists the members whose bits are set.
func idsOf(v *View, set int) []NodeID {
	out := make([]NodeID, 0, bits.OnesCount(uint(set)))
	for i := range v.Members {
		if set>>i&1 == 1 {
			out = append(out, v.Members[i].ID)
		}
	}
	return out
}

// ForeignPolicy is how a cluster treats another of the same name.
type ForeignPolicy uint8

const (
	// ForeignMerge lets the cluster with the lower standing end, and its nodes join the
	// other.
	ForeignMerge ForeignPolicy = iota
	// ForeignWarn leaves both clusters as they are.
	ForeignWarn
)

// String returns the policy in lower case.
func (p ForeignPolicy) String() string {
	switch p {
	case ForeignMerge:
		return "merge"
	case ForeignWarn:
		return "warn"
	}
	return fmt.Sprintf("policy(%d)", uint8(p))
}
