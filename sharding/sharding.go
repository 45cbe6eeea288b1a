package sharding

import (
	"context"
	"log/slog"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Links is what Sharding sends through: the part of transport.Transport that it
// needs.
type Links interface {
	Send(to view.NodeID, c transport.Class, k transport.Kind, payload []byte) error
	WaitRoom(ctx context.Context, to view.NodeID, c transport.Class) error
}

// Config is what one incarnation of a node's sharding needs. All fields without
// a default must be set.
type Config struct {
	// Registry holds the types to serve. One Sharding serves it at a time.
	Registry *Registry
	// Self is this incarnation of the node.
	Self view.Node
	// Links sends frames. The frames of KindCoordinator and KindEntity that arrive
	// go to HandleCoordinator and HandleEntity.
	Links Links
	// LeaseValid reports whether this node may run entities now. It is asked before
	// every dispatch and must be as cheap as an atomic load.
	LeaseValid func() bool
	// Clock is the clock of the leases.
	Clock clock.Clock
	// Store returns where the coordinators of a role keep their records. It is asked
	// only for roles that this node carries.
	Store func(role string) Store
	// Yield asks the leader to decide between this node and one that does not
	// answer; nil never asks.
	Yield func(subject view.NodeID)
	// Logger gets what an operator should know; nil discards.
	Logger *slog.Logger
	// Observer is told of single events; nil means nobody.
	Observer Observer
}

// Sharding is what one incarnation of a node does for the types of a Registry:
// it hosts shards, takes part in their coordination, and connects the Regions to
// the other nodes. All methods are safe for concurrent use.
//
// Whoever owns the node forwards what happens to it: the events of gossip to the
// methods of the same names, the frames to HandleCoordinator and HandleEntity.
type Sharding struct {
	cfg Config
}

// Start begins to serve the types of cfg.Registry. It does not block and does not
// wait for a view. It fails when another Sharding serves the Registry.
func Start(cfg Config) (*Sharding, error) {
	s := &Sharding{cfg: cfg}
	_, err := cfg.Registry.attach(s)
	return s, err
}

func (s *Sharding) serve(p dataPath) error { return nil }

// ViewChanged says that a newer view holds. It does not block.
func (s *Sharding) ViewChanged(v *view.View) {}

// LeaseChanged says that the lease became valid or ended, or changed its
// generation. It does not block.
func (s *Sharding) LeaseChanged(l view.Lease, valid bool) {}

// Abandoned drops every instance that runs here, without running user code: when
// it returns, no handler will begin.
func (s *Sharding) Abandoned() {}

// PeerUp says that an outgoing connection to a peer stands.
func (s *Sharding) PeerUp(id view.NodeID, c transport.Class) {}

// PeerLost says that a connection with a peer broke: asks that were on their way
// to it fail before PeerLost returns.
func (s *Sharding) PeerLost(id view.NodeID, c transport.Class) {}

// HandleCoordinator takes a frame of KindCoordinator. It keeps nothing of
// payload and does not block; when too much waits the frame is dropped and
// counted: the protocol repeats itself.
func (s *Sharding) HandleCoordinator(from view.NodeID, payload []byte) {}

// HandleEntity takes a frame of KindEntity. It keeps nothing of payload. Frames
// of one peer must come in the order in which they were sent, one at a time.
func (s *Sharding) HandleEntity(from view.NodeID, payload []byte) {}

// Drain hands all shards off to other nodes, in order, and returns when this node
// hosts none, or ctx ends. Messages are served all the while; afterwards this
// node is a proxy. Leave the cluster after it.
func (s *Sharding) Drain(ctx context.Context) error { return nil }

// Close ends everything at once and waits until all goroutines have ended.
// Instances that still run are abandoned. The Regions answer ErrNotReady until
// another Sharding is started with the Registry. Idempotent.
func (s *Sharding) Close() error {
	s.cfg.Registry.detach(s)
	return nil
}

// Ready reports whether every type has met its coordinator here.
func (s *Sharding) Ready() bool { return false }

// TypeStatus is what a node knows about one type.
type TypeStatus struct {
	Type         string
	Role         string
	Hosting      bool
	Registered   bool
	Coordinator  view.NodeID
	Coordinating bool
	// Term is that of the newest coordinator heard of.
	Term   view.Epoch
	Shards []ShardStatus
}

// ShardStatus is one shard as this node sees it.
type ShardStatus struct {
	Shard ShardID
	// Home is zero while it is unknown here.
	Home  view.NodeID
	Token Token
	// State is "local", "remote", "unknown", "closed", "starting", or "stopping".
	State    string
	Entities int
	Buffered int
}

// Status returns what this node knows about all types, sorted by name. It asks
// no other node.
func (s *Sharding) Status() []TypeStatus { return nil }

// TraceEvent is one line of a shard's history.
type TraceEvent struct {
	// At is the time here, for people.
	At    int64
	Kind  string
	Shard ShardID
	Node  view.NodeID
	Token Token
	Text  string
}

// Explain returns the newest events of a shard on this node, oldest first: why
// it is where it is.
func (s *Sharding) Explain(typ string, shard ShardID) []TraceEvent { return nil }

// Store keeps the records of coordinators of one role in replicated memory.
type Store any
