package harness

import "time"

// The bounds that the README advertises for the p99 of the time without an answer.
const (
	// BoundMajority is that after a kill that a majority outlives, BoundEmergency after any
	// other.
	BoundMajority  = 300 * time.Millisecond
	BoundEmergency = 500 * time.Millisecond
	// BoundOrderly is that of an orderly stop, boundSilent that of a silent node.
	BoundOrderly = 100 * time.Millisecond
	boundSilent  = 2500 * time.Millisecond
	// BoundFrozen is RemoveAfter and half a second, and a lease more when it was the leader.
	BoundFrozen = boundSilent + time.Second
	// BoundServed is the one that always fails a run.
	BoundServed = 10 * time.Second
)

// StopPatience bounds the draining of a node that ends, on top of the lame duck.
const StopPatience = 10 * time.Second
