package membership

import (
	"errors"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
)

// A removed node never receives the view without it, because the members refuse its
// connections: it would keep its old view without a lease forever. So it evaluates the
// reason of the refusals. It ends its incarnation, and joins again, once
//
//   - it has had no lease for L: refusals never end a working incarnation;
//   - and at least one member has refused it as over if connections are authenticated,
//     otherwise more than half of the other voters of its view. An attacker that can
//     answer in the name of so many can cut the node off anyway, and without a lease
//     nothing runs here that could be lost.

// disowning reports whether an error refuses this node's incarnation as over.
func disowning(err error) bool {
	var refused *transport.RefusedError
	return errors.As(err, &refused) && (refused.Code == transport.FailForgotten || refused.Code == transport.FailDropped)
}

// disowned reports whether enough members of v have refused this incarnation as over.
func (e *evidence) disowned(v *gossip.View) bool {
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

// endDisowned ends an incarnation that was removed from a view it never received.
func (l *loop) endDisowned(now clock.Instant) {
	v := l.n.View()
	switch {
	case v == nil || l.reportedLease.Valid:
		l.unleasedAt = 0
	case l.unleasedAt == 0:
		l.unleasedAt = now
	case now.Sub(l.unleasedAt) >= l.n.cfg.Lease && l.evidence.disowned(v):
		l.endIncarnation(now, gossip.Removed{Reason: "the members refuse this incarnation as removed, and it has no lease: a new incarnation joins"})
	}
}
