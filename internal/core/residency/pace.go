package residency

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Pace limits a rate, evenly: without bursts. All types of a node share one.
type Pace struct {
	every time.Duration
	next  clock.Instant
}

// NewPace returns a Pace of so many turns per second, or of any number if that is 0.
func NewPace(perSecond int) Pace {
	if perSecond == 0 {
		return Pace{}
	}
	return Pace{every: time.Second / time.Duration(perSecond)}
}

// Turn reserves the next turn.
func (p *Pace) Turn(now clock.Instant) clock.Instant {
	turn := p.next
	if turn.Before(now) {
		turn = now
	}
	p.next = turn.Add(p.every)
	return turn
}
