package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Post sends an encoded request over the connection to the home, or puts it into the buffer,
// which then keeps the frame. It waits for room until ctx ends. ErrRunsHere means that the
// shard runs here by now, ErrCallOver that the ask is over.
func (r *Router) Post(ctx context.Context, shard strategy.ShardID, it *Item) (kept bool, err error) {
	rt := r.routes.routeTo(shard)
	inc := r.now.Load()
	kept, home, err := r.tryOnce(inc, rt, it)
	if isPassing(err) {
		ctx, cancel := WithLimit(ctx, it.Msg.Expires)
		defer cancel()
		return postWaiting(ctx, r, inc, rt, it, home, err)
	}
	return kept, err
}

// postWaiting waits until the obstacle err has passed, which the first attempt to post met, and
// makes further attempts.
func postWaiting(ctx context.Context, r *Router, inc *Incarnation, rt *shardRoute, it *Item, home gossip.NodeID, err error) (kept bool, _ error) {
	for isPassing(err) {
		switch {
		case err == errHeldUp:
			if err = r.awaitGrant(ctx, rt, it); err != errTryAgain {
				return false, err
			}
		case errors.Is(err, transport.ErrQueueFull):
			// An error other than the context's means that the peer is gone: try again.
			_ = inc.Links.WaitRoom(ctx, home, transport.Message)
			if ctx.Err() != nil {
				return false, noRoom(r.counters, failure.BufferFull, ctx)
			}
		default:
			woken := r.room.Wait()
			// Room may have come between the attempt and Wait.
			inc = r.now.Load()
			if kept, home, err = r.tryOnce(inc, rt, it); !isPassing(err) {
				return kept, err
			}
			if errors.Is(err, transport.ErrQueueFull) || err == errHeldUp {
				continue
			}
			select {
			case <-woken:
			case <-ctx.Done():
				return false, noRoom(r.counters, err, ctx)
			}
		}
		inc = r.now.Load()
		kept, home, err = r.tryOnce(inc, rt, it)
	}
	return kept, err
}

// noRoom returns the error of a call that waited for room, or for a cluster, and counts it.
func noRoom(c *Counters, err error, ctx context.Context) error {
	if errors.Is(err, failure.BufferFull) {
		c.Drop(DropBufferFull, 1)
	}
	return giveUpWaiting(err, ctx)
}

// tryOnce makes one attempt to post an item, and returns the home of its shard.
func (r *Router) tryOnce(inc *Incarnation, rt *shardRoute, it *Item) (kept bool, home gossip.NodeID, err error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r.closed.Load() {
		return false, 0, failure.NodeStopping
	}
	if inc == nil || r.now.Load() != inc {
		return false, 0, failure.NotReady
	}
	switch a := rt.core.Offer(it); a.Kind {
	case route.Wait:
		return false, a.To, errHeldUp
	case route.Send, route.Publish:
		err = r.performOffered(inc, rt, &a)
		switch outcomeOf(err) {
		case route.Sent:
			if a.Kind == route.Publish {
				err = ErrRunsHere
			}
			return false, a.To, err
		case route.TooLarge:
			return false, a.To, failure.TooLarge
		case route.Full, route.Gone:
			return false, a.To, err
		}
	}
	// The peer is unknown, or the shard does not run here yet: wait for it, or another home.
	kept, err = r.bufferItem(inc, rt, it)
	return kept, 0, err
}

// bufferItem appends a request to the buffer; called with the mutex.
func (r *Router) bufferItem(inc *Incarnation, rt *shardRoute, it *Item) (bool, error) {
	if why := r.differs.Load(); why != nil {
		return false, fmt.Errorf("%w: %s", failure.Settings, *why)
	}
	if !hasRoom(r, rt, it.Bytes) && !(r.dropUnawaited(rt) && hasRoom(r, rt, it.Bytes)) {
		// The buffers may be full of messages for other shards. Ask for this shard's home
		// nevertheless: with a home, the message needs no room.
		rt.core.Want()
		r.carryOut(inc, rt)
		return false, failure.BufferFull
	}
	rt.core.Keep(it)
	r.counters.Sent(figures.RouteBuffered, rt.shard)
	r.carryOut(inc, rt)
	return true, nil
}

// hasRoom reports whether the buffer of a route has room; called with the mutex.
func hasRoom(r *Router, rt *shardRoute, bytes int) bool {
	messages, held, _ := rt.core.Held()
	return messages < r.bounds.ShardMessages && held+bytes <= r.bounds.ShardBytes &&
		r.heldMessages.Load() < int64(r.bounds.BufferMessages) &&
		r.heldBytes.Load()+int64(bytes) <= int64(r.bounds.BufferBytes)
}

// dropUnawaited drops the asks of a full buffer whose callers have given up, and reports
// whether there were any; called with the mutex.
func (r *Router) dropUnawaited(rt *shardRoute) bool {
	swept := rt.core.Filter(func(it *Item) bool {
		if it.Msg.Call == 0 || r.local.MoveCall(it.Msg.Call, 0) {
			return false
		}
		r.counters.Drop(DropExpired, 1)
		return true
	})
	r.countHeld(rt)
	return swept
}

// This file delays senders whose messages a home has no room for, or that it stops for an
// entity: callers wait here, package route decides how long. The reader of a connection that
// brings a grant sends the buffer, then the messages of the first callers that wait, as far
// as the grant permits; so a grant needs no goroutine to be woken before it is used.

// HandlerWait is the maximum time that a full mailbox delays a handler, whatever its
// Context. It ends the deadlock of two entities that send to each other while both
// mailboxes are full.
const HandlerWait = 5 * time.Second

// awaitGrant waits until a message has left, the route has changed (errTryAgain), or ctx
// ends.
func (r *Router) awaitGrant(ctx context.Context, rt *shardRoute, it *Item) error {
	w, err := r.beginWait(rt, it)
	if err != nil {
		return err
	}
	woken := w.Item.Msg.woken
	var patience <-chan time.Time
	if it.Msg.Handler {
		timer := time.NewTimer(HandlerWait)
		defer timer.Stop()
		patience = timer.C
	}
	select {
	case err = <-woken:
		return err
	case <-ctx.Done():
		err = giveUpWaiting(failure.MailboxFull, ctx)
	case <-patience:
		err = failure.Because(failure.MailboxFull, ErrHandlerWait)
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if !w.Withdraw() {
		return <-woken
	}
	r.counters.HeldUp.Add(-1)
	return err
}

// beginWait queues a caller at its route. It fails if the caller need not, or must not, wait.
func (r *Router) beginWait(rt *shardRoute, it *Item) (*route.Waiter[Message], error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	inc := r.now.Load()
	if inc == nil || r.closed.Load() || rt.core.Offer(it).Kind != route.Wait {
		return nil, errTryAgain
	}
	if it.Msg.ToItself {
		return nil, failure.MailboxFull // it would wait for itself
	}
	w := &route.Waiter[Message]{Item: *it}
	w.Item.Msg.woken = make(chan error, 1)
	rt.core.Await(w)
	r.counters.HeldUp.Add(1)
	r.carryOut(inc, rt)
	return w, nil
}
