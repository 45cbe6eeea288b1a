package sharding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/residency"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/internal/statecopy"
	"github.com/peerage-go/peerage/internal/transport"
)

// router holds the routes of one type: one per shard, for the life of the
// Registry. It moves encoded requests; what they contain and how they run here is
// the business of its path.
type router struct {
	typeInfo
	limits   Limits
	routes   []shardRoute
	counters *counters
	// inner is the typed side.
	inner inner
	// now is the incarnation that serves the type, nil while there is none.
	now atomic.Pointer[incarnation]
	// closed is set when the Registry is closed: there will be no further incarnation.
	// Then ended is closed.
	closed atomic.Bool
	ended  chan struct{}

	// held is what all buffers hold.
	heldMessages, heldBytes atomic.Int64
	room                    signal.Signal
	// looks counts calls of look, and belongs to its caller.
	looks uint64
	// differs is how this node's settings differ from the coordinator's, nil if they
	// do not: no shard will ever have a home for it.
	differs atomic.Pointer[string]
	// lines are the reliable producers.
	lines
}

// inner is what a router needs of the typed side.
type inner interface {
	// publish makes local senders find the shard that runs here, hide undoes it.
	// Both are called with the route's mutex.
	publish(shard ShardID, token Token) (hosted bool)
	hide(shard ShardID)
	// deliver hands a request to the shard that runs here, whoever sent it. It
	// reports false when the shard does not run here under that token, and an error when
	// the frame is malformed. It keeps nothing of the frame.
	deliver(from gossip.NodeID, frame []byte) (hosted bool, err error)
	// move notes where an ask is, failAsk ends it. Both report whether somebody waits.
	move(call uint64, node gossip.NodeID) bool
	failAsk(call uint64, err error) bool
}

// incarnation is what a router needs of the service that serves it.
type incarnation struct {
	self  gossip.NodeID
	links placement.Links
	ctx   context.Context
	work  *sync.WaitGroup
	// need, misrouted and acked tell the shell; they do not block.
	need      func(ShardID)
	misrouted func(ShardID, Token)
	acked     func(from gossip.NodeID, shard ShardID, token Token)
	// out sends answers; it does not block either.
	out      *outbox
	observer figures.ShardingObserver
	// strict is Config.Strict, and set under the race detector.
	strict bool
	// These are for daemons. plans is the store of plans, nil if there is none. office
	// returns the term in which this node coordinates the type, 0 if it does not. members
	// returns the role's members. supersede ends an allocation immediately.
	plans     placement.PlanStore
	office    func() gossip.Epoch
	members   func() daemon.Members
	supersede func(ShardID, Token)
	// accounts are those of senders, nil on a node that does not host the type; budgets are
	// the node's.
	accounts *accounts
	budgets  *flowBudgets
	// states replicates the type's state, nil if it is not replicated.
	states *statecopy.Replicator
	// remember keeps the remembered entities, nil where it cannot be; pace spreads their
	// starts over time.
	remember placement.Rememberer
	pace     *residency.Pace
	// mutual are the asks of entities here; log is the node's.
	mutual *mutualAsks
	log    *slog.Logger
	// alive reports whether the lease holds.
	alive func() bool
}

func (n *incarnation) send(to gossip.NodeID, frame []byte) error {
	return n.links.Send(to, transport.Message, transport.KindEntity, frame)
}

func newRouter(info typeInfo, limits Limits, c *counters) *router {
	r := &router{typeInfo: info, limits: limits, counters: c, routes: make([]shardRoute, info.shards), ended: make(chan struct{})}
	for i := range r.routes {
		r.routes[i].shard = ShardID(i)
	}
	return r
}

// close ends the waiting of senders for good. What is in buffers goes on as long as
// an incarnation serves the type.
func (r *router) close() {
	if !r.closed.Swap(true) {
		close(r.ended)
	}
	if r.now.Load() == nil {
		r.giveUpBuffers()
	}
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		rt.core.ReleaseCallers()
		r.carryOut(nil, rt)
		rt.mu.Unlock()
	}
	r.room.Broadcast()
	r.eachLine(func(l *line) { l.room.Broadcast() })
}

