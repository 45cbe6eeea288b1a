package gossip

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
	return fmt.Errorf("gossip: unknown cause %q", text)
}

// Departure is a member that a view leaves out, and why. It is part of the agreed view,
// so all members receive the same.
type Departure struct {
	ID    NodeID `json:"id"`
	Cause Cause  `json:"cause"`
	// Evidence is the kind of the leader's proof; "" for other causes.
	Evidence string `json:"evidence,omitempty"`
}
