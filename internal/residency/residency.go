// Package residency keeps entities running that need no message to live: remembered entities
// (Remembered), singletons and the workers of daemons (AlwaysOn, DaemonController).
package residency

import (
	"context"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"log/slog"
	"sync"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Shard is a shard that runs on this node. activation.Shard implements it.
type Shard interface {
	Token() protocol.Token
	// Ensure starts an entity that has no instance, and reports whether it does.
	Ensure(id string) (starts bool)
	// Dismiss ends an instance in an orderly way, and reports whether it still exists.
	Dismiss(id string) (exists bool)
	Lives(id string) bool
	IDs() []string
	Entities() int
}

// Home is the part of a node that hosts one type, in one incarnation. All fields must be set,
// but for the two stores.
type Home struct {
	Self gossip.NodeID
	Type string
	// Shards is the type's number of shards.
	Shards uint32
	Log    *slog.Logger
	// Ctx ends with the incarnation; Work counts its goroutines.
	Ctx  context.Context
	Work *sync.WaitGroup

	// Shard returns a shard that runs here in this incarnation, nil if it does not.
	Shard func(strategy.ShardID) Shard
	// WantHome requests a home for a shard that has none.
	WantHome func(strategy.ShardID)
	// Supersede ends an allocation immediately; the shard gets a new one.
	Supersede func(strategy.ShardID, protocol.Token)
	// LeaseValid reports whether this node may run entities now.
	LeaseValid func() bool
	// Members returns the nodes of the type's role. Office returns the term in which this
	// node coordinates the type, 0 if it does not.
	Members func() daemon.Members
	Office  func() gossip.Epoch
	// Pace spreads the starts of remembered entities over time.
	Pace *Pace

	// Plans is nil if no plans of daemons can be stored; Store is nil if entities cannot be
	// remembered.
	Plans placement.PlanStore
	Store placement.Rememberer
}

// eachShard calls f for each shard that runs here.
func (h *Home) eachShard(f func(strategy.ShardID, Shard)) {
	for i := range strategy.ShardID(h.Shards) {
		if s := h.Shard(i); s != nil {
			f(i, s)
		}
	}
}

// stopAll ends all instances in an orderly way, and returns how many still exist.
func (h *Home) stopAll() (running int) {
	h.eachShard(func(_ strategy.ShardID, s Shard) {
		for _, id := range s.IDs() {
			if s.Dismiss(id) {
				running++
			}
		}
	})
	return running
}

// abandonStuck ends the allocations of shards that still have instances, and returns how many.
func (h *Home) abandonStuck() (shards int) {
	h.eachShard(func(i strategy.ShardID, s Shard) {
		if s.Entities() > 0 {
			shards++
			h.Supersede(i, s.Token())
		}
	})
	return shards
}
