package placement

import (
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/statetransfer"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Type holds the settings of one entity type that coordinators and regions need.
type Type struct {
	Name, Role string
	Shards     uint32
	// ShardOf is the fingerprint of the function from ids to shards.
	ShardOf uint64
	// Keeps describes how entities are kept, "" for a proxy.
	Keeps string
	// Messages are the shapes of the messages.
	Messages protocol.Shapes
	// Proxy is set if this node never hosts the type, whatever its roles.
	Proxy                  bool
	StopTimeout, Rebalance time.Duration
	MinMembers             int
	// Strategy is nil for the default.
	Strategy strategy.Strategy
	// States are the settings of replicated states, nil if states are not replicated.
	States *statecopy.Settings
}

// Endpoint is the part of a type on this node that its TypeDriver drives. No method blocks.
type Endpoint interface {
	Routes
	Shards
}

// Routes are the ways of this node's messages to the shards of one type.
type Routes interface {
	// CloseRoute makes messages to a shard wait. If owner is not 0, a marker follows the last
	// message to it; ResendMarker sends the marker again. The driver's MarkerAcked receives
	// the acknowledgement.
	CloseRoute(shard strategy.ShardID, owner gossip.NodeID, token protocol.Token)
	ResendMarker(shard strategy.ShardID, owner gossip.NodeID, token protocol.Token)
	// OpenRoute sends the messages of a shard to its home from now on.
	OpenRoute(shard strategy.ShardID, home gossip.NodeID, token protocol.Token)
	// SetDifference sets the description of how this node's settings differ from the
	// coordinator's; nil means that they are equal.
	SetDifference(differs *string)
	// RouteOf returns the present state of the route to a shard: home and token, the state in
	// one word, and the number of messages that wait.
	RouteOf(shard strategy.ShardID) (home gossip.NodeID, token protocol.Token, state string, buffered int)
	// Buffered returns the number of messages that wait for a home.
	Buffered() int
}

// Shards are the shards of one type that run on this node.
type Shards interface {
	// StartShard starts a shard whose entities begin with states.
	StartShard(shard strategy.ShardID, token protocol.Token, states map[string][]byte) error
	// StopShard ends the entities of a shard within a time, then calls done. If keep is set,
	// done receives their states.
	StopShard(shard strategy.ShardID, token protocol.Token, within time.Duration, keep bool, done func(activation.Stopped))
	// Abandon drops all entities without running their code, AbandonShard those of one shard.
	Abandon()
	AbandonShard(shard strategy.ShardID, token protocol.Token)
	// Resume continues after a pause of the lease.
	Resume()
	// HostedUnder returns the token under which a shard runs here, zero if it does not.
	HostedUnder(shard strategy.ShardID) protocol.Token
	// Population returns the number of a shard's entities here, ShardCount that of shards.
	Population(shard strategy.ShardID) int
	ShardCount() int
	// Describe returns the state of an entity's instance here, if there is one; Search those
	// of the first instances of a shard whose id contains a text.
	Describe(shard strategy.ShardID, id string) (activation.EntityState, bool)
	Search(shard strategy.ShardID, text string, most int) []activation.EntityState
}

// Counters count events of one type, for the life of the process.
type Counters struct {
	// Stale counts orders whose token is not the shard's, TermsRefused terms that no view can
	// have had.
	Stale, TermsRefused atomic.Uint64
	// Duplicates counts shards that were found to run twice.
	Duplicates atomic.Uint64
	// MessageShapes counts nodes whose messages have another shape, on the coordinator's node.
	MessageShapes atomic.Uint64
	Transfers     statetransfer.Counters
	Replication   statecopy.Counters
}
