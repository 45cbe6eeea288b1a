package sharding

import "time"

// Route is the way that a message took.
type Route uint8

const (
	// RouteLocal: the home is this node.
	RouteLocal Route = iota
	// RouteRemote: the home is another node.
	RouteRemote
	// RouteBuffered: the message waited for its shard to have a home.
	RouteBuffered
	routes
)

// String returns the route in lower case.
func (r Route) String() string {
	return [...]string{"local", "remote", "buffered"}[r]
}

// Reason says why a message was dropped or an ask failed without its handler.
type Reason uint8

const (
	DropMailboxFull  Reason = iota // the entity's mailbox was full
	DropNotHome                    // the home had moved, and something later had left
	DropAbandoned                  // the instance was dropped with its lease
	DropExpired                    // the asker had given up
	DropCodec                      // the payload did not decode
	DropPanicked                   // the handler panicked
	DropHandlerError               // a told request's handler returned an error
	DropReplyLate                  // the asker had given up when the reply came
	DropSettings                   // the sender maps ids to shards differently
	DropTooLarge                   // the frame is above the transport's limit
	DropNodeStopping               // it waited for a home when its node ended for good
	DropBufferFull                 // no room came before the caller's context ended
	reasons
)

// String returns the reason in the form that metrics use.
func (r Reason) String() string {
	return [...]string{
		"mailbox_full", "not_home", "abandoned", "expired", "codec", "panicked", "handler_error",
		"reply_late", "settings", "too_large", "node_stopping", "buffer_full",
	}[r]
}

// Stats are the counters (since the program started) and gauges (now) of one
// type on one node.
type Stats struct {
	Type string
	Role string
	// Hosting is false for proxies.
	Hosting bool

	// Sent counts messages of this node by route; Redirected those of them that
	// came back from a node which was not the home and were sent again.
	Sent       [routes]uint64
	Redirected uint64
	// NodeLost counts asks that failed because the connection to the home broke.
	NodeLost uint64
	// Received counts messages from other nodes.
	Received uint64
	// Handled counts handler calls that ended, in error or not. A call counts when those
	// that waited with it have ended too: an ask may be answered a moment before.
	Handled uint64
	// Dropped counts by reason.
	Dropped [reasons]uint64
	// Stale counts messages and orders with a token that is not the shard's.
	Stale uint64
	// TermsRefused counts messages, records and fences of members with a term that no view
	// can have had.
	TermsRefused uint64
	// HandoffsOut and HandoffsIn count shards stopped and started here by order of
	// the coordinator; Forced those stops that took longer than Type.StopTimeout.
	HandoffsOut, HandoffsIn, Forced uint64
	// StatesOut and StatesIn count entities' states sent with moving shards and taken
	// in; StatesLost those without which a shard lives on although it was moved in
	// order, each once, where that was seen: at its old home if they reached no other, at
	// the new one if it did not take them. It may count a state that was not lost, when
	// the coordinator has passed over a new home that was silent; and what dies with the
	// node that alone had it is counted by nobody.
	StatesOut, StatesIn, StatesLost uint64
	// StatesRecovered counts instances of a type with replicated state that began with
	// what was kept, StatesCold those for which there was nothing.
	StatesRecovered, StatesCold uint64
	// StateLosses counts shards started when so many standbys were lost that
	// acknowledged states may be missing; NotKept counts replies that became ErrNotKept.
	StateLosses, NotKept uint64
	// StateBytesIn and StateBytesOut count what replication sent and received.
	StateBytesIn, StateBytesOut uint64
	// Abandoned counts instances dropped without running user code.
	Abandoned uint64
	// Passivated counts instances that ended for being idle, for the limit's sake, or by
	// their own wish: not with their shard. CutLoose counts those of them that had not
	// ended after Type.StopTimeout, so that another could take their place.
	Passivated, CutLoose uint64
	// SelfAsks counts asks that were refused with ErrSelfAsk; MutualAsks those that came
	// to an entity on this node from one that it had asked itself and had no answer from.
	SelfAsks, MutualAsks uint64
	// StatesReused counts replicated states whose slice the entity changed after its Snapshot
	// had returned it: an error of the entity, which should return a copy.
	StatesReused uint64
	// MessageShapes counts, on the coordinator's node, nodes that registered with messages of
	// another shape: a field is new, gone, renamed or of another kind. Of codecs of the
	// application's own nothing is known.
	MessageShapes uint64
	// BlockedHandlers counts calls of entities' code that took longer than
	// Type.BlockedAfter.
	BlockedHandlers uint64
	// OldestHandler is for how long the call that runs longest has run now, to within half
	// a second; 0 if none runs.
	OldestHandler time.Duration
	// Duplicates counts shards that were found to live twice: by the coordinator, on its
	// node, when it took office, or by their host. It stays 0 as long as single instance
	// holds.
	Duplicates uint64

	// Shards and Entities are hosted here now.
	Shards, Entities int
	// StateBytes is what this node holds of replicated states, as home and as standby;
	// StandbyShards for how many shards it does so as standby alone.
	StateBytes, StandbyShards int
	// Asks wait for their reply now.
	Asks int
	// Buffered messages, and their bytes, wait for a home now.
	Buffered, BufferedBytes int
	// HeldUp callers of Tell and Ask wait now for room in the mailbox of an entity, here or
	// at another node. Parked messages of other nodes wait here for room in a mailbox; their
	// senders are held up before there are too many. Blocked counts how often this node had
	// sent a home as much as it had been granted.
	HeldUp, Parked int
	// Stopped entities at other nodes do not keep up: their homes have parked messages of
	// this node, and callers for them wait here, apart from those for others.
	Stopped int
	Blocked uint64
	// Activated counts instances that began here.
	Activated uint64
	// Remembered is about remembered entities.
	Remembered RememberedStats
	// Reliable is about reliable producers here, and messages of such that came here.
	Reliable ReliableStats
	// Coordinating is set while this node coordinates the type.
	Coordinating bool
}

// FrameStats count what cannot be laid to a type's account, for one incarnation.
type FrameStats struct {
	// Malformed frames did not parse. UnknownType counts requests for types that are
	// not registered here: their askers were told, tells were dropped.
	Malformed, UnknownType uint64
	// AnswersLost counts replies, refusals and answers to markers that found no way to
	// their node: it was gone, or took nothing for too long.
	AnswersLost uint64
	// Overrun counts messages of coordinators, regions and keepers of states, and queries,
	// that were dropped because too many waited; they come again.
	Overrun uint64
	// ParkedBytes wait here for slow entities, of at most 64 MiB. WindowBytes were granted
	// to senders beyond their first windows, of at most 256 MiB. Both are gauges.
	ParkedBytes, WindowBytes uint64
}

// Observer is told of single events for histograms. It is called from the data
// path: it must be quick and not block. Methods may be called concurrently.
type Observer interface {
	// AskDone is called at the end of each attempt of an Ask.
	AskDone(typ string, r Route, took time.Duration, err error)
	// HomeResolved is called when a shard whose messages waited has got its home.
	HomeResolved(typ string, took time.Duration)
}

// HandlerObserver is an Observer that wants to know how long handlers run.
type HandlerObserver interface {
	// HandlerDone is called after one of 32 calls of Handle, which is a fair sample.
	HandlerDone(typ string, took time.Duration)
}
