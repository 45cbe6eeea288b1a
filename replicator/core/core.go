package core

import "github.com/peerage-go/peerage/internal/clock"

// Core is the replicator of one role on one node. Not safe for concurrent use.
type Core struct {
	cfg Config
}

// New returns a core without keys and without a view: until the first
// ViewChanged only level Local can be fulfilled.
func New(cfg Config) *Core { return &Core{cfg: cfg} }

// Step handles one event. Now must not go back between calls.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant { return clock.Never }
