package view

import (
	"fmt"
	"math/bits"
	"time"
)

// Policy decides which part of a view goes on when its members cannot reach each
// other (DESIGN 4.6). It is asked by every node, in views that have nothing to do
// with each other, so it must be a pure function of its arguments. All nodes of a
// cluster have the same one; they compare its String when they join.
//
// A policy is a quorum system: everything that must not happen twice - a leader's
// election, a step to the next view, a lease - rests on a set of members for which
// Quorum says yes. Whoever cannot gather such a set stops within L of its last lease.
//
// The application may bring its own. What it promises is on Quorum; VerifyPolicy
// checks it.
type Policy interface {
	// String names the policy and its parameters.
	String() string
	// Quorum reports whether the members in a set are enough to act for the view v. It
	// promises, or two parts of a cluster may act at once:
	//
	//   - any two sets of one view that it says yes to have a voter in common: a member
	//     whose Status.Votes, others count for nothing;
	//   - it says yes to every larger set as well;
	//   - it says yes to the set of all voters.
	//
	// A leader asks it at every answer to a ping: it should look at every member once.
	Quorum(v *View, in func(NodeID) bool) bool
	// Survives reports whether the living of v may go on by themselves although they are
	// no quorum, when all others are proven dead in time (CrashEvidence full). It may
	// refuse whatever it likes.
	Survives(v *View, living func(NodeID) bool) bool
}

// counted is a policy that depends on numbers alone: how many voters there are, how
// many of them are in the set, and whether the most senior is.
type counted interface {
	enough(voters, yes int, senior bool) bool
}

// count counts the voters of v that are in a set.
func count(v *View, in func(NodeID) bool) (voters, yes int, senior bool) {
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

// KeepMajority is the default: more than half of the voters live, or exactly half
// with the most senior one. The others stop.
type KeepMajority struct{}

// String returns "keep majority".
func (KeepMajority) String() string { return "keep majority" }

// Quorum reports whether the set is a plain quorum.
func (p KeepMajority) Quorum(v *View, in func(NodeID) bool) bool { return p.enough(count(v, in)) }

// Survives returns true: one of n that knows that the others are dead goes on.
func (KeepMajority) Survives(*View, func(NodeID) bool) bool { return true }

func (KeepMajority) enough(voters, yes int, senior bool) bool {
	return 2*yes > voters || 2*yes == voters && senior
}

// StaticQuorum lets a part live that has at least N voters, and nobody when no part
// has: for operators who know how many nodes there are, and rather have none than
// fewer than N. From when N have joined on, no crash and no partition leaves fewer than
// N that go on, whatever is proven of the others; what is left stops, and comes back as
// new incarnations after ReformAfter, once all who are missing are proven dead.
//
// While fewer than N have joined, and when members have left in order until fewer than
// N stayed, it is as KeepMajority. In a cluster that has grown to 2N and above, N is not
// enough any more, since two parts could have it: there a majority is needed.
type StaticQuorum struct {
	// N is at least 1.
	N int
}

// String returns "static quorum" and N.
func (p StaticQuorum) String() string { return fmt.Sprintf("static quorum %d", p.N) }

// Quorum reports whether the set has N voters and is a majority; a majority where there
// are no N.
func (p StaticQuorum) Quorum(v *View, in func(NodeID) bool) bool { return p.enough(count(v, in)) }

// Survives reports whether N voters are living; true where there were no N.
func (p StaticQuorum) Survives(v *View, living func(NodeID) bool) bool {
	voters, yes, _ := count(v, living)
	return voters < p.N || yes >= p.N
}

func (p StaticQuorum) enough(voters, yes int, senior bool) bool {
	return KeepMajority{}.enough(voters, yes, senior) && (voters < p.N || yes >= p.N)
}

// KeepOldest lets the part live that has the most senior voter, however small, for
// clusters whose oldest node is worth more than many others. There is one exception:
// of three and more, the oldest alone stops, and all others together live; so a crash
// of the oldest does not stop everything, as long as nobody else is missing.
//
// A small part that lives has not seen everything that a majority has: what was
// replicated at WriteMajority may be lost with the part that stops.
type KeepOldest struct{}

// String returns "keep oldest".
func (KeepOldest) String() string { return "keep oldest" }

// Quorum reports whether the set has the most senior voter and one more, or all but
// the most senior.
func (p KeepOldest) Quorum(v *View, in func(NodeID) bool) bool { return p.enough(count(v, in)) }

// Survives returns true.
func (KeepOldest) Survives(*View, func(NodeID) bool) bool { return true }

func (KeepOldest) enough(voters, yes int, senior bool) bool {
	if voters < 3 {
		return senior
	}
	return senior && yes > 1 || !senior && yes == voters-1
}

// AssumeCrash is KeepMajority until a part without a quorum has heard nothing of the
// others for After: then it assumes that they have crashed, and goes on without them.
// In a partition that lasts that long EVERY part goes on: entities run once in each,
// and what they did in all parts but one is lost when the network heals and one
// cluster is made of them again. Single instance (G1) and fencing between the parts
// hold only as long as silence really means a crash.
//
// It needs CrashEvidence full: an assumed crash is treated as a proven one, except
// that it may come late, and that one word of the silent takes it back. A member that
// another one in the same part still hears is not assumed dead.
type AssumeCrash struct {
	// After is longer than RemoveAfter + Lease: a majority must have had the time to go
	// on before a minority does.
	After time.Duration
}

// String returns "assume crash after" and After.
func (p AssumeCrash) String() string { return "assume crash after " + p.After.String() }

// Quorum is that of KeepMajority.
func (AssumeCrash) Quorum(v *View, in func(NodeID) bool) bool { return KeepMajority{}.Quorum(v, in) }

// Survives returns true.
func (AssumeCrash) Survives(*View, func(NodeID) bool) bool { return true }

func (AssumeCrash) enough(voters, yes int, senior bool) bool {
	return KeepMajority{}.enough(voters, yes, senior)
}

// PolicyError says how a policy breaks its promise.
type PolicyError struct {
	Policy string
	// View is one in which it does, A and B are the sets of members that show it.
	View *View
	A, B []NodeID
	// Why names the promise.
	Why string
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("view: policy %q, view of %d: %v and %v: %s", e.Policy, len(e.View.Members), e.A, e.B, e.Why)
}

// VerifyPolicy checks what Policy.Quorum promises, for every pair of sets of the
// members of a view, and returns a *PolicyError for the first that breaks it. It takes
// 4^n calls for a view of n members, of which it looks at the first 10 at most.
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
				return broken(a, b, "the smaller set is enough, the larger is not")
			case yes[b] && uint(a&b)&voters == 0:
				return broken(a, b, "both are enough, and they have no voter in common")
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
