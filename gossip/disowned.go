package gossip

import (
	"errors"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// A node that was removed, and whose connections the members refuse since, never hears of
// the view without it: it would stand in its old view without a lease for ever. So it
// heeds why it is refused. It ends its incarnation, and joins anew, once
//
//   - it has had no lease for L: an incarnation that works is ended by no refusal;
//   - and members that say so are one at least where connections prove who speaks on them,
//     or else more than half of the other voters of its view: a stranger who can answer in
//     the name of so many can cut the node off anyway, and nothing runs here without a
//     lease that could be lost.

// disowning reports whether an error says that this node's incarnation is over.
func disowning(err error) bool {
	var refused *transport.RefusedError
	return errors.As(err, &refused) && (refused.Code == transport.FailForgotten || refused.Code == transport.FailDropped)
}

// disowned reports whether enough members of v have refused this incarnation as over.
func (e *evidence) disowned(v *view.View) bool {
	saying, others := 0, 0
	for i := range v.Members {
		m := &v.Members[i]
		if m.ID == e.self || !m.Status.Votes() {
			continue
		}
		others++
		if p := e.peers[m.ID]; p != nil && p.disowns {
			saying++
		}
	}
	if e.authenticated {
		return saying > 0
	}
	return 2*saying > others
}

// endDisowned ends an incarnation that its members have removed without its knowledge.
func (l *loop) endDisowned(now clock.Instant) {
	v := l.n.View()
	switch {
	case v == nil || l.told.Valid:
		l.unleasedAt = 0
	case l.unleasedAt == 0:
		l.unleasedAt = now
	case now.Sub(l.unleasedAt) >= l.n.cfg.Lease && l.evidence.disowned(v):
		l.end(now, view.Removed{Reason: "members refuse this incarnation as over, and it has no lease: a new one joins"})
	}
}
