package delivery

import (
	"context"
	"errors"

	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/transport"
)

// Results of Post that its caller acts on.
var (
	// ErrRunsHere: the shard runs on this node, so the message needs no route.
	ErrRunsHere = errors.New("sharding: shard runs here")
	// ErrCallOver: the ask is over, because its caller has given up or its node is lost.
	ErrCallOver = errors.New("sharding: ask is over")
	// ErrLimit: the time limit of the ask has passed.
	ErrLimit = errors.New("sharding: time limit of the ask has passed")
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
	return err != nil && (errors.Is(err, errHeldUp) || errors.Is(err, transport.ErrQueueFull) ||
		errors.Is(err, failure.BufferFull) || errors.Is(err, failure.NotReady))
}

// giveUpWaiting returns the error of a call whose context ended while it waited.
func giveUpWaiting(obstacle error, ctx context.Context) error {
	return failure.Because(obstacle, ctx.Err())
}
