package coordinator

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Config holds the settings of a Core. Zero durations and counts take
// the default named at the field. Type, Shards and Role must be equal on all
// nodes that run the type.
type Config struct {
	Self gossip.NodeID
	// Type is the name of the entity type.
	Type string
	// Role is the role whose members may host; "" is every member.
	Role string
	// Shards is the number of shards: 1 to protocol.ShardsMax.
	Shards int
	// ShardOf is the fingerprint of the function from id to shard.
	ShardOf uint64
	// Keeps is protocol.Settings.Keeps.
	Keeps string
	// Messages is protocol.Settings.Messages.
	Messages protocol.Shapes
	// Reluctant: this node only sends messages of the type, and lacks most of its settings
	// for hosting. It declines (protocol.Elect), so that another node coordinates if one can.
	Reluctant bool
	// DeclinedIn is the epoch of the last view in which this node declined to coordinate
	// the type before it ran the type (protocol.Elect), zero if it never did.
	DeclinedIn gossip.Epoch
	// Strategy places shards. Default: strategy.LeastShards{}.
	Strategy strategy.Strategy
	// Collects: the next home of a shard collects states from its holders, the former home among
	// them, before the shard runs.
	Collects bool
	// MinMembers is how many regions must be present before the very first allocation.
	// A cluster that has allocated a shard has met it for good. Default: 1.
	MinMembers int
	// MinMembersAll is the same for the members that are up, of whatever role, with or
	// without a region. Default: 0.
	MinMembersAll int

	// Resend is how long an order waits for its answer before it is sent again.
	// Shorter heals losses faster and costs messages while handlers are slow to
	// stop. Default: 200 ms.
	Resend time.Duration
	// BeginTimeout bounds the first phase of a move, in which all routes are closed. A move
	// that exceeds it is cancelled. Default: 5 s.
	BeginTimeout time.Duration
	// StopTimeout is how long an owner may take to stop a shard's entities. One second
	// later the coordinator asks the owner whether it still serves the shard. Default: 10 s.
	StopTimeout time.Duration
	// Rebalance is the interval between two looks at the balance. Default: 2 s.
	Rebalance time.Duration
	// Calm is how long a shard must stay where it is for its earlier moves to be
	// forgotten (strategy.Moved). A rolling restart moves shards at most twice if no
	// shard waits longer than Calm between its moves. Default: 10 min.
	Calm time.Duration
	// RemoveAfter is the membership's: a member that has not answered for this long is
	// named in Yield. Default: 2 s.
	RemoveAfter time.Duration
	// RetryWrite is the wait before a read or write of unknown outcome is made again.
	// Default: 50 ms.
	RetryWrite time.Duration
}

// Event is what happens to a Core. Its implementations are the structs below.
type Event interface{ isEvent() }

// Tick reports that time has passed: the shell sends it at Core.Deadline or later.
type Tick struct{}

// ViewChanged brings a newer view. The shell sends the current view right after
// New, and then each newer view in order. Skipped views do no harm.
type ViewChanged struct{ View *gossip.View }

// LeaseChanged reports whether this node's lease is valid. Nothing is allocated
// before the first LeaseChanged with a valid lease.
type LeaseChanged struct{ Valid bool }

// Standing is this node's evidence of which nodes may take office. The region core
// learns it and hands it over as region.Standing. Declines of one view accumulate.
type Standing struct {
	// Refused: the last coordinator refused this node for its settings. It declines in
	// the views to come.
	Refused bool
	// Declined are candidates that have declined in View.
	View     gossip.Epoch
	Declined []protocol.Decliner
	// Term is the term that this node obeys. A coordinator in office under a lower term
	// has been replaced.
	Term gossip.Epoch
}

// Received is a message from a region. Only those of protocol.ToCoordinator
// belong here.
type Received struct {
	From gossip.NodeID
	Msg  protocol.Message
}

// WriteDone ends a Write.
type WriteDone struct {
	ID     uint64
	Result Result
	// Higher is the term that fenced it, with Fenced.
	Higher gossip.Epoch
}

// ReadDone ends a Read.
type ReadDone struct {
	ID     uint64
	Result Result
	// Higher is the term that fenced it, with Fenced.
	Higher gossip.Epoch
	// Records are all records of the type.
	Records []protocol.Record
	// Regions and Proxies are the members of the two OR-sets.
	Regions, Proxies []gossip.NodeID
	// Lost is the newest view before which records may be gone from all members, 0 if there is
	// none.
	Lost gossip.Epoch
}

