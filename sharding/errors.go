package sharding

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/sharding/entity"
)

// The errors of Tell and Ask; doc.go has the table.
var (
	ErrUnknownType  = errors.New("sharding: entity type is not registered at its home")
	ErrBadID        = errors.New("sharding: entity id is empty or too long")
	ErrTooLarge     = errors.New("sharding: payload too large")
	ErrCodec        = errors.New("sharding: codec failed")
	ErrSettings     = errors.New("sharding: nodes disagree about the number of shards")
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
)

// HandlerError is an error that a handler returned. It looks the same to askers
// on all nodes: only the text travels. On the handler's own node Unwrap also
// gives the error itself.
type HandlerError struct {
	Text  string
	cause error
}

func (e *HandlerError) Error() string { return e.Text }

// Unwrap returns the handler's error, nil when it came from another node.
func (e *HandlerError) Unwrap() error { return e.cause }

// Retryable reports whether the same call may succeed when it is made again.
// See OutcomeUnknown for whether that may run the handler twice.
func Retryable(err error) bool {
	for _, r := range []error{
		ErrMailboxFull, ErrBufferFull, ErrNotReady, ErrNoHome, ErrMoved,
	} {
		if errors.Is(err, r) {
			return true
		}
	}
	return OutcomeUnknown(err)
}

// OutcomeUnknown reports whether the handler may have run, or may still run,
// although the call failed.
func OutcomeUnknown(err error) bool {
	for _, u := range []error{
		ErrPaused, ErrNodeLost, ErrAbandoned, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, u) {
			return true
		}
	}
	return false
}
