package region

import (
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/mutant"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// Config is what a Core needs to know at birth. Zero durations take the default
// named at the field.
type Config struct {
	Self view.NodeID
	// Type is the name of the entity type.
	Type string
	// Role is the type's role: who coordinates is found among its members.
	Role string
	// Shards is the number of shards: 1 to protocol.ShardsMax.
	Shards int
	// Hosts is false for a proxy, which routes and never hosts. A node that has the
	// role and does not run the type still makes such a Core when a message for the
	// type comes: a census waits for every member of the role.
	Hosts bool
	// Foreign: this is such a Core of a type that the node does not run.
	Foreign bool
	// Capacity is how much this node can carry, in relation to others; 0 counts as 1.
	Capacity uint32
	// ShardOf is the fingerprint of the function from id to shard.
	ShardOf uint64
	// Keeps is protocol.Settings.Keeps.
	Keeps string
	// Messages is protocol.Settings.Messages.
	Messages protocol.Shapes

	// Resend is how long markers and Stopped wait for their answer before they are
	// sent again. Default: 200 ms.
	Resend time.Duration
	// Retry is how long Register and GetHome wait at first; it doubles up to
	// RetryMax. Defaults: 100 ms, 1 s.
	Retry, RetryMax time.Duration

	// Mutant is for tests of the checkers and is zero otherwise.
	Mutant mutant.Kind
}

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ event() }

// Tick says that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// ViewChanged brings a newer view. The shell gives the current one right after
// New, and then each one in order; skipped ones do no harm.
type ViewChanged struct{ View *view.View }

// LeaseChanged says whether this node's lease is valid. Until the first one says
// so, nothing is started or stopped.
type LeaseChanged struct{ Valid bool }

// Abandoned says that the lease came back in another generation, or that this
// incarnation is over: nothing that ran here may go on.
type Abandoned struct{}

// Received is a message from a coordinator. Those of protocol.ToCoordinator do
// not belong here.
type Received struct {
	From view.NodeID
	Msg  protocol.Message
}

// NeedHome says that messages wait for these shards and their routes are not
// open. It is repeated after a CloseRoute, not otherwise: the core asks until
// OpenRoute.
type NeedHome struct{ Shards []protocol.ShardID }

// Misrouted says that the node that Route named refused a message: it is not
// the home of Shard. Token is that of the route it was sent over.
type Misrouted struct {
	Shard protocol.ShardID
	Token protocol.Token
}

// ShardStarted answers StartShard: the shards take messages.
type ShardStarted struct{ Shards []protocol.ShardToken }

// ShardStopped answers StopShard: nothing of the shards runs any more, and their
// state is on its way. It may also come unasked, when a shard had to be stopped.
type ShardStopped struct{ Shards []protocol.ShardToken }

// StateHeld says that the state of a shard, complete, waits at this node for the
// shard to be started here: sent by its former home, From, at the end of the
// allocation Token; or kept here by the former home itself.
type StateHeld struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  view.NodeID
}

// MarkerAcked brings the owner's answer to Marker: all that this node sent before
// it is queued at the entities. Tokens are those of the markers.
type MarkerAcked struct {
	From   view.NodeID
	Shards []protocol.ShardToken
}

// Drain begins the orderly end of hosting here: the coordinator takes the shards
// away, and Drained follows when none is left.
type Drain struct{}

func (Tick) event()         {}
func (ViewChanged) event()  {}
func (LeaseChanged) event() {}
func (Abandoned) event()    {}
func (Received) event()     {}
func (NeedHome) event()     {}
func (Misrouted) event()    {}
func (ShardStarted) event() {}
func (ShardStopped) event() {}
func (StateHeld) event()    {}
func (MarkerAcked) event()  {}
func (Drain) event()        {}

// Effects is what a step asks the shell to do: Do strictly in its order (a route
// is closed before its closing is acknowledged). Several steps may append to one
// Effects before it is carried out. The shell empties it afterwards.
type Effects struct {
	Do    []Effect
	Trace []TraceEvent
}

// Reset empties e and keeps its memory.
func (e *Effects) Reset() {
	clear(e.Do)
	clear(e.Trace)
	e.Do, e.Trace = e.Do[:0], e.Trace[:0]
}

// Effect is one thing to do. Its implementations are the structs below.
type Effect interface{ effect() }