// Silent names the members that are unresponsive at present; no shard is moved
// meanwhile. It replaces the former list. Optional.
type Silent struct{ Nodes []gossip.NodeID }

// Wanted names the nodes on which the application wants shards. It is complete,
// replaces the former map, and must not be changed afterwards. The core then looks
// at the balance immediately.
type Wanted struct{ Names map[protocol.ShardID]string }

// Rebalance asks for a look at the balance now.
type Rebalance struct{}

func (Tick) isEvent()         {}
func (ViewChanged) isEvent()  {}
func (LeaseChanged) isEvent() {}
func (Standing) isEvent()     {}
func (Received) isEvent()     {}
func (WriteDone) isEvent()    {}
func (ReadDone) isEvent()     {}
func (Silent) isEvent()       {}
func (Rebalance) isEvent()    {}
func (Wanted) isEvent()       {}

// Result is how a replicated operation ended.
type Result uint8

const (
	// OK: acknowledged at its level.
	OK Result = iota + 1
	// Unknown: the level was not reached in time; it may have happened, and may still.
	Unknown
	// Fenced: a replica has seen a higher term, so another node is in office.
	Fenced
)

// Effects lists what a step asks the shell to do. The shell must carry out Do in order,
// which is the order in which things must happen on the wire. Several steps may append to
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

// Send is a message for the region of a node. A message for this node goes to the shell's
// own region core, without the network. Delivery is not guaranteed.
type Send struct {
	To  gossip.NodeID
	Msg protocol.Message
}

// Write asks for all its changes in one request, at level majority. It runs under
// Fence{group of the type, Term}; WriteDone answers. Regions and Proxies are added to their
// OR-sets, and Gone is removed from both. Writes may run concurrently: the result
// does not depend on their order.
//
// S8 rests on it: no HostShards for a record leaves before WriteDone reported OK.
type Write struct {
	ID      uint64
	Term    gossip.Epoch
	Records []protocol.Record
	Regions []gossip.NodeID
	Proxies []gossip.NodeID
	Gone    []gossip.NodeID
}

// StoreTimeout bounds a Read and a Write in the shell; one of unknown outcome is made again.
// The replicator repeats its messages much earlier, so a shorter bound only ends requests
// that would still succeed: with one below the round trip none ever would.
const StoreTimeout = 4 * time.Second

// Read asks for the type's records and OR-sets at level majority. It runs under
// Fence{group of the type, Term} and raises the fence at every replica that it reaches.
// ReadDone answers.
type Read struct {
	ID   uint64
	Term gossip.Epoch
}

// Yield asks the leader of the view to end one of two leases: the lease of Subject, which
// does not answer this node, or this node's own. The leader ends the lease of the
// member with fewer working links; with equal counts, that of the junior member.
type Yield struct{ Subject gossip.NodeID }

func (Send) isEffect()  {}
func (Write) isEffect() {}
func (Read) isEffect()  {}
func (Yield) isEffect() {}

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

// The kinds of TraceEvent.
const (
	TraceOffice       = "office taken"
	TraceOfficeLeft   = "office left"
	TraceRead         = "state read"
	TraceCensus       = "census complete"
	TraceClaim        = "claim adopted"
	TraceClaimStale   = "claim ignored"
	TraceDouble       = "shard lives twice"
	TraceRegistered   = "region registered"
	TraceRefused      = "region refused"
	TraceMessages     = "messages of another shape"
	TraceGone         = "region gone"
	TraceChosen       = "home chosen"
	TraceWritten      = "allocation written"
	TraceWriteUnknown = "write outcome unknown"
	TraceHosted       = "shard hosted"
	TraceFreed        = "shard freed"
	TraceMove         = "move begun"
	TraceHandOff      = "handoff ordered"
	TraceStopped      = "shard stopped"
	TraceResumed      = "move resumed"
	TraceRetarget     = "move turned to another"
	TraceCancel       = "move cancelled"
	TraceStillServed  = "shard still served"
	TraceNoRegion     = "no region for shard"
	TraceStartFailed  = "shard start failed"
	TraceDrain        = "drain"
	TraceDrained      = "drained"
	TraceYield        = "member does not answer"
	TraceStale        = "stale message ignored"
	TraceFar          = "term beyond the view refused"
)

// AllocatedBefore is the Detail of TraceChosen for a shard that had a home before.
const AllocatedBefore = "it had a home before"
