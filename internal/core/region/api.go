package region

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Config holds the settings of a Core. Zero durations take the default
// named at the field.
type Config struct {
	Self gossip.NodeID
	// Type is the name of the entity type.
	Type string
	// Role is the type's role. Its members elect the coordinator.
	Role string
	// Shards is the number of shards: 1 to protocol.ShardsMax.
	Shards int
	// Hosts is false for a proxy, which routes and never hosts. A node that has the
	// role but does not run the type still makes such a Core when a message for the
	// type arrives: a census waits for every member of the role.
	Hosts bool
	// Foreign: this is such a Core of a type that the node does not run.
	Foreign bool
	// Capacity is this node's weight relative to the other hosts; 0 counts as 1.
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
	// Retry is the first wait for an answer to Register and GetHome; it doubles up to
	// RetryMax. Defaults: 100 ms, 1 s.
	Retry, RetryMax time.Duration
}

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ isEvent() }

// Tick reports that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// ViewChanged brings a newer view. The shell sends the current view right after
// New, and then each newer view in order. Skipped views do no harm.
type ViewChanged struct{ View *gossip.View }

// LeaseChanged reports whether this node's lease is valid. No shard is started or
// stopped before the first LeaseChanged with a valid lease.
type LeaseChanged struct{ Valid bool }

// Abandoned reports that the lease came back in another generation, or that this
// incarnation has ended: no instance that ran here may continue.
type Abandoned struct{}

// Received is a message from a coordinator. Those of protocol.ToCoordinator do
// not belong here.
type Received struct {
	From gossip.NodeID
	Msg  protocol.Message
}

// NeedHome reports that messages wait for these shards and their routes are not
// open. The shell repeats it only after a CloseRoute: the core asks until
// OpenRoute.
type NeedHome struct{ Shards []protocol.ShardID }

// Misrouted reports that a node refused a message because it is not
// the home of Shard. Token is that of the route over which the message was sent.
type Misrouted struct {
	Shard protocol.ShardID
	Token protocol.Token
}

// ShardStarted answers StartShard: the shards take messages.
type ShardStarted struct{ Shards []protocol.ShardToken }

// ShardStopped answers StopShard: no entity of the shards runs any longer, and their
// state is in flight. It also comes without a StopShard when a shard had to be stopped.
type ShardStopped struct{ Shards []protocol.ShardToken }

// StateHeld reports that a shard's complete state waits at this node for
// the shard to be started here. Its former home, From, sent it at the end of the
// allocation Token, or is this node and kept it. Term is that of the StopShard which
// ended the allocation.
type StateHeld struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  gossip.NodeID
	Term  gossip.Epoch
	// At is the node at which the state waits, if it does not wait here: this node is From,
	// has sent the state, and had no room to keep it.
	At gossip.NodeID
}

// MarkerAcked brings the owner's answer to Marker: the entities' queues hold all that this
// node sent before the marker. Tokens are those of the markers.
type MarkerAcked struct {
	From   gossip.NodeID
	Shards []protocol.ShardToken
}

// Drain begins the orderly end of hosting here: the coordinator moves the shards
// away, and Drained follows when none is left.
type Drain struct{}

func (Tick) isEvent()         {}
func (ViewChanged) isEvent()  {}
func (LeaseChanged) isEvent() {}
func (Abandoned) isEvent()    {}
func (Received) isEvent()     {}
func (NeedHome) isEvent()     {}
func (Misrouted) isEvent()    {}
func (ShardStarted) isEvent() {}
func (ShardStopped) isEvent() {}
func (StateHeld) isEvent()    {}
func (MarkerAcked) isEvent()  {}
func (Drain) isEvent()        {}

// Effects lists what a step asks the shell to do. The shell must carry out Do strictly in
// order: a route is closed before its closing is acknowledged. Several steps may append to
// one Effects before it is carried out. The shell empties it afterwards.
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
type Effect interface{ isEffect() }

// Send is a message for the coordinator at a node. A message for this node goes to the
// shell's own coordinator core, without the network. Delivery is
// not guaranteed.
type Send struct {
	To  gossip.NodeID
	Msg protocol.Message
}

// Standing informs this node's coordinator core of which nodes may take office. The shell
// passes it on as coordinator.Standing.
type Standing struct {
	Refused  bool
	View     gossip.Epoch
	Declined []protocol.Decliner
	Term     gossip.Epoch
}

// Marker is sent on the message connection to Owner, after all messages sent there
// for the shard. The owner's shell answers with shard and token when all earlier
// messages are queued at the entities, or were refused. MarkerAcked brings that
// answer. If Owner is this node, the shell answers itself.
type Marker struct {
	Owner gossip.NodeID
	// Token is the stamp of the move, to be echoed. It is not the allocation's.
	Token protocol.Token
}

// CloseRoute closes a route: messages for the shard are buffered from now on, and
// buffered messages not yet flushed stay there. With a Marker, closing and
// queueing the marker are one step under the route's lock, so that no message
// is sent after the marker.
type CloseRoute struct {
	Shard  protocol.ShardID
	Marker *Marker
}

// SendMarker sends the marker of a closed route again.
type SendMarker struct {
	Shard protocol.ShardID
	Marker
}

// OpenRoute opens a route, or redirects it to another home. The buffered messages are sent
// first, in order. Messages carry Token, and a node that is not the home under
// that token refuses them. Home may be this node.
type OpenRoute struct {
	Shard protocol.ShardID
	Home  gossip.NodeID
	Token protocol.Token
}

// StartShard starts a shard under Token; ShardStarted answers. From, unless zero,
// is the former home, which has sent the state with which the allocation Ended ended there.
// No other state may be used: it is older.
type StartShard struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  gossip.NodeID
	Ended protocol.Token
}

// StopShard stops a shard in order: running handlers finish, queued messages are
// processed, the entities get their stop message, and the state goes to To unless
// that is zero. After Within (zero: the type's own limit) the entities are stopped by
// force. It may come before ShardStarted was answered. ShardStopped answers, always.
//
// Term is the highest term obeyed so far. It travels with the state (protocol.Held.Term).
type StopShard struct {
	Shard  protocol.ShardID
	Token  protocol.Token
	To     gossip.NodeID
	Term   gossip.Epoch
	Within time.Duration
}

// AbandonAll drops every instance of the type immediately; no user code runs. It has no
// answer: when the shell has finished, no instance runs.
type AbandonAll struct{}

// Drained answers Drain: no shard is hosted here, and none will be.
type Drained struct{}

func (Send) isEffect()       {}
func (Standing) isEffect()   {}
func (CloseRoute) isEffect() {}
func (SendMarker) isEffect() {}
func (OpenRoute) isEffect()  {}
func (StartShard) isEffect() {}
func (StopShard) isEffect()  {}
func (AbandonAll) isEffect() {}
func (DropState) isEffect()  {}
func (Drained) isEffect()    {}

// DropState reports that the state of a StateHeld is superseded: the
// shard lives at Home, or if that is zero, a later state has replaced it. It
// follows StartShard if Home is this node.
type DropState struct {
	Shard protocol.ShardID
	Token protocol.Token
	From  gossip.NodeID
	Home  gossip.NodeID
}

// TraceEvent is one line for logs, metrics and explain. Cores do not log.
type TraceEvent struct {
	// Kind is one of the Trace constants.
	Kind string
	// Shard is the shard it is about; only if HasShard.
	Shard    protocol.ShardID
	HasShard bool
	// Node is the node it is about, zero if none.
	Node gossip.NodeID
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
