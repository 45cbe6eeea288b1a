package delivery

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/internal/transport"
)

// Errors of messages, as package sharding documents them.
var (
	ErrTooLarge       = errors.New("sharding: payload too large")
	ErrCodec          = errors.New("sharding: codec failed")
	ErrSettings       = errors.New("sharding: nodes disagree about the shards of ids")
	ErrBufferFull     = errors.New("sharding: buffer full")
	ErrNotReady       = errors.New("sharding: node is not in a cluster")
	ErrNoHome         = errors.New("sharding: shard has no home")
	ErrNodeStopping   = errors.New("sharding: node is stopping")
	ErrMoved          = errors.New("sharding: shard has moved")
	ErrWindowFull     = errors.New("sharding: window of unconfirmed messages full")
	ErrReliableClosed = errors.New("sharding: reliable producer is closed")
)

// Results of Post that its caller acts on.
var (
	// ErrRunsHere: the shard runs on this node, so the message needs no route.
	ErrRunsHere = errors.New("sharding: shard runs here")
	// ErrCallOver: the ask is over, because its caller has given up or its node is lost.
	ErrCallOver = errors.New("sharding: ask is over")
	// ErrHandlerWait: a handler has waited HandlerWait for room.
	ErrHandlerWait = errors.New("handler has waited for 5s")
)

// Obstacles that pass.
var (
	// errHeldUp: the home has no room for more messages.
	errHeldUp = errors.New("sharding: home has no room")
	// errStopped: the home has stopped this node's messages to the entity.
	errStopped = errors.New("sharding: entity does not keep up")
	// errTryAgain: the route has changed while a caller was held up.
	errTryAgain = errors.New("sharding: route has changed")
	// errNotYet: the shard should run here, but does not yet.
	errNotYet = errors.New("sharding: home is not ready")
)

// isPassing reports whether an obstacle passes, so that waiting is of use.
func isPassing(err error) bool {
	return errors.Is(err, errHeldUp) || errors.Is(err, transport.ErrQueueFull) ||
		errors.Is(err, ErrBufferFull) || errors.Is(err, ErrNotReady)
}

// GaveUp returns the error of a call that ended while it waited: err is the obstacle, cause the
// end of its context.
func GaveUp(err, cause error) error { return &gaveUpError{err, cause} }

func giveUpWaiting(err error, ctx context.Context) error { return GaveUp(err, ctx.Err()) }

type gaveUpError struct{ err, cause error }

func (e *gaveUpError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *gaveUpError) Unwrap() []error { return []error{e.err, e.cause} }
