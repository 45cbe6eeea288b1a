package sharding

import (
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
)

// shardRoute is the route to one shard: package route decides, and this file performs its
// actions, both under mu. docs/architecture/ask.md shows its place in an Ask.
type shardRoute struct {
	mu    sync.Mutex
	shard ShardID
	core  route.Route[message]
	// counted is how much of the core's state the router's gauges contain.
	counted held
	// since is when the oldest message in the buffer came.
	since time.Time
}

// held counts what a route holds.
type held struct{ messages, bytes, gates int }

// message is an encoded request, with what the router needs to send it.
type message struct {
	frame []byte
	// call is 0 for a tell. expires is the asker's deadline, zero for none.
	call    uint64
	expires time.Time
	// handler: a handler sends it; toItself: to its own entity.
	handler, toItself bool
	// woken receives the outcome for a caller that waits for a grant.
	woken chan error
}

// item is a message of a route.
type item = route.Item[message]

// newItem returns the item of a message to the entity id.
func newItem(m message, id string, control bool) item {
	class := flow.Ordinary
	switch {
	case control:
		class = flow.Control
	case m.handler && !m.toItself:
		class = flow.Handler
	}
	return item{Msg: m, ID: id, Bytes: len(m.frame), Class: class}
}

// carryOut performs what an event made due; called with the mutex, after each event. inc is
// nil only where nothing is sent.
func (r *router) carryOut(inc *incarnation, rt *shardRoute) {
	for a, ok := rt.core.Next(); ok; a, ok = rt.core.Next() {
		r.perform(inc, rt, &a)
	}
	r.countHeld(rt)
}

// countHeld brings the router's gauges up to the state of a route; called with the mutex.
func (r *router) countHeld(rt *shardRoute) {
	messages, bytes, gates := rt.core.Held()
	before := rt.counted
	rt.counted = held{messages, bytes, gates}
	if rt.counted == before {
		return
	}
	r.heldMessages.Add(int64(messages - before.messages))
	r.heldBytes.Add(int64(bytes - before.bytes))
	r.counters.gates.Add(gates - before.gates)
	if before.messages == 0 {
		rt.since = time.Now()
	}
	if messages < before.messages {
		r.room.Broadcast()
	}
}

// perform performs an action that is due, and reports its outcome to the core.
func (r *router) perform(inc *incarnation, rt *shardRoute, a *route.Action[message]) {
	var err error
	switch a.Kind {
	case route.Send, route.Deliver:
		err = r.depart(inc, rt, a)
	case route.Publish:
		err = r.publishShard(rt, a)
	case route.Hide:
		r.inner.hide(rt.shard)
	case route.Wake:
		r.counters.heldUp.Add(-1)
		a.Item.Msg.woken <- wakeError(a.Result)
	case route.Lost:
		r.giveBack(a.Item.Msg.call)
	case route.Freed:
		// A copy of the ID: else the compiler has every offered item escape with its action.
		r.announce(reliable.Freed{Shard: rt.shard, ID: strings.Clone(a.ID)})
		if a.ID == "" {
			r.room.Broadcast()
		}
	default:
		r.notify(inc, rt, a)
	}
	rt.core.Done(a, outcomeOf(err))
}

// performOffered performs the action of an item that was offered: Send, Deliver or Publish.
func (r *router) performOffered(inc *incarnation, rt *shardRoute, a *route.Action[message]) (err error) {
	if a.Kind == route.Publish {
		err = r.publishShard(rt, a)
	} else if err = r.leave(inc, a); err == nil {
		r.counters.sent(routeOf(a), rt.shard)
	}
	rt.core.Done(a, outcomeOf(err))
	if rt.core.Due() {
		r.carryOut(inc, rt)
	}
	return err
}

// publishShard lets local senders find the shard that runs here.
func (r *router) publishShard(rt *shardRoute, a *route.Action[message]) error {
	if !r.inner.publish(rt.shard, a.Token) {
		return errNotYet
	}
	return nil
}

// notify performs an action that sends a frame other than a request, or tells the shell.
func (r *router) notify(inc *incarnation, rt *shardRoute, a *route.Action[message]) {
	switch a.Kind {
	case route.Marker:
		r.sendMarker(inc, rt.shard, a)
	case route.Report:
		r.report(inc, rt, a)
	case route.AskGate:
		_ = inc.send(a.To, frames.AppendStopped(nil, r.name, rt.shard, a.Token, a.ID))
	case route.AwaitRoom:
		r.awaitRoom(inc, rt, a)
	case route.NeedHome:
		inc.need(rt.shard)
	case route.Misrouted:
		inc.misrouted(rt.shard, a.Token)
	}
}

