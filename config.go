package peerage

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/peerage-go/peerage/gossip"
)

// Config is how a node is set up. The zero Config is valid: a cluster of one on
// a free port of the loopback interface.
type Config struct {
	// Gossip says how the node takes part in a cluster: its name, addresses,
	// contact points, roles, and the pace of leases. Its Handlers, Logger and
	// MinGeneration are set by the node.
	Gossip gossip.Config
	// RejoinAfter is the pause before a removed node joins again as a new
	// incarnation. It doubles with each removal that follows soon, up to 30 times
	// itself. Default: 200 ms. Negative: never; the node then stays without a
	// cluster and its Regions answer ErrNotReady.
	RejoinAfter time.Duration
	// Logger gets warnings that an operator should see, and events at lower levels.
	// Default: discard.
	Logger *slog.Logger
	// Registerer takes the node's metrics. nil exports none. They are unregistered
	// by Shutdown and Close.
	Registerer prometheus.Registerer
}

const (
	defaultRejoinAfter = 200 * time.Millisecond
	rejoinFactorMax    = 30
)

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.RejoinAfter == 0 {
		c.RejoinAfter = defaultRejoinAfter
	}
	c.Gossip.Logger = c.Logger
	return c
}

// Validate reports everything that is wrong with the settings at once, each
// fault with the setting's name, its value and why.
func (c Config) Validate() error { return c.Gossip.Validate() }
