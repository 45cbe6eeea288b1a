package figures

import "time"

// Route is the way of a message.
type Route uint8

const (
	// RouteLocal: the home is this node.
	RouteLocal Route = iota
	// RouteRemote: the home is another node.
	RouteRemote
	// RouteBuffered: the message waited until its shard had a home.
	RouteBuffered
	// Routes is the number of routes.
	Routes
)

// String returns the route in lower case.
func (r Route) String() string {
	return [...]string{"local", "remote", "buffered"}[r]
}

// Frames counts events that belong to no type, for one incarnation.
type Frames struct {
	// Malformed counts frames that could not be parsed. UnknownType counts requests for
	// types that are not registered here: asks were rejected with an error, tells were
	// dropped.
	Malformed, UnknownType uint64
	// AnswersLost counts replies, rejections and acknowledgements of markers that could not
	// be sent: the node had left, or its connection took nothing for too long.
	AnswersLost uint64
	// Overrun counts messages of coordinators, regions and state replication, and queries,
	// that were dropped since too many were waiting; the protocols retransmit them.
	Overrun uint64
	// ParkedBytes is the size of messages parked here for slow entities, at most 64 MiB.
	// WindowBytes is the size granted to senders beyond their first windows, at most 256
	// MiB. Both are gauges.
	ParkedBytes, WindowBytes uint64
}

// ShardingObserver receives single events, for histograms. It is called from the data path: it must
// be quick and not block. Methods may be called concurrently.
type ShardingObserver interface {
	// AskDone is called at the end of each attempt of an Ask.
	AskDone(typ string, r Route, took time.Duration, err error)
	// HomeResolved is called when a shard with waiting messages has got its home.
	HomeResolved(typ string, took time.Duration)
	// StateKept is called once enough nodes have kept a change, with the time since the
	// change.
	StateKept(typ string, lag time.Duration)
	// ShardMoved is called by the coordinator when a phase of the move of a shard has ended:
	// cause is "failure", "takeover" or "handoff", phase "stop", "write", "start" or "total".
	ShardMoved(typ, cause, phase string, took time.Duration)
	// HandlerDone is called after one of 32 calls of Handle, which is a fair sample.
	HandlerDone(typ string, took time.Duration)
}