// post sends an encoded request on its way: over the connection, or into the
// buffer, which then keeps the frame. It waits for room until ctx ends.
// errRunsHere means that the shard has come to run here meanwhile, errNobodyWaits
// that the ask is over.
func (r *router) post(ctx context.Context, rt *shardRoute, it *item) (kept bool, err error) {
	for {
		inc := r.now.Load()
		home := gossip.NodeID(0)
		if kept, home, err = r.try(inc, rt, it); !mayWait(err) {
			return kept, err
		}
		if err == errHeldUp {
			if err = r.awaitGrant(ctx, rt, it); err != errTryAgain {
				return false, err
			}
			continue
		}
		if errors.Is(err, transport.ErrQueueFull) {
			// An error other than the context's means that the peer is gone: look again.
			_ = inc.links.WaitRoom(ctx, home, transport.Message)
			if ctx.Err() != nil {
				return false, r.noRoom(ErrBufferFull, ctx)
			}
			continue
		}
		woken := r.room.Wait()
		// Room may have come between the attempt and listen.
		if kept, _, err = r.try(r.now.Load(), rt, it); !mayWait(err) {
			return kept, err
		}
		if errors.Is(err, transport.ErrQueueFull) || err == errHeldUp {
			continue
		}
		select {
		case <-woken:
		case <-ctx.Done():
			return false, r.noRoom(err, ctx)
		}
	}
}

// noRoom gives up what waited for room, or for a cluster.
func (r *router) noRoom(err error, ctx context.Context) error {
	if errors.Is(err, ErrBufferFull) {
		r.counters.drop(DropBufferFull, 1)
	}
	return giveUp(err, ctx)
}

// errRunsHere: the shard runs on this node, try again past the route.
var errRunsHere = errors.New("sharding: shard runs here")

// errNobodyWaits: the asker has given up meanwhile, or knows that the node is
// lost.
var errNobodyWaits = errors.New("sharding: nobody waits")

// mayWait reports whether the obstacle passes.
func mayWait(err error) bool {
	return err != nil && isOne(err, errHeldUp, transport.ErrQueueFull, ErrBufferFull, ErrNotReady)
}

func giveUp(err error, ctx context.Context) error {
	return &gaveUpError{err: err, cause: ctx.Err()}
}

// gaveUpError says what a call was waiting for when its context ended.
type gaveUpError struct{ err, cause error }

func (e *gaveUpError) Error() string   { return e.err.Error() + ": " + e.cause.Error() }
func (e *gaveUpError) Unwrap() []error { return []error{e.err, e.cause} }

// try makes one attempt at post and returns the home that it went, or did not go,
// to.
func (r *router) try(inc *incarnation, rt *shardRoute, it *item) (kept bool, home gossip.NodeID, err error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if r.closed.Load() {
		return false, 0, ErrNodeStopping
	}
	if inc == nil || r.now.Load() != inc {
		return false, 0, ErrNotReady
	}
	switch a := rt.core.Offer(it); a.Kind {
	case route.Wait:
		return false, a.To, errHeldUp
	case route.Send, route.Publish:
		err = r.performOffered(inc, rt, &a)
		switch outcomeOf(err) {
		case route.Sent:
			if a.Kind == route.Publish {
				err = errRunsHere
			}
			return false, a.To, err
		case route.TooLarge:
			return false, a.To, ErrTooLarge
		case route.Full, route.Gone:
			return false, a.To, err
		}
	}
	// The peer is unknown, or the shard does not run here yet: wait for it, or another home.
	kept, err = r.keep(inc, rt, it)
	return kept, 0, err
}

// keep appends a request to the buffer; called with the mutex.
func (r *router) keep(inc *incarnation, rt *shardRoute, it *item) (bool, error) {
	if why := r.differs.Load(); why != nil {
		return false, fmt.Errorf("%w: %s", ErrSettings, *why)
	}
	if !r.roomFor(rt, it.Bytes) && !(r.sweep(rt) && r.roomFor(rt, it.Bytes)) {
		// What fills the buffers may wait for other shards; this one is asked for all the
		// same, and needs no room once it has a home.
		rt.core.Want()
		r.carryOut(inc, rt)
		return false, ErrBufferFull
	}
	rt.core.Keep(it)
	r.counters.sent(figures.RouteBuffered, rt.shard)
	r.carryOut(inc, rt)
	return true, nil
}

func (r *router) roomFor(rt *shardRoute, bytes int) bool {
	messages, held, _ := rt.core.Held()
	return messages < r.limits.ShardMessages && held+bytes <= r.limits.ShardBytes &&
		r.heldMessages.Load() < int64(r.limits.BufferMessages) &&
		r.heldBytes.Load()+int64(bytes) <= int64(r.limits.BufferBytes)
}

// sweep takes asks that nobody waits for out of a full buffer, and reports
// whether there were any; called with the mutex.
func (r *router) sweep(rt *shardRoute) bool {
	swept := rt.core.Filter(func(it *item) bool {
		if it.Msg.call == 0 || r.inner.move(it.Msg.call, 0) {
			return false
		}
		r.counters.drop(DropExpired, 1)
		return true
	})
	r.countHeld(rt)
	return swept
}
