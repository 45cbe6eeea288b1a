package placement

import (
	"context"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
)

// Links is the part of transport.Transport that sharding uses to send.
type Links interface {
	Send(to gossip.NodeID, c transport.Class, k transport.Kind, payload []byte) error
	WaitRoom(ctx context.Context, to gossip.NodeID, c transport.Class) error
	Open(to gossip.NodeID, c transport.Class) bool
}

// Config holds the settings of one incarnation of a node's sharding. All fields without a
// default must be set.
type Config struct {
	// Self is this incarnation of the node.
	Self gossip.Node
	// Links sends frames. Incoming frames of KindCoordinator and KindEntity must be passed
	// to HandleCoordinator, HandleEntities and HandleEntity.
	Links Links
	// Capacity is the number of shards that this node can carry, relative to the other
	// nodes, for strategy.Weighted: a node of 200 gets twice as many as a node of 100. 0
	// counts as 1.
	Capacity uint32
	// MinMembers is the number of members of the cluster, of any role, that must be up
	// before the first shard of any type is placed; 0 means 1. Type.MinMembers is the bound
	// of one type. It should be equal on all nodes: the coordinator applies its own.
	MinMembers int
	// RememberedPerSecond bounds the remembered entities that this node starts per second,
	// over all types; 0 means no bound. A lower rate leaves more of the node to live entities.
	RememberedPerSecond int
	// LeaseValid reports whether this node may run entities now. It is called before every
	// dispatch, so it must be as cheap as an atomic load.
	LeaseValid func() bool
	// Clock is the clock of the leases.
	Clock clock.Clock
	// Store returns the store of a role's coordinators. It is called only for roles of this
	// node.
	Store func(role string) Store
	// RemoveAfter is the setting of the membership.
	RemoveAfter time.Duration
	// Yield asks the leader to decide between this node and one that does not respond; nil
	// never asks.
	Yield func(subject gossip.NodeID)
	// Figures returns the figures of this node for other members, encoded, at most
	// protocol.FiguresBytesMax bytes. It is called from any goroutine; nil has none.
	Figures func() []byte
	// Logger receives messages for operators; nil discards them.
	Logger *slog.Logger
	// Strict makes a single node show mistakes in the code of entities, at some cost: set
	// it in tests. Under the race detector it is always on.
	//
	// Each message and reply between entities of this node goes through its codec, and is
	// bounded by Limits.PayloadBytes, as between nodes: it arrives without the data that
	// the codec loses, and shares no memory with its sender. Each call has a Context of its
	// own, so any late use of it is detected. The hashes of replicated states are compared,
	// so that an entity that changes the slice returned by its Snapshot is named.
	Strict bool
}
