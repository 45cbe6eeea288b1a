package replica

import (
	"github.com/peerage-go/peerage/gossip"
)

// Facts are what the checkers need of the cluster.
type Facts interface {
	// Newest returns the newest view that any process has held, nil before the first.
	Newest() *gossip.View
	// Present reports whether a node has been a member without a break until now.
	Present(gossip.NodeID) bool
	// Current reports whether a node is a member of the newest view of its lineage, and
	// returns the view that the node holds. PresentBeside reports whether a node has been a
	// member without a break until now, in the lineage of another.
	Current(gossip.NodeID) (held *gossip.View, current bool)
	PresentBeside(id, other gossip.NodeID) bool
	// LabelAt returns the name of the process on a host, "" if there is none.
	LabelAt(slot int) string
}
