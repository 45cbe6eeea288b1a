package sharding

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/sharding/entity"
)

// Errors of Tell and Ask; see the table of the package comment.
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
	// ErrSelfAsk: a handler asked its own entity, or an entity that waits for its reply.
	ErrSelfAsk = errors.New("sharding: the entity asked waits for this ask: it would never answer")
	// ErrNoDeadline: Ask with Retry needs a context with a deadline.
	ErrNoDeadline = errors.New("sharding: Ask with Retry needs a context with a deadline")
	// ErrContextEnded: a handler's Context was used after the handler had returned.
	ErrContextEnded = entity.ErrContextEnded
	ErrStash        = entity.ErrStash
	ErrStashFull    = entity.ErrStashFull
)

// HandlerError is an error that a handler or OnStart returned, whatever it wrapped. Only
// its text is sent, at most 1 KiB of it. It is the same for askers on all nodes, including
// the handler's own.
type HandlerError struct{ Text string }

func (e *HandlerError) Error() string { return e.Text }

// UnfinishedError lists the handlers that still ran when a node was closed.
type UnfinishedError = entity.UnfinishedError

// RunningHandler is a call of an entity's code that has not returned.
type RunningHandler = entity.Running

// PanicError is the error of an ask whose handler panicked. It matches ErrPanicked.
type PanicError = entity.PanicError

// retriedError is the end of an Ask with Retry whose last attempt did not run the
// handler, while an earlier one may have.
type retriedError struct{ last, unknown error }

func (e *retriedError) Error() string {
	return e.last.Error() + "; an earlier attempt: " + e.unknown.Error()
}
func (e *retriedError) Unwrap() []error { return []error{e.last, e.unknown} }

// Retryable reports whether the same call may succeed if it is repeated. OutcomeUnknown
// reports whether that may run the handler twice.
func Retryable(err error) bool {
	if r := (*retriedError)(nil); errors.As(err, &r) {
		err = r.last
	}
	return notRun(err) || OutcomeUnknown(err)
}

// OutcomeUnknown reports whether the handler may have run, or may still run, although the
// call failed. For an Ask with Retry, it covers all attempts. It is false if the outcome is
// certain: after *HandlerError and ErrPanicked the handler has run, as it has after an
// ErrTooLarge or ErrCodec about a response.
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
