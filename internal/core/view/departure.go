package view

import (
	"github.com/peerage-go/peerage/gossip"
)

// evidenceBytesMax bounds Departure.Evidence.
const evidenceBytesMax = 64

// causeIf returns the cause if it applies, else none.
func causeIf(c gossip.Cause, applies bool) gossip.Cause {
	if applies {
		return c
	}
	return 0
}

// departed returns the departure of a member whose death is proven or assumed here.
func (c *Core) departed(id gossip.NodeID) gossip.Departure {
	d := gossip.Departure{ID: id, Cause: gossip.CauseDead}
	if p := c.proofs[id]; p != nil {
		d.Evidence = p.reason[:min(len(p.reason), evidenceBytesMax)]
		if p.assumed {
			d.Cause = gossip.CauseAssumed
		}
	}
	return d
}

func (w *writer) putDepartures(out []gossip.Departure) *writer {
	w.u(uint64(len(out)))
	for _, d := range out {
		w.id(d.ID).u(uint64(d.Cause)).str(d.Evidence)
	}
	return w
}

// departureBytesMin is the minimum size of a departure on the wire.
const departureBytesMin = idBytes + 2

func (r reader) readDepartures() []gossip.Departure {
	n := r.Count("departures", departureBytesMin)
	if n > membersMax {
		r.Fail(ErrBadView)
		return nil
	}
	var out []gossip.Departure
	for range n {
		d := gossip.Departure{ID: r.id(), Cause: gossip.Cause(min(r.Uvarint(), uint64(gossip.CauseAssumed+1))), Evidence: r.String("evidence", evidenceBytesMax)}
		if d.Cause > gossip.CauseAssumed {
			r.Fail(ErrBadView)
			return nil
		}
		out = append(out, d)
	}
	return out
}
