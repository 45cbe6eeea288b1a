package placement

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// TypeStatus is a node's state of one type.
type TypeStatus struct {
	Type    string
	Role    string
	Hosting bool
	// Registered is set once a coordinator has acknowledged this node's region.
	Registered bool
	// Refused is set if the coordinator does not register this node: it names the setting
	// that must be equal on all nodes, and both values. It is also set if no node of the
	// role runs the type.
	Refused string
	// Unregistered is set if this node should have the type, by its role, but does not
	// register it. All fields below are then zero.
	Unregistered bool
	// Coordinator is the coordinator of the type in this node's view.
	Coordinator  gossip.NodeID
	Coordinating bool
	// Term is the term of the newest coordinator that this node has had a message from.
	Term   gossip.Epoch
	Shards []ShardStatus
}

// ShardStatus is one shard as this node sees it.
type ShardStatus struct {
	Shard strategy.ShardID
	// Home is zero if this node has no home for the shard.
	Home  gossip.NodeID
	Token protocol.Token
	// Route is "unknown", "closed", "suspended", "local" or "remote".
	Route string
	// Entities is the number of entities here, Buffered the number of messages that wait
	// here.
	Entities int
	Buffered int
}
