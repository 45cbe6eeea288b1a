package activation

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

// Tally is a Counter of what happens to every message: it is kept apart per group of
// shards, so that processors that work on different ones do not meet at it. The zero
// Tally is 0.
type Tally struct {
	parts [tallyParts]struct {
		n atomic.Uint64
		_ [56]byte // each has a cache line of its own
	}
}

const tallyParts = 16

func (t *Tally) add(shard ShardID, n int) { t.parts[shard%tallyParts].n.Add(uint64(n)) }

// Load returns the sum so far.
func (t *Tally) Load() (n uint64) {
	for i := range t.parts {
		n += t.parts[i].n.Load()
	}
	return n
}

// Gauge is a number that moves both ways, safe for concurrent use. The zero
// Gauge is 0.
type Gauge struct{ n atomic.Int64 }

// Add adds n.
func (g *Gauge) Add(n int) { g.n.Add(int64(n)) }

// Load returns the present value.
func (g *Gauge) Load() int { return int(g.n.Load()) }
