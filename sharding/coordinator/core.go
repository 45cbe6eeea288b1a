package coordinator

import "github.com/peerage-go/peerage/internal/clock"

// Core is the coordinator of one entity type on one node. It is not safe for
// concurrent use. Make it once per type and incarnation of the node: its tokens
// are unique because it never forgets what it gave out in a term.
type Core struct {
	cfg Config
}

// New returns a Core that has seen nothing yet.
func New(cfg Config) *Core { return &Core{cfg: cfg} }

// Step handles one event and appends what is to be done to out. Now must not go
// back between steps.
func (c *Core) Step(now clock.Instant, ev Event, out *Effects) {}

// Deadline returns when the core next wants a Tick, clock.Never if it does not.
func (c *Core) Deadline() clock.Instant { return clock.Never }