// Send is a message for the coordinator at a node, this one included: then the
// shell hands it to its own coordinator core, without the network. Delivery is
// not promised.
type Send struct {
	To  view.NodeID
	Msg protocol.Message
}

// Standing tells the coordinator core of this node who may take office: see
// coordinator.Standing, which it becomes.
type Standing struct {
	Refused  bool
	View     view.Epoch
	Declined []protocol.Decliner
	Term     view.Epoch
}

// Marker goes down the message connection to Owner, behind everything sent there
// for the shard. The owner's shell answers it with shard and token when all
// before it is queued at the entities, or was refused; MarkerAcked brings that
// here. Owner may be this node: then the shell answers itself.
type Marker struct {
	Owner view.NodeID
	// Token is the stamp of the move, to be echoed. It is not the allocation's.
	Token protocol.Token
}

// CloseRoute closes a route: messages for the shard are buffered from now on, and
// what of the buffer was not flushed yet stays there. With a Marker, closing and
// queueing the marker are one step under the route's lock, so that no message
// slips in behind the marker.
type CloseRoute struct {
	Shard  protocol.ShardID
	Marker *Marker
}

// SendMarker sends the marker of a closed route again.
type SendMarker struct {
	Shard protocol.ShardID
	Marker
}

// OpenRoute opens a route, or turns it to another home: the buffer flows there
// first, in order. Messages carry Token, and a node that is not the home under
// that token refuses them. Home may be this node.
type OpenRoute struct {
	Shard protocol.ShardID
	Home  view.NodeID
	Token protocol.Token
}

// StartShard starts a shard under Token; ShardStarted answers. From, unless zero,
// is the former home, which has sent its state.
type StartShard struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  view.NodeID
}

// StopShard stops a shard in order: running handlers finish, what is queued is
// processed, the entities get their stop message, the state goes to To unless
// that is zero. After Within (zero: the type's own limit) they are stopped by
// force. It may come before ShardStarted was answered. ShardStopped answers, always.
type StopShard struct {
	Shard  protocol.ShardID
	Token  protocol.Token
	To     view.NodeID
	Within time.Duration
}

// AbandonAll drops every instance of the type at once; no user code runs. Nothing
// answers it: when the shell is through, nothing runs.
type AbandonAll struct{}

// Drained ends what Drain began: nothing is hosted here, and nothing will be.
type Drained struct{}

func (Send) effect()       {}
func (Standing) effect()   {}
func (CloseRoute) effect() {}
func (SendMarker) effect() {}
func (OpenRoute) effect()  {}
func (StartShard) effect() {}
func (StopShard) effect()  {}
func (AbandonAll) effect() {}
func (DropState) effect()  {}
func (Drained) effect()    {}

// DropState says that what StateHeld told of a shard is of no use any more: the
// shard lives at Home, or if that is zero, a later state has come in its place. It
// comes behind StartShard if Home is this node.
type DropState struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  view.NodeID
	Home  view.NodeID
}

// TraceEvent is one line for logs, metrics and explain. Cores do not log.
type TraceEvent struct {
	// Kind is one of the Trace constants.
	Kind string
	// Shard is the shard it is about; only if HasShard.
	Shard    protocol.ShardID
	HasShard bool
	// Node is the node it is about, zero if none.
	Node view.NodeID
	// Token is the allocation or move, or {term, 0}.
	Token  protocol.Token
	Detail string
}

// The kinds of TraceEvent. Those of refusals are counted by their kind.
const (
	TraceRegistered   = "registered"
	TraceRefused      = "registration refused"
	TraceDeclined     = "office declined"
	TraceStart        = "shard start"
	TraceHosted       = "shard hosted"
	TraceStop         = "shard stop"
	TraceStopped      = "shard stopped"
	TraceAbandoned    = "shard abandoned"
	TraceClosed       = "route closed"
	TraceOpened       = "route opened"
	TraceCensus       = "census answered"
	TraceDrained      = "drained"
	TraceStaleTerm    = "stale term refused"
	TraceStaleToken   = "stale token refused"
	TraceFar          = "term beyond the view refused"
	TraceNotMember    = "sender outside the view refused"
	TraceUnknownShard = "shard out of range refused"
	TraceHeld         = "order held"
	TraceHeldOver     = "held order dropped"
)
