package residency

import (
	"sync"

	"github.com/peerage-go/peerage/internal/clock"
	core "github.com/peerage-go/peerage/internal/core/residency"
)

// Pace spreads the starts of remembered entities over time, evenly over all types of a node. It
// is safe for concurrent use.
type Pace struct {
	mu   sync.Mutex
	pace core.Pace
}

// NewPace returns a Pace of so many turns per second, or of any number if that is 0.
func NewPace(perSecond int) *Pace {
	return &Pace{pace: core.NewPace(perSecond)}
}

// Turn reserves the next turn.
func (p *Pace) Turn(now clock.Instant) clock.Instant {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.Turn(now)
}
