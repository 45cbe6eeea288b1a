package activation

import "sync/atomic"

// Counters are the counters of a Host. Its owner makes them, so that they outlive the
// Host. Every field is safe for concurrent use.
type Counters struct {
	Handled Tally
	// Passivated counts instances that ended by themselves, not with their shard. Forced
	// counts shards, and CutLoose instances, that did not end in time.
	Passivated, Abandoned            Counter
	Forced, CutLoose                 Counter
	Expired, Panicked, HandlerErrors Counter
	// StatesLost counts states that were not transferred although they should have been.
	StatesLost Counter
	// AbandonedTells counts messages without an asker that were dropped.
	AbandonedTells Counter
	// Repeated counts copies of reliable messages that were deduplicated, Forgotten the
	// producers whose deduplication state a shard evicted.
	Repeated, Forgotten Counter
	// Activated counts instances that began.
	Activated Counter
	// Blocked counts calls of entities' code that took longer than BlockedAfter.
	Blocked Counter
	// Entities is a gauge. So are Waiting, callers that wait for room in a mailbox, and
	// Parked, messages of other nodes that do.
	Entities, Waiting, Parked Gauge
}

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

// Tally is a Counter for events of every message. It has one part per group of shards, so
// that processors that work on different shards do not contend. The zero Tally is 0.
type Tally struct {
	parts [tallyParts]struct {
		n atomic.Uint64
		_ [56]byte // each has a cache line of its own
	}
}

const tallyParts = 16

func (t *Tally) addAt(shard ShardID, n int) { t.parts[shard%tallyParts].n.Add(uint64(n)) }

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
