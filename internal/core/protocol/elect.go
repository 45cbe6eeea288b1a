package protocol

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// Decliner is a candidate that has declined to coordinate in a view. Missing: it does
// not run the type, or for another role, and cannot take office in that view even if all
// decline. Unbound is Declined.Unbound: a node that decides by such a decline takes no
// office itself.
type Decliner struct {
	Node             gossip.NodeID
	Missing, Unbound bool
}

// Elect returns the coordinator of a type in v: the first candidate that has not declined.
// If all have, it returns the first of those that run the type. If no candidate runs the
// type, it returns the first of all, in vain. Zero means that there is no candidate.
// Of two entries for one node the first counts.
//
// Candidates are the members that carry the role: those that are up by seniority, then
// those that are leaving. A leaving member hands its office on before it goes: the next
// candidate takes it, with a census, while the leaving one still answers for its shards.
//
// A candidate declines when it does not run the type, or runs it only as a proxy, whose
// settings do not describe hosting. It also declines when the last coordinator refused its
// settings: in office, it would refuse all other nodes in turn.
//
// To decline is a promise that holds for the one view alone: not to take office in it,
// unless all candidates are known to have declined. A candidate that declines because it
// does not run the type marks the decline as Missing, and is bound even if all decline: it
// may run the type a moment later, but other nodes elect another candidate by then. Its
// decline is not binding only towards a node that could not take office
// (Declined.Unbound).
//
// Nodes learn of declines by asking, so they may differ for a while about the coordinator.
// Still, the only node that takes office in a view is the one that complete knowledge of
// all declines would elect:
//
//   - Let a be the first candidate that never declines in the view. Each candidate before
//     a has declined. Each candidate behind a finds a, which has not declined, ahead of it.
//     No node can find that all have declined.
//   - If all decline, only the first whose decline is not Missing takes office: a node does
//     not change its Missing within a view.
//
// So terms, which are views' epochs, have one holder each. A decline holds for no later
// view: there the question is asked again, and a node that all had to accept in one view
// may step back in the next. A coordinator in office need not leave it
// meanwhile: see the coordinator's settleOffice.
func Elect(v *gossip.View, role string, declined ...Decliner) (elected gossip.NodeID) {
	all := electable(v, role)
	for _, n := range all {
		switch at := indexOfDecline(declined, n); {
		case at < 0:
			return n
		case elected == 0 && !declined[at].Missing:
			elected = n
		}
	}
	if elected == 0 && len(all) > 0 {
		elected = all[0]
	}
	return elected
}

// DeclineMissing returns the answer to r of a node that does not run the type, or runs it for
// another role. It is about v, the view that this node holds: in a later one it may be in
// office. Unless it is Unbound, it binds this node in v, also if the node runs the type later.
func DeclineMissing(v *gossip.View, from gossip.NodeID, r *Register) *Declined {
	return &Declined{Head: Head{Type: r.Type, View: v.Epoch}, Missing: true, Unbound: !binds(v, from, r)}
}

// binds reports whether declining r for lack of the type binds the declining member in v.
// It does not if the sender cannot take office in its stead, since the sender is no
// candidate or does not run the type itself. If such a decline were binding, the type could
// stay without a coordinator: a proxy asks before the first host is ready, and the
// candidates before that host never run the type.
func binds(v *gossip.View, from gossip.NodeID, r *Register) bool {
	return r.Settings.Shards > 0 && Candidate(v, r.Settings.Role, from)
}

func indexOfDecline(declined []Decliner, n gossip.NodeID) int {
	return slices.IndexFunc(declined, func(d Decliner) bool { return d.Node == n })
}

// Candidate reports whether a node may be elected in v.
func Candidate(v *gossip.View, role string, n gossip.NodeID) bool {
	return slices.Contains(electable(v, role), n)
}

func electable(v *gossip.View, role string) []gossip.NodeID {
	if v == nil {
		return nil
	}
	var up, leaving []gossip.NodeID
	for i := range v.Members {
		switch m := &v.Members[i]; {
		case !m.HasRole(role):
		case m.Status == gossip.Up:
			up = append(up, m.ID)
		case m.Status == gossip.Leaving:
			leaving = append(leaving, m.ID)
		}
	}
	return append(up, leaving...)
}
