package protocol

import "github.com/peerage-go/peerage/gossip"

// EventsMax bounds the events of one Answer, eventTextMax the bytes of each text
// in them.
const (
	EventsMax    = 1024
	eventTextMax = 256
)

// Query asks the shell of a node for its state of a type. It concerns neither
// core: the answer is for operators and monitoring programs, and no decision
// rests on it.
type Query struct {
	Head
	// ID comes back in the Answer.
	ID uint64
	// Shard, if HasShard, limits the question to one shard, and asks for its events.
	Shard    ShardID
	HasShard bool
	// Entity, if it is not empty, is an id of that shard: does its instance live?
	Entity string
	// Search asks for live entities of all shards whose id contains Entity.
	Search bool
	// Figures asks for the figures of the node itself. Type is "" then.
	Figures bool
}

// EntityMax bounds Query.Entity, in bytes. EntitiesMax bounds the entities of one Answer,
// FiguresBytesMax its figures.
const (
	EntityMax       = 1 << 12
	EntitiesMax     = 100
	FiguresBytesMax = 1 << 19
)

// Answer answers a Query.
type Answer struct {
	Head
	ID uint64
	// Known is false on a node that does not run the type: all other fields are zero then.
	Known bool
	// Hosts is false for proxies. Office is set while the node's coordinator is in
	// office.
	Hosts, Office bool
	Settings      Settings
	// Buffered counts the messages that wait there for a home.
	Buffered uint64
	// Lives: the requested instance lives there.
	Lives bool
	// Shards run there; only the one asked for, if it does, when the query had one.
	Shards []ShardLoad
	// Events are the newest about the shard asked for, oldest first.
	Events []Event
	// Entities holds the entity asked for, if it lives there, or the entities that a search
	// found, sorted by id: the first of them, if there are more.
	Entities []EntityState
	// Figures are the figures of the node, encoded by its owner, empty if there are none.
	Figures string
}

// EntityState describes an instance on its node.
type EntityState struct {
	Shard ShardID
	ID    string
	// Age is how long the instance has existed, in seconds.
	Age uint64
	// Waiting counts the messages that it has not begun to handle.
	Waiting uint64
	// Running is false for an instance at rest.
	Running bool
	// StateBytes is the size of its replicated state, 0 without one.
	StateBytes uint64
}

// ShardLoad is a shard that runs on a node.
type ShardLoad struct {
	Shard    ShardID
	Token    Token
	Entities uint32
}

// Event is one line of a node's history of a shard.
type Event struct {
	// Term is the term that the node obeyed, or held office in, at the time.
	Term gossip.Epoch
	// Unix is the node's wall clock in nanoseconds: for people, not for order.
	Unix int64
	// Coordinator: seen by the coordinator, not the region.
	Coordinator bool
	// HasShard is false for events that concern all shards.
	HasShard bool
	Node     gossip.NodeID
	Token    Token
	Kind     string
	Detail   string
}

// IsQuery reports whether m is a Query or an Answer: those are for the shell.
func IsQuery(m Message) bool { return m.messageKind() > kindQueries }
