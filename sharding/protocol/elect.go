package protocol

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
)

// Decliner is a candidate that has declined to coordinate in a view. Missing: it does
// not run the type, or for another role, and cannot take office in that view even if all
// decline. Unbound is Declined.Unbound: who decides by such a one takes no office itself.
type Decliner struct {
	Node             view.NodeID
	Missing, Unbound bool
}

// Elect returns who coordinates a type of a role in v: the first candidate that has
// not declined to, or, when all have, the first of those that could, or, when nobody
// runs the type, the first of all, in vain. It returns zero when there is no candidate.
// Of two entries for one node the first counts.
//
// Candidates are the members that carry the role: those that are up by seniority, then
// those that are leaving. A leaving member hands its office on before it goes: the next
// one takes it, with a census, while the leaving one still answers for what it hosts.
//
// A candidate declines when it does not run the type, or only as a proxy, whose settings
// say nothing of how it is hosted; or when the last coordinator refused it for its
// settings: in office, it would refuse all others in turn. To
// decline is a promise that holds for the one view alone: not to take office in it,
// unless all candidates are known to have declined. Who declines because it does not run
// the type says so (Missing), and is bound even then: it may run the type a moment later,
// but others name another one by then. Only to who could not take office it says so
// without being bound (Declined.Unbound). Nodes learn of it by asking, so
// they may differ for a while about who is elected; still, nobody takes office in a
// view but the node that all would name who knew everything:
//
//   - let a be the first candidate that never declines in the view. Each other one has
//     declined (those before a) or knows of a, which has not, ahead of it (those behind);
//     and nobody can know that all have declined.
//   - if all decline, nobody but the first takes office that says it could: a node says
//     the same of that throughout a view.
//
// So terms, which are views' epochs, have one holder each. What a node said in one view
// says nothing about the next: there the question is asked again, and a node that
// all had to make do with in the one may step back in the other. Who holds an office
// meanwhile need not give it up: see the coordinator's settleOffice.
func Elect(v *view.View, role string, declined ...Decliner) view.NodeID {
	all := candidates(v, role)
	missing := func(n view.NodeID) bool {
		at := find(declined, n)
		return at >= 0 && declined[at].Missing
	}
	for _, n := range all {
		if find(declined, n) < 0 {
			return n
		}
	}
	for _, n := range all {
		if !missing(n) {
			return n
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return 0
}

// Binds reports whether a member that declines r, since it does not run the type, is bound
// by that in v: not if the sender could take no office in its stead, since it is no
// candidate or does not run the type itself. To be bound to those too would leave the type
// without a coordinator: a proxy asks before the first host is ready, and the candidates
// before that one never run the type.
func Binds(v *view.View, from view.NodeID, r *Register) bool {
	return r.Settings.Shards > 0 && Candidate(v, r.Settings.Role, from)
}

// AllMissing reports whether all candidates have said that they do not run the type.
func AllMissing(v *view.View, role string, declined []Decliner) bool {
	return !slices.ContainsFunc(candidates(v, role), func(n view.NodeID) bool {
		at := find(declined, n)
		return at < 0 || !declined[at].Missing
	})
}

// Presumed returns who may be presumed to decline in v: who declined lately, and who did
// before and was not heard of since.
func Presumed(v *view.View, lately, before []Decliner) []Decliner {
	var out []Decliner
	for _, d := range slices.Concat(lately, before) {
		if v.Member(d.Node) != nil && find(out, d.Node) < 0 {
			out = append(out, d)
		}
	}
	return out
}

func find(declined []Decliner, n view.NodeID) int {
	return slices.IndexFunc(declined, func(d Decliner) bool { return d.Node == n })
}

// Candidate reports whether a node may be elected in v.
func Candidate(v *view.View, role string, n view.NodeID) bool {
	return slices.Contains(candidates(v, role), n)
}

func candidates(v *view.View, role string) []view.NodeID {
	if v == nil {
		return nil
	}
	var up, leaving []view.NodeID
	for i := range v.Members {
		switch m := &v.Members[i]; {
		case !m.HasRole(role):
		case m.Status == view.Up:
			up = append(up, m.ID)
		case m.Status == view.Leaving:
			leaving = append(leaving, m.ID)
		}
	}
	return append(up, leaving...)
}
