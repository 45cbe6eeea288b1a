package protocol

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// Election is a node's state of the election of a type's coordinator: a view, and the declines
// received in it. The region and the coordinator of a node have one each. The zero Election
// has no view and elects no node.
//
// A decline holds for one view, so a newer view collects declines afresh. Those of earlier
// views are presumed: mostly the same nodes decline again. They elect no node, but they keep a
// coordinator in office that an earlier view has elected. Otherwise each view would begin a
// term, whose read and census cut moves short and delay allocations.
//
//	             declines of this view       with those presumed
//	elected by   Candidate                   Expected
//	a node       takes office                stays in office
//	a region     asks it for registration    stays with it if registered
type Election struct {
	// Role is the type's role.
	Role string

	view               *gossip.View
	declined, presumed []Decliner
}

// BeginView begins the election of a newer view.
func (e *Election) BeginView(v *gossip.View) {
	e.view = v
	e.presumed = e.merge(e.declined, e.presumed)
	e.declined = nil
}

// AddDeclines records declines of the view. A node does not change its decline within a view,
// so of two by one node the first counts.
func (e *Election) AddDeclines(declined ...Decliner) { e.declined = e.merge(e.declined, declined) }

// Candidate returns the node that the declines of the view elect.
func (e *Election) Candidate() gossip.NodeID { return Elect(e.view, e.Role, e.declined...) }

// Expected returns the node that is elected if all nodes decline again that are presumed to.
func (e *Election) Expected() gossip.NodeID {
	return Elect(e.view, e.Role, e.merge(e.declined, e.presumed)...)
}

// DropPresumed forgets the declines of earlier views.
func (e *Election) DropPresumed() { e.presumed = nil }

// Restart forgets the declines of the view, so that the first candidate is asked again.
func (e *Election) Restart() { e.declined = nil }

// AskAgain makes the declines of the view presumed: all candidates are asked again, and the
// coordinator stays elected meanwhile.
func (e *Election) AskAgain() { e.presumed, e.declined = e.declined, nil }

// Declined returns the declines of the view. They must not be modified.
func (e *Election) Declined() []Decliner { return e.declined }

// Presumed returns the declines of earlier views. They must not be modified.
func (e *Election) Presumed() []Decliner { return e.presumed }

// DeclineOf returns a node's decline of the view, and whether it has declined.
func (e *Election) DeclineOf(n gossip.NodeID) (d Decliner, declined bool) {
	at := indexOfDecline(e.declined, n)
	if at < 0 {
		return d, false
	}
	return e.declined[at], true
}

// Unbound reports whether a node has declined in the view without a promise.
func (e *Election) Unbound() bool {
	return slices.ContainsFunc(e.declined, func(d Decliner) bool { return d.Unbound })
}

// AllMissing reports whether all candidates have declined because they do not run the type.
func (e *Election) AllMissing() bool {
	return !slices.ContainsFunc(electable(e.view, e.Role), func(n gossip.NodeID) bool {
		d, _ := e.DeclineOf(n)
		return !d.Missing
	})
}

// merge returns the declines of the view's members in two lists. Of a member in both, the
// decline in first counts.
func (e *Election) merge(first, second []Decliner) (all []Decliner) {
	for _, d := range slices.Concat(first, second) {
		if e.view.Member(d.Node) != nil && indexOfDecline(all, d.Node) < 0 {
			all = append(all, d)
		}
	}
	return all
}
