package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// election decides by views and declines whether this node coordinates the type. Within a
// generation, a coordinator stays elected as long as the declines received so far, together
// with those presumed, elect it (protocol.Election).
type election struct {
	protocol.Election
	cfg *Config
	// refused is that of the newest Standing.
	refused bool
}

// viewChanged begins the election of a view. This node declines first, if it has to: so if it
// has declined, it did before it took any office in the view.
func (e *election) viewChanged(v *gossip.View) {
	e.BeginView(v)
	if early := v.Epoch <= e.cfg.DeclinedIn; early || e.refused || e.cfg.Reluctant {
		e.AddDeclines(protocol.Decliner{Node: e.cfg.Self, Missing: early})
	}
}

// won reports whether the declines of this view elect this node. It then forgets those of
// earlier views.
func (e *election) won() bool {
	if e.Candidate() != e.cfg.Self {
		return false
	}
	e.DropPresumed()
	return true
}

// mayWin reports whether this node is elected if the members that declined in earlier views
// decline again.
func (e *election) mayWin() bool { return e.Expected() == e.cfg.Self }
