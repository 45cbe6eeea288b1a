package replicator

import (
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator/core"
)

// What the core defines and callers need, under the names they use.
type (
	// Level says how many replicas a request needs, this one included.
	Level = core.Level
	// Op is a change of one key.
	Op = core.Op
	// Plan is a change that has been decided and cannot fail.
	Plan = core.Plan
	// Fence bars writers that have been replaced.
	Fence = core.Fence
	// Limits bound what a replicator holds.
	Limits = core.Limits
	// Expiry ends idle keys with a prefix.
	Expiry = core.Expiry
	// QuorumError says who answered when a level was not fulfilled in time.
	QuorumError = core.QuorumError
	// MembersError carries the numbers of ErrTooFewMembers.
	MembersError = core.MembersError
	// FencedError means that the writer has been replaced.
	FencedError = core.FencedError
	// LimitError means that a request would exceed one of Limits.
	LimitError = core.LimitError
	// KindError means that a key holds a value of another data type.
	KindError = core.KindError
	// Fixed is a write under a stamp of the caller's.
	Fixed = core.Fixed
	// StaleError means that a write under a stamp of its caller's lost.
	StaleError = core.StaleError
	// AheadError means that a stamp is too far ahead of a node's clock.
	AheadError = core.AheadError
	// MixedError means that an update changes durable keys and others.
	MixedError = core.MixedError
	// PeerStats is what a replicator knows of another member with the role.
	PeerStats = core.PeerStats
	// TraceEvent is one line for logs and metrics.
	TraceEvent = core.TraceEvent
)

// Levels, see core.Level.
const (
	// Local asks this replica alone. It never waits.
	Local = core.Local
	// PlainMajority is Majority(0, 0).
	PlainMajority = core.PlainMajority
	// All asks every voting member.
	All = core.All
)

// To asks n replicas, this one included.
func To(n int) Level { return core.To(n) }

// Majority asks min(N, max(N/2+1+plus, minCap)) of N voting members.
func Majority(plus, minCap int) Level { return core.Majority(plus, minCap) }

// Errors of requests; see the table in the package text.
var (
	ErrOutcomeUnknown = core.ErrOutcomeUnknown
	// ErrNoLease is wrapped by a QuorumError with NoLease.
	ErrNoLease       = core.ErrNoLease
	ErrTooFewMembers = core.ErrTooFewMembers
	ErrLimit         = core.ErrLimit
	ErrPlan          = core.ErrPlan
	// ErrStamp: no stamp is newer than the one that stands.
	ErrStamp = core.ErrStamp
	// ErrAhead is wrapped by every AheadError.
	ErrAhead = core.ErrAhead
	// ErrStale is wrapped by every StaleError.
	ErrStale = core.ErrStale
	// ErrContended: the keys changed under the update again and again.
	ErrContended = core.ErrContended
	// ErrClosed means that the replicator has been closed. A write may or may not
	// have been applied.
	ErrClosed = errors.New("replicator: closed")
)

// Observer is told what a replicator does; nil functions are not called. All are
// called from the replicator's goroutine and must not block.
type Observer struct {
	// Done is called for every finished request: op is "update" or "get", result
	// is "ok", "unknown", "members", "fenced", "limit", "cancelled" or "error".
	Done func(op string, level string, result string, took time.Duration)
	// Sent is called for every frame that was handed to the transport, or refused
	// by it.
	Sent func(message string, bytes int, err error)
	// Trace is called for every trace event of the core.
	Trace func(TraceEvent)
}

// SendFunc queues a frame for a peer and never blocks. The payload is only valid
// during the call.
type SendFunc func(to view.NodeID, c transport.Class, payload []byte) error
