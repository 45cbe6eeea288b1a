package sharding

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/sharding/entity"
)

// The errors of Tell and Ask; doc.go has the table.
var (
	ErrUnknownType  = errors.New("sharding: entity type is not registered")
	ErrBadID        = errors.New("sharding: entity id is empty or too long")
	ErrTooLarge     = errors.New("sharding: payload too large")
	ErrCodec        = errors.New("sharding: codec failed")
	ErrSettings     = errors.New("sharding: nodes disagree about the shards of ids")
	ErrMailboxFull  = entity.ErrMailboxFull
	ErrBufferFull   = errors.New("sharding: buffer full")
	ErrNotReady     = errors.New("sharding: node is not in a cluster")
	ErrNoHome       = errors.New("sharding: shard has no home")
	ErrPaused       = errors.New("sharding: home has no lease")
	ErrNodeStopping = errors.New("sharding: node is stopping")
	ErrMoved        = errors.New("sharding: shard has moved")
	ErrNodeLost     = errors.New("sharding: connection to the home was lost, outcome unknown")
	ErrAbandoned    = entity.ErrAbandoned
	ErrPanicked     = entity.ErrPanicked
	ErrRestore      = entity.ErrRestore
	ErrTimer        = entity.ErrTimer
	// ErrSelfAsk: a handler asked its own entity, or one that waits for its answer.
	ErrSelfAsk = errors.New("sharding: the entity asked waits for this ask: it would never answer")
	// ErrNoDeadline: Ask with Retry needs a context with a deadline.
	ErrNoDeadline = errors.New("sharding: Ask with Retry needs a context with a deadline")
	// ErrContextEnded: a handler's Context was used after the handler had returned.
	ErrContextEnded = entity.ErrContextEnded
	ErrStash        = entity.ErrStash
	ErrStashFull    = entity.ErrStashFull
)

// HandlerError is an error that a handler, or OnStart, returned, whatever it wrapped.
// Only its text travels, the first KiB of it, and it looks the same to askers on all
// nodes, the handler's own included.
type HandlerError struct{ Text string }

func (e *HandlerError) Error() string { return e.Text }

// UnfinishedError says which handlers still ran when a node was closed.
type UnfinishedError = entity.UnfinishedError

// RunningHandler is a call of an entity's code that has not returned.
type RunningHandler = entity.Running

// PanicError is what the asker gets when a handler panicked; it matches
// ErrPanicked.
type PanicError = entity.PanicError

// retriedError is the end of an Ask with Retry whose last attempt did not run the
// handler, while an earlier one may have.
type retriedError struct{ last, unknown error }

func (e *retriedError) Error() string {
	return e.last.Error() + "; an earlier attempt: " + e.unknown.Error()
}
func (e *retriedError) Unwrap() []error { return []error{e.last, e.unknown} }

// Retryable reports whether the same call may succeed when it is made again.
// See OutcomeUnknown for whether that may run the handler twice.
func Retryable(err error) bool {
	if r := (*retriedError)(nil); errors.As(err, &r) {
		err = r.last
	}
	return notRun(err) || OutcomeUnknown(err)
}

// OutcomeUnknown reports whether the handler may have run, or may still run, although
// the call failed: of an Ask with Retry, in any of its attempts. It is false where that
// is known, too: after *HandlerError and ErrPanicked the handler has run, and after
// ErrTooLarge and ErrCodec that speak of a response.
func OutcomeUnknown(err error) bool {
	if r := (*retriedError)(nil); errors.As(err, &r) {
		return true
	}
	return !notRun(err) && isOne(err, ErrPaused, ErrNodeLost, ErrAbandoned, ErrNotKept, context.DeadlineExceeded, context.Canceled)
}

// notRun reports whether err says for certain that nothing was done, and that it may
// be the next time.
func notRun(err error) bool {
	return isOne(err, ErrMailboxFull, ErrBufferFull, ErrWindowFull, ErrStashFull, ErrNotReady, ErrNoHome, ErrNoAnswer, ErrNoWorker, ErrMoved)
}

func isOne(err error, targets ...error) bool {
	for _, t := range targets {
		if errors.Is(err, t) {
			return true
		}
	}
	return false
}
