package replicator

import (
	"errors"
	"time"

	"github.com/peerage-go/peerage/replicator/core"
)

// Names of the core that callers need.
type (
	// Level is the number of replicas that a request needs, including this one.
	Level = core.Level
	// Op is a change of one key.
	Op = core.Op
	// Plan is a change that is decided and cannot fail.
	Plan = core.Plan
	// Fence bars writers that have been replaced.
	Fence = core.Fence
	// Limits bound what a replicator holds.
	Limits = core.Limits
	// Expiry ends idle keys with a prefix.
	Expiry = core.Expiry
	// QuorumError lists the replicas that answered when a level was not reached in time.
	QuorumError = core.QuorumError
	// MembersError carries the numbers of ErrTooFewMembers.
	MembersError = core.MembersError
	// FencedError reports that the writer has been replaced.
	FencedError = core.FencedError
	// LimitError reports that a request would exceed one of Limits.
	LimitError = core.LimitError
	// KindError reports that a key holds a value of another data type.
	KindError = core.KindError
	// Fixed is a write under a stamp of the caller.
	Fixed = core.Fixed
	// StaleError reports that a write under a stamp of the caller lost.
	StaleError = core.StaleError
	// AheadError reports a stamp that is too far ahead of a node's clock.
	AheadError = core.AheadError
	// MixedError reports an update that changes both durable keys and other keys.
	MixedError = core.MixedError
	// PeerStats describes another member of the role as this replicator sees it.
	PeerStats = core.PeerStats
	// TraceEvent is one line for logs and metrics.
	TraceEvent = core.TraceEvent
)

// Levels, see core.Level.
const (
	// Local needs only this replica. It never waits.
	Local = core.Local
	// PlainMajority is Majority(0, 0).
	PlainMajority = core.PlainMajority
	// All needs every voting member.
	All = core.All
)

// To needs n replicas, including this one.
func To(n int) Level { return core.To(n) }

// Majority needs min(N, max(N/2+1+plus, minCap)) of N voting members.
func Majority(plus, minCap int) Level { return core.Majority(plus, minCap) }

// Errors of requests; see the table in the package text.
var (
	ErrOutcomeUnknown = core.ErrOutcomeUnknown
	// ErrNoLease is wrapped by a QuorumError with NoLease.
	ErrNoLease       = core.ErrNoLease
	ErrTooFewMembers = core.ErrTooFewMembers
	ErrLimit         = core.ErrLimit
	ErrPlan          = core.ErrPlan
	// ErrStamp: no stamp is newer than the entry's.
	ErrStamp = core.ErrStamp
	// ErrAhead is wrapped by every AheadError.
	ErrAhead = core.ErrAhead
	// ErrStale is wrapped by every StaleError.
	ErrStale = core.ErrStale
	// ErrContended: the keys changed during each attempt of the update.
	ErrContended = core.ErrContended
	// ErrClosed means that the replicator has been closed. A write may or may not have been
	// applied.
	ErrClosed = errors.New("replicator: closed")
)

// Observer receives the events of a replicator; nil functions are not called. All are
// called from the replicator's goroutine and must not block.
type Observer struct {
	// Done is called for every finished request: op is "update" or "get", result
	// is "ok", "unknown", "members", "fenced", "limit", "cancelled" or "error".
	Done func(op string, level string, result string, took time.Duration)
	// Sent is called for every frame that the transport accepted or rejected.
	Sent func(message string, bytes int, err error)
	// Trace is called for every trace event of the core.
	Trace func(TraceEvent)
}
