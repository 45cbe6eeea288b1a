package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// election decides by views and declines whether this node coordinates the type. Zero
// declines elect the most senior candidate (protocol.Elect).
//
// A newer view collects declines afresh. Within a generation, a coordinator stays elected
// as long as the declines received so far, together with those of earlier views, elect it.
// Mostly the same nodes decline again. A new term at each view, with its read and its
// census, would cut moves short and delay allocations.
type election struct {
	cfg  *Config
	view *gossip.View
	// refused is that of the newest Standing.
	refused bool
	// declined lists the candidates that have declined in the present view. If this node is
	// one of them, it declined before it took any office in the view. presumed lists those
	// that declined in the views before, since this node was last elected.
	declined, presumed []protocol.Decliner
}

// viewChanged begins the election of a view. This node declines first, if it has to.
func (e *election) viewChanged(v *gossip.View) {
	e.view = v
	e.presumed = protocol.Presumed(v, e.declined, e.presumed)
	e.declined = nil
	if early := v.Epoch <= e.cfg.DeclinedIn; early || e.refused || e.cfg.Reluctant {
		e.declined = append(e.declined, protocol.Decliner{Node: e.cfg.Self, Missing: early})
	}
}

// addDeclines records declines of the view. A node does not change its decline within a view, so the
// first one counts.
func (e *election) addDeclines(declined []protocol.Decliner) {
	e.declined = protocol.Presumed(e.view, e.declined, declined)
}

// won reports whether the declines of this view elect this node. It then forgets those of
// earlier views.
func (e *election) won() bool {
	if !e.elects(e.declined) {
		return false
	}
	e.presumed = nil
	return true
}

// mayWin reports whether this node is elected if the members that declined in earlier views
// decline again.
func (e *election) mayWin() bool {
	return e.elects(protocol.Presumed(e.view, e.declined, e.presumed))
}

func (e *election) elects(declined []protocol.Decliner) bool {
	return protocol.Elect(e.view, e.cfg.Role, declined...) == e.cfg.Self
}

// ownDecline returns this node's decline of the view, if it has declined.
func (e *election) ownDecline() (d protocol.Decliner, ok bool) {
	at := slices.IndexFunc(e.declined, func(d protocol.Decliner) bool { return d.Node == e.cfg.Self })
	if at < 0 {
		return d, false
	}
	return e.declined[at], true
}
