package residency

import (
	"context"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Pace limits a rate, evenly: without bursts. It is safe for concurrent use.
type Pace struct {
	every time.Duration
	mu    sync.Mutex
	next  time.Time
}

// NewPace returns a Pace of so many turns per second.
func NewPace(perSecond int) *Pace { return &Pace{every: time.Second / time.Duration(perSecond)} }

// Wait returns true at the caller's turn, or false when ctx ends.
func (p *Pace) Wait(ctx context.Context) bool {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	turn := p.next
	p.next = turn.Add(p.every)
	p.mu.Unlock()
	timer := time.NewTimer(clock.Ahead(time.Until(turn)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
