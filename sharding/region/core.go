package region

import "github.com/peerage-go/peerage/internal/clock"

// Core is one entity type on one node. It is not safe for concurrent use.
type Core struct {
	cfg Config
}

// New returns a Core that has seen nothing yet. Floors are the node's for this
// type: they outlive the Core, and whatever an earlier Core hosted must have been
// stopped by the time another is made with them.
func New(cfg Config, floors *Floors) *Core { return &Core{cfg: cfg} }

// Step handles one event and appends what is to be done to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant { return clock.Never }

// Floors is what a node remembers of a type for the life of its incarnation. The
// zero Floors is empty and ready. It belongs to one Core at a time.
type Floors struct{}
