package view

import (
	"fmt"
	"strconv"
)

// Cause is the reason for which a member was left out of a view. The zero Cause is
// unknown.
type Cause uint8

const (
	// CauseLeft: at its own wish.
	CauseLeft Cause = iota + 1
	// CauseDead: its process was proven gone.
	CauseDead
	// CauseSilent: it did not answer the leader for RemoveAfter.
	CauseSilent
	// CauseYielded: it answered the leader, but another member that needed it could not
	// reach it.
	CauseYielded
	// CauseAssumed: it was silent, and AssumeCrash assumed a crash.
	CauseAssumed
	causes
)

// String returns the cause in lower case, "unknown" for the zero Cause.
func (c Cause) String() string {
	switch c {
	case 0:
		return "unknown"
	case CauseLeft:
		return "left"
	case CauseDead:
		return "dead"
	case CauseSilent:
		return "silent"
	case CauseYielded:
		return "yielded"
	case CauseAssumed:
		return "assumed dead"
	}
	return "cause(" + strconv.Itoa(int(c)) + ")"
}

// MarshalText writes the cause as String does.
func (c Cause) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (c *Cause) UnmarshalText(text []byte) error {
	for known := Cause(0); known < causes; known++ {
		if known.String() == string(text) {
			*c = known
			return nil
		}
	}
	return fmt.Errorf("view: unknown cause %q", text)
}

// Departure is a member that a view leaves out, and why. It is part of the agreed view,
// so all members receive the same.
type Departure struct {
	ID    NodeID
	Cause Cause
	// Evidence is the reason of the leader's ProvenDead; "" for other causes.
	Evidence string `json:",omitempty"`
}

// evidenceBytesMax bounds Departure.Evidence.
const evidenceBytesMax = 64

// ifApplies returns the cause if it applies, else none.
func (c Cause) ifApplies(applies bool) Cause {
	if applies {
		return c
	}
	return 0
}

// departed returns the departure of a member whose death is proven or assumed here.
func (c *Core) departed(id NodeID) Departure {
	d := Departure{ID: id, Cause: CauseDead}
	if p := c.proofs[id]; p != nil {
		d.Evidence = p.reason[:min(len(p.reason), evidenceBytesMax)]
		if p.assumed {
			d.Cause = CauseAssumed
		}
	}
	return d
}

func (w *writer) putDepartures(out []Departure) *writer {
	w.u(uint64(len(out)))
	for _, d := range out {
		w.id(d.ID).u(uint64(d.Cause)).str(d.Evidence)
	}
	return w
}

// departureBytesMin is the minimum size of a departure on the wire.
const departureBytesMin = idBytes + 2

func (r reader) readDepartures() []Departure {
	n := r.Count("departures", departureBytesMin)
	if n > membersMax {
		r.Fail(ErrBadView)
		return nil
	}
	var out []Departure
	for range n {
		d := Departure{ID: r.id(), Cause: Cause(min(r.Uvarint(), uint64(causes))), Evidence: r.String("evidence", evidenceBytesMax)}
		if d.Cause >= causes {
			r.Fail(ErrBadView)
			return nil
		}
		out = append(out, d)
	}
	return out
}
