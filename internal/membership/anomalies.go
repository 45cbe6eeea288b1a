package membership

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
)

// The view core rejects impossible and stale messages of peers. This file counts and logs
// them.

// warnedOfMax bounds how many peers are logged, each once.
const warnedOfMax = 64

// noticeRefusal counts rejected messages under a ballot below a promised one. Some occur
// at every change of the leader; many indicate a former leader that does not learn of the
// change, or a replay.
func (l *loop) noticeRefusal(s view.Send) {
	m, is := s.Msg.(*view.Nack)
	if !is {
		return
	}
	l.n.counters.stale.Add(1)
	l.n.recordEvent("ballot refused", s.To, 0, "below one promised to "+m.Promised.Node.String(), false)
}

// countAnomaly counts impossible messages, and reports whether to warn the operator: once for each
// peer.
func (l *loop) countAnomaly(t view.TraceEvent) (warn bool) {
	switch t.Kind {
	case "other cluster":
		l.n.counters.strangers.Add(1)
		return false // forming warns of other clusters
	case "view from a non-member", "view from a node that was not asked":
		l.n.counters.nonMembers.Add(1)
		return false // a removed node may meet it: it asks its members
	case "membership message from a non-member, ignored":
		l.n.counters.nonMembers.Add(1)
	case "message in another node's name, ignored", "impossible lease grant, ignored", "join request with a member's id, ignored":
		l.n.counters.impostures.Add(1)
	case "contest ended":
		l.n.cfg.Logger.Error("no decision between two clusters of one name, both continue: stop the nodes of one of them, or remove the cause in detail",
			"node", l.n.self.Name, "subject", t.Subject, "detail", t.Detail)
		return false
	default:
		return false
	}
	return l.warnOnce(t.Subject)
}

// warnOnce reports whether to warn of a peer: true once for each.
func (l *loop) warnOnce(id gossip.NodeID) (warn bool) {
	if l.warnedOf[id] || len(l.warnedOf) >= warnedOfMax {
		return false
	}
	if l.warnedOf == nil {
		l.warnedOf = map[gossip.NodeID]bool{}
	}
	l.warnedOf[id] = true
	return true
}
