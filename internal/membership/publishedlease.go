package membership

import (
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
)

// publishedLease publishes the lease. Readers call validAt at every dispatch to an entity:
// one atomic load, no lock.
//
// A lease that returns in another generation must not let instances of the old one run,
// so it is on hold until every subscriber has returned from Abandoned.
type publishedLease struct {
	// until is the end of the lease, 0 while there is none or it is on hold.
	until atomic.Int64

	mu    sync.Mutex
	lease view.Lease
	// holds counts Abandoned events that are not yet delivered. Invariant: until is
	// 0 while holds > 0.
	holds int
	// trace, if set, is called with every change, after it was made and before the loop
	// sends any resulting message. From is when the change was decided, 0 if that is now.
	trace func(l view.Lease, held bool, from clock.Instant)
}

// validAt reports whether the lease may be used at now.
func (c *publishedLease) validAt(now clock.Instant) bool {
	return now.Before(clock.Instant(c.until.Load()))
}

// loadLease returns the lease as last granted.
func (c *publishedLease) loadLease() view.Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lease
}

// setLease publishes a lease.
func (c *publishedLease) setLease(l view.Lease, now clock.Instant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = l
	until := clock.Instant(0)
	if c.holds == 0 && l.Valid(now) {
		until = l.Until
	}
	c.storeEnd(until, now)
}

// storeEnd publishes the end of the lease; mu is held.
func (c *publishedLease) storeEnd(until, now clock.Instant) {
	c.until.Store(int64(until))
	if c.trace != nil {
		c.trace(c.lease, until != 0, now)
	}
}

// withhold withholds the lease until endHold.
func (c *publishedLease) withhold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds++
	c.storeEnd(0, 0)
}

// endHold ends one hold.
func (c *publishedLease) endHold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds--
	if c.holds == 0 {
		c.storeEnd(c.lease.Until, 0)
	}
}
