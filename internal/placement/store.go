package placement

import (
	"context"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Records holds everything that the store has of a type.
type Records struct {
	Shards           []protocol.Record
	Regions, Proxies []gossip.NodeID
	// Lost is the newest view before which records may be gone from all members, 0 if there is
	// none.
	Lost gossip.Epoch
}

// Store keeps the records of one role's coordinators in replicated memory. DataStore makes
// one from a role's ddata. Methods are called from goroutines of their own, several
// concurrently.
//
// A call that may have been applied in part, or may still be applied, fails with any error.
// A call that a higher term fenced off fails with a *replicator.Error of code ErrFenced.
type Store interface {
	// Write performs w in one request, at level majority, under a fence of the type and
	// w.Term.
	Write(ctx context.Context, typ string, w coordinator.Write) error
	// Read returns the records of the type that a majority has, and raises the type's fence
	// to term at every replica that answers.
	Read(ctx context.Context, typ string, term gossip.Epoch) (Records, error)
}

// Placer is a Store that also keeps where the application wants shards. DataStore returns
// one.
type Placer interface {
	// Place sets the wanted node of shards, by name; "" clears it. nil means that a
	// majority has stored it.
	Place(ctx context.Context, typ string, wanted map[strategy.ShardID]string) error
	// WatchPlaces calls fn with all wanted nodes, now and after changes. fn must not block
	// and may keep the map. cancel does not wait for a running fn.
	WatchPlaces(typ string, fn func(wanted map[strategy.ShardID]string)) (cancel func())
}

// Rememberer is a Store that also keeps the ids of remembered entities. DataStore returns
// one.
type Rememberer interface {
	// Remember adds ids to those of a shard, and removes ids from them. nil means that a
	// majority has stored it.
	Remember(ctx context.Context, typ string, shard strategy.ShardID, add, remove []string) error
	// Remembered returns the ids that a majority has stored, in any order.
	Remembered(ctx context.Context, typ string, shard strategy.ShardID) ([]string, error)
}
