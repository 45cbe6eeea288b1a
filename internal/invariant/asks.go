package invariant

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Outcome is how an ask ended for its asker.
type Outcome uint8

const (
	// Answered: by the entity's handler.
	Answered Outcome = iota + 1
	// Refused: it ran nowhere, and never will.
	Refused
	// Unknown: it may have run.
	Unknown
	// TimedOut: its deadline came first; it may have run, and may still.
	TimedOut
)

// String returns the outcome in words.
func (o Outcome) String() string {
	return [...]string{"open", "answered", "refused", "of unknown outcome", "timed out"}[min(o, TimedOut)]
}

// Ask names one ask of one process.
type Ask struct {
	Asker gossip.NodeID
	Call  uint64
}

// Asks checks the conclusions that an asker may draw: an answered ask ran once, and
// before its answer; a refused one never runs; each ask ends once.
type Asks struct {
	asks map[Ask]*asked
}

type asked struct {
	ran  int
	over Outcome
}

// NewAsks returns an empty checker.
func NewAsks() *Asks { return &Asks{asks: map[Ask]*asked{}} }

// Begun records that an ask was made.
func (a *Asks) Begun(id Ask) { a.asks[id] = &asked{} }

// Ran records that a handler begins to work on an ask.
func (a *Asks) Ran(at time.Duration, id Ask) *Violation {
	x := a.asks[id]
	if x == nil {
		return broken("S2", at, "ask %d of %v runs and was never made", id.Call, id.Asker)
	}
	x.ran++
	switch {
	case x.ran > 1:
		return broken("S2", at, "ask %d of %v runs %d times", id.Call, id.Asker, x.ran)
	case x.over == Refused:
		return broken("S2", at, "ask %d of %v runs after it was refused", id.Call, id.Asker)
	}
	return nil
}

// Over records that an ask ended for its asker.
func (a *Asks) Over(at time.Duration, id Ask, how Outcome) *Violation {
	x := a.asks[id]
	switch {
	case x == nil || x.over != 0:
		return broken("S2", at, "ask %d of %v is %v, and was over", id.Call, id.Asker, how)
	case how == Answered && x.ran == 0:
		return broken("S2", at, "ask %d of %v is answered and did not run", id.Call, id.Asker)
	case how == Refused && x.ran > 0:
		return broken("S2", at, "ask %d of %v is refused, and ran", id.Call, id.Asker)
	}
	x.over = how
	return nil
}

// AskerGone records that a process ended and no longer waits for its asks.
func (a *Asks) AskerGone(id gossip.NodeID) {
	for k, x := range a.asks { // order-free: each by itself
		if k.Asker == id && x.over == 0 {
			x.over = Unknown
		}
	}
}
