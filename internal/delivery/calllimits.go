package delivery

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// callLimits ends the calls of one part whose time limit passes. All calls of a part share one
// timer, so that a time limit costs a call no timer of its own.
//
// Nearly all calls end before their limit. So the timer is not moved when a call ends: when it
// fires, it ends the calls whose limit has passed, and finds the next limit among the rest. With
// equal limits, it fires once in the time of a limit, however many calls there are.
type callLimits struct {
	timer *time.Timer
	// due is when the timer fires, zero while it is stopped.
	due time.Time
	// rest is when the timer may fire next, so that looking at all calls costs little.
	rest time.Time
}

// The timer of a part fires at most once in limitRest, and limitRestPerCall for each call of the
// part. So a call ends at most that much after its limit.
const (
	limitRest        = time.Millisecond
	limitRestPerCall = time.Microsecond
)

// limitCall makes the timer fire at the limit of a call; called with the part's mutex.
func (p *callPart[Resp]) limitCall(until time.Time) {
	l := &p.limits
	if until.Before(l.rest) {
		until = l.rest
	}
	if !l.due.IsZero() && !until.Before(l.due) {
		return
	}
	l.due = until
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(until), p.endOverdue)
		return
	}
	l.timer.Reset(time.Until(until))
}

// endOverdue ends the calls whose limit has passed, and starts the timer for the next limit.
func (p *callPart[Resp]) endOverdue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	var next time.Time
	for _, c := range p.slots {
		switch {
		case !c.open || c.until.IsZero():
		case !c.until.After(now):
			c.open, c.Err = false, ErrLimit
			c.Done <- struct{}{}
		case next.IsZero() || c.until.Before(next):
			next = c.until
		}
	}
	p.limits.due = time.Time{}
	p.limits.rest = now.Add(limitRest + time.Duration(len(p.slots))*limitRestPerCall)
	if !next.IsZero() {
		p.limitCall(next)
	}
}

// Node returns the node of the request of a call that is over.
func (c *Call[Resp]) Node() gossip.NodeID { return c.node }

// WithLimit returns ctx with a deadline at until, unless until is zero or not before the deadline
// of ctx. Only a call that waits for room needs it.
func WithLimit(ctx context.Context, until time.Time) (context.Context, context.CancelFunc) {
	if end, bounded := ctx.Deadline(); until.IsZero() || bounded && !until.Before(end) {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, until)
}
