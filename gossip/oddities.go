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
	case "message under another's ballot", "grant that cannot be":
		l.n.counters.impostures.Add(1)
	default:
		return false
	}
	if l.accused[t.Subject] || len(l.accused) >= accusedMax {
		return false
	}
	if l.accused == nil {
		l.accused = map[view.NodeID]bool{}
	}
	l.accused[t.Subject] = true
	return true
}
