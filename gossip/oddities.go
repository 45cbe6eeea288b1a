package gossip

import "github.com/peerage-go/peerage/gossip/view"

// What peers say that cannot be, or is out of date, the view core refuses. Here it is
// counted and logged.

// accusedMax bounds how many peers an operator is warned of, each once.
const accusedMax = 64

// noticeRefusal counts refusals of what came under a ballot below one promised here.
// That happens at every change of the leader; many of them are a leader that is not
// told, or a replay.
func (l *loop) noticeRefusal(s view.Send) {
	m, is := s.Msg.(*view.Nack)
	if !is {
		return
	}
	l.n.counters.stale.Add(1)
	l.n.record("ballot refused", s.To, 0, "below one promised to "+m.Promised.Node.String(), false)
}

// odd counts what cannot be, and reports whether the operator is to be told: once for
// each peer.
func (l *loop) odd(t view.TraceEvent) (warn bool) {
	switch t.Kind {
	case "stranger":
		l.n.counters.strangers.Add(1)
		return false // forming warns of other clusters
	case "view shown by no member", "view shown by no contact":
		l.n.counters.nonMembers.Add(1)
		return false // as one that was removed may meet: it asks its members
	case "spoken by no member":
		l.n.counters.nonMembers.Add(1)
	case "message in another's name", "grant that cannot be", "place of a member asked for":
		l.n.counters.impostures.Add(1)
	case "contest ended":
		l.n.cfg.Logger.Error("no decision between two clusters of one name, both go on: stop the nodes of one of them, or mend what keeps it",
			"node", l.n.self.Name, "subject", t.Subject, "detail", t.Detail)
		return false
	default:
		return false
	}
	return l.accuse(t.Subject)
}

// accuse reports whether the operator has not been warned of a peer before.
func (l *loop) accuse(id view.NodeID) (warn bool) {
	if l.accused[id] || len(l.accused) >= accusedMax {
		return false
	}
	if l.accused == nil {
		l.accused = map[view.NodeID]bool{}
	}
	l.accused[id] = true
	return true
}
