package entity

import "sync/atomic"

// Counter is a number that only grows, safe for concurrent use. The zero Counter
// is 0.
type Counter struct{ n atomic.Uint64 }

// Add adds n.
func (c *Counter) Add(n int) {
	if n > 0 {
		c.n.Add(uint64(n))
	}
}

// Load returns the sum so far.
func (c *Counter) Load() uint64 { return c.n.Load() }

// Gauge is a number that moves both ways, safe for concurrent use. The zero
// Gauge is 0.
type Gauge struct{ n atomic.Int64 }

// Add adds n.
func (g *Gauge) Add(n int) { g.n.Add(int64(n)) }

// Load returns the present value.
func (g *Gauge) Load() int { return int(g.n.Load()) }
