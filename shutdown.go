package peerage

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding"
)

const (
	// closePatience is how long Close waits for handlers.
	closePatience = 5 * time.Second
	// leaveShare of the time that Shutdown has is kept for what follows the drain.
	leaveShare = 10
	// closeGrace is how long handlers have to return where Shutdown's time is up already,
	// and by how much Shutdown may pass it.
	closeGrace = 100 * time.Millisecond
)

// Shutdown is Drain, then Close, and is over when ctx ends, whatever hangs (100 ms are
// its own). Of the time until ctx's deadline the drain has nine tenths; when these have
// passed, instances are abandoned, and the rest is for handlers, whose Contexts have
// ended, to return, and for the goodbye. Without a deadline the drain takes as long as it
// takes, and handlers have 5 s. Idempotent.
//
// It fails with the context's error if not all could be handed over, and with a
// *sharding.UnfinishedError that names the handlers which still run at the end (their
// type, id, age and stack). Such a handler still acts for the node, so the node then says
// no goodbye: its connections stay, in silence, until its lease has run out, and its
// shards have no home before. Let the process end after such an error; until it does, only
// the fencing token (Context.Token) keeps the handler from writing beside its successor.
func (n *Node) Shutdown(ctx context.Context) error {
	drain, cancel := n.boundEnd(ctx)
	defer cancel()
	err := n.Drain(drain)
	if errors.Is(err, ErrClosed) || errors.Is(err, gossip.ErrClosed) || errors.Is(err, gossip.ErrRemoved) {
		err = nil // another call was faster, or the cluster: there is nothing left to leave
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

// boundEnd notes by when the node must have ended, and returns the context of the drain.
func (n *Node) boundEnd(ctx context.Context) (drain context.Context, cancel context.CancelFunc) {
	by, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	kept := max(time.Until(by), 0) / leaveShare
	n.mustEndBy(by.Add(-min(kept/4, closeGrace)))
	return context.WithDeadline(ctx, by.Add(-kept))
}

// mustEndBy bounds the wait for handlers; the earliest bound counts.
func (n *Node) mustEndBy(by time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endBy.IsZero() || by.Before(n.endBy) {
		n.endBy = by
	}
}

// patience returns the context of the wait for handlers.
func (n *Node) patience() (context.Context, context.CancelFunc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.endBy.IsZero() {
		return context.WithTimeout(context.Background(), closePatience)
	}
	return context.WithDeadline(context.Background(), n.endBy)
}

// afterEnd returns a channel that is closed when grace has passed since ctx ended, unless
// stop is called before ctx ends.
func afterEnd(ctx context.Context, grace time.Duration) (late <-chan struct{}, stop func() bool) {
	ch := make(chan struct{})
	return ch, context.AfterFunc(ctx, func() { time.AfterFunc(grace, func() { close(ch) }) })
}

// unfinished is the error of a Shutdown whose time is up while the node still ends.
func (n *Node) unfinished(ctx context.Context) error {
	left := &sharding.UnfinishedError{Cause: ctx.Err()}
	if s := n.stack.Load(); s != nil && s.sharding != nil {
		left.Handlers = s.sharding.Running()
	}
	return left
}
