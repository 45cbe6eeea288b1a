package peerage

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
	"github.com/peerage-go/peerage/sharding"
)

const (
	// closePatience is how long Close waits for handlers.
	closePatience = 5 * time.Second
	// Shutdown reserves 1/leaveShare of its time for the steps after the drain.
	leaveShare = 10
	// closeGrace is the time for handlers to return if Shutdown's time is up already. It is
	// also the time by which Shutdown may exceed its deadline.
	closeGrace = 100 * time.Millisecond
)

// Shutdown drains the node, then closes it. It returns within 100 ms after ctx ends, even
// if something hangs. It is idempotent.
//
// The drain has nine tenths of the time until ctx's deadline. Then instances are abandoned
// and the Contexts of handlers end. The rest of the time is for these handlers to return,
// and for the announcement that the node leaves. If ctx has no deadline, the drain may take
// any time, and handlers have 5 s.
//
// Shutdown fails with the context's error if not everything could be handed over, and with
// a *sharding.UnfinishedError if handlers still run at the end; it lists their type, id,
// age and stack. Such a handler still acts for the node. So the node does not announce that
// it leaves, and keeps its connections silently until its lease has run out; its shards
// have no home before. End the process after such an error. Until then, only the fencing
// token (Context.Token) keeps the handler from writing beside its successor.
func (n *Node) Shutdown(ctx context.Context) error {
	drain, cancel := n.boundEnd(ctx)
	defer cancel()
	err := n.Drain(drain)
	if errors.Is(err, ErrClosed) || errors.Is(err, membership.ErrClosed) || errors.Is(err, gossip.ErrRemoved) {
		err = nil // another call or the cluster has ended this node: nothing is left to drain
	}
	if err != nil && ctx.Err() != nil {
		n.mustEndBy(time.Now().Add(closeGrace / 2))
	}
	n.beginClose()
	ended := make(chan error, 1)
	late, stop := afterEnd(ctx, closeGrace)
	defer stop()
	go func() {
		<-n.done
		ended <- n.endClose()
	}()
	select {
	case left := <-ended:
		return errors.Join(err, left)
	case <-late:
		return errors.Join(err, n.unfinished(ctx))
	}
}

// boundEnd sets when the node must have ended, and returns the context of the drain.
func (n *Node) boundEnd(ctx context.Context) (drain context.Context, cancel context.CancelFunc) {
	by, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	kept := max(time.Until(by), 0) / leaveShare
	n.mustEndBy(by.Add(-min(kept/4, closeGrace)))
	return context.WithDeadline(ctx, by.Add(-kept))
}

// mustEndBy bounds the wait for handlers. The earliest bound applies.
func (n *Node) mustEndBy(by time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endBy.IsZero() || by.Before(n.endBy) {
		n.endBy = by
	}
}

// afterEnd returns a channel that is closed when grace has passed since ctx ended, unless
// stop is called before ctx ends.
func afterEnd(ctx context.Context, grace time.Duration) (late <-chan struct{}, stop func() bool) {
	ch := make(chan struct{})
	return ch, context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(ch) }) })
}

// unfinished returns the error of a Shutdown whose time is up while the node is still
// ending.
func (n *Node) unfinished(ctx context.Context) error {
	left := &sharding.UnfinishedError{Cause: ctx.Err()}
	if s := n.stack.Load(); s != nil && s.sharding != nil {
		left.Handlers = s.sharding.Running()
	}
	return left
}
