package protocol

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
)

// Elect returns who coordinates a type of a role in v: the first candidate that has
// not declined to, or, when all have, the first of all. It returns zero when nobody
// can.
//
// Candidates are the members that carry the role: those that are up by seniority, then
// those that are leaving. A leaving member hands its office on before it goes: the next
// one takes it, with a census, while the leaving one still answers for what it hosts.
//
// A candidate declines when it does not run the type, or only as a proxy, whose settings
// say nothing of how it is hosted; or when the last coordinator refused it for its
// settings: in office, it would refuse all others in turn. To
// decline is a promise that holds for the one view alone: not to take office in it,
// unless all candidates are known to have declined. Nodes learn of it by asking, so
// they may differ for a while about who is elected; still, nobody takes office in a
// view but the node that all would name who knew everything:
//
//   - let a be the first candidate that never declines in the view. Each other one has
//     declined (those before a) or knows of a, which has not, ahead of it (those behind);
//     and nobody can know that all have declined.
//   - if all decline, nobody but the first takes office.
//
// So terms, which are views' epochs, have one holder each. What a node said in one view
// says nothing about the next: there the question is asked again, and a node that
// all had to make do with in the one may step back in the other.
func Elect(v *view.View, role string, declined ...view.NodeID) view.NodeID {
	all := candidates(v, role)
	for _, n := range all {
		if !slices.Contains(declined, n) {
			return n
		}
	}
	if len(all) > 0 {
		return all[0]
	}
	return 0
}

// AllDeclined reports whether no candidate is left: Elect names the first one then,
// which has declined as well.
func AllDeclined(v *view.View, role string, declined []view.NodeID) bool {
	return !slices.ContainsFunc(candidates(v, role), func(n view.NodeID) bool { return !slices.Contains(declined, n) })
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