// depart sends a request that has waited, or delivers it here, and counts it.
func (r *router) depart(inc *incarnation, rt *shardRoute, a *route.Action[message]) error {
	if a.Item.Returned {
		r.counters.redirected.Add(1)
	}
	m := &a.Item.Msg
	err := r.leave(inc, a)
	switch {
	case a.Source == route.Waiting:
		if err == nil {
			r.counters.sent(routeOf(a), rt.shard)
		}
	case err == errNobodyWaits:
		r.counters.drop(DropExpired, 1)
	case errors.Is(err, transport.ErrFrameTooLarge):
		r.counters.drop(DropTooLarge, 1)
		r.inner.failAsk(m.call, ErrTooLarge)
	}
	return err
}

func routeOf(a *route.Action[message]) figures.Route {
	if a.Kind == route.Deliver {
		return figures.RouteLocal
	}
	return figures.RouteRemote
}

// leave queues a request on the connection to the home, or delivers it here.
func (r *router) leave(inc *incarnation, a *route.Action[message]) error {
	m := &a.Item.Msg
	frames.Stamp(m.frame, a.Token, a.Number)
	if m.call != 0 {
		if !m.expires.IsZero() {
			frames.StampLeft(m.frame, max(time.Until(m.expires), 1))
		}
		if !r.inner.move(m.call, a.To) {
			return errNobodyWaits
		}
	}
	if a.Kind == route.Deliver {
		if hosted, err := r.inner.deliver(inc.self, m.frame); err != nil || !hosted {
			return errNotYet
		}
		return nil
	}
	err := inc.send(a.To, m.frame)
	if err != nil && m.call != 0 && !r.inner.move(m.call, 0) {
		return errNobodyWaits
	}
	return err
}

// errNotYet: the shard should run here, and does not.
var errNotYet = errors.New("sharding: home is not ready")

// outcomeOf returns the outcome of an action.
func outcomeOf(err error) route.Outcome {
	switch {
	case err == nil:
		return route.Sent
	case err == errNobodyWaits:
		return route.Gone
	case errors.Is(err, transport.ErrQueueFull):
		return route.Full
	case errors.Is(err, transport.ErrFrameTooLarge):
		return route.TooLarge
	}
	// The peer is unknown, the transport is closed, or the shard does not run here.
	return route.Down
}

// wakeError returns the error for a caller that waited.
func wakeError(how route.Outcome) error {
	switch how {
	case route.Sent:
		return nil
	case route.TooLarge:
		return ErrTooLarge
	case route.Gone:
		return errNobodyWaits
	}
	return errTryAgain
}

// sendMarker queues a marker, or acknowledges it if the owner is this node: what was sent here
// is in mailboxes already.
func (r *router) sendMarker(inc *incarnation, shard ShardID, a *route.Action[message]) {
	if a.To == inc.self {
		inc.acked(a.To, shard, a.Token)
		return
	}
	_ = inc.send(a.To, frames.AppendMarker(nil, frames.KindMarker, r.name, shard, a.Token))
}

// report sends the home how far this node has sent, behind all that it has. A report that
// finds no room on the connection is lost; look repeats it.
func (r *router) report(inc *incarnation, rt *shardRoute, a *route.Action[message]) {
	if a.First {
		r.counters.blocked.Add(1)
	}
	if a.To == inc.self {
		inc.accounts.sender(inc.self).reconcile(rt.shard, a.Token, rt.core.Report())
		inc.accounts.wake()
		return
	}
	_ = inc.send(a.To, frames.AppendBlocked(nil, r.name, rt.shard, a.Token, rt.core.Report()))
}

// awaitRoom continues with the buffer when the connection has room.
func (r *router) awaitRoom(inc *incarnation, rt *shardRoute, a *route.Action[message]) {
	home := a.To
	inc.work.Go(func() {
		how := route.Sent
		if inc.links.WaitRoom(inc.ctx, home, transport.Message) != nil {
			how = route.Down
		}
		if inc.ctx.Err() != nil {
			how = route.Gone
		}
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.core.RoomFound(home, how)
		r.carryOut(inc, rt)
	})
}
