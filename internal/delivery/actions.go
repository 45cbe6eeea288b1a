package delivery

import (
	"errors"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/figures"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// carryOut performs what an event made due; called with the mutex, after each event. inc is
// nil only where nothing is sent.
func (r *Router) carryOut(inc *Incarnation, rt *shardRoute) {
	for a, ok := rt.core.Next(); ok; a, ok = rt.core.Next() {
		r.performAction(inc, rt, &a)
	}
	r.countHeld(rt)
	r.looking.noteRoute(rt)
}

// countHeld brings the router's gauges up to the state of a route; called with the mutex.
func (r *Router) countHeld(rt *shardRoute) {
	messages, bytes, gates := rt.core.Held()
	now, before := held{messages, bytes, gates}, held{}
	if rt.counted != nil {
		before = rt.counted.held
	}
	if now == before {
		return
	}
	if rt.counted == nil {
		rt.counted = &heldSince{}
	}
	rt.counted.held = now
	r.heldMessages.Add(int64(messages - before.messages))
	r.heldBytes.Add(int64(bytes - before.bytes))
	r.counters.Gates.Add(gates - before.gates)
	if before.messages == 0 {
		rt.counted.since = time.Now()
	}
	if now == (held{}) {
		rt.counted = nil
	}
	if messages < before.messages {
		r.room.Broadcast()
	}
}

// performAction performs an action that is due, and reports its outcome to the core.
func (r *Router) performAction(inc *Incarnation, rt *shardRoute, a *route.Action[Message]) {
	var err error
	switch a.Kind {
	case route.Send, route.Deliver:
		err = r.sendBuffered(inc, rt, a)
	case route.Publish:
		err = publishShard(r.local, rt, a)
	case route.Hide:
		r.local.Hide(rt.shard)
	case route.Wake:
		r.counters.HeldUp.Add(-1)
		a.Item.Msg.woken <- wakeError(a.Result)
	case route.Lost:
		r.GiveBack(a.Item.Msg.Call)
	case route.Freed:
		// A copy of the ID: else the compiler has every offered item escape with its action.
		r.producers.noteAll(reliable.Freed{Shard: rt.shard, ID: strings.Clone(a.ID)})
		if a.ID == "" {
			r.room.Broadcast()
		}
	default:
		r.performNotice(inc, rt, a)
	}
	rt.core.Done(a, outcomeOf(err))
}

// performOffered performs the action of an item that was offered: Send, Deliver or Publish.
func (r *Router) performOffered(inc *Incarnation, rt *shardRoute, a *route.Action[Message]) (err error) {
	if a.Kind == route.Publish {
		err = publishShard(r.local, rt, a)
	} else if err = r.sendRequest(inc, a); err == nil {
		r.counters.Sent(routeOf(a), rt.shard)
	}
	rt.core.Done(a, outcomeOf(err))
	if err != nil || rt.core.Due() {
		r.carryOut(inc, rt)
	}
	return err
}

// publishShard lets local senders find the shard that runs here.
func publishShard(local Local, rt *shardRoute, a *route.Action[Message]) error {
	if !local.Publish(rt.shard, a.Token) {
		return errNotYet
	}
	return nil
}

// performNotice performs an action that sends a frame other than a request, or notifies
// the driver of the type.
func (r *Router) performNotice(inc *Incarnation, rt *shardRoute, a *route.Action[Message]) {
	switch a.Kind {
	case route.Marker:
		inc.sendMarker(r.typeName, rt.shard, a)
	case route.Report:
		if a.First {
			r.counters.Blocked.Add(1)
		}
		inc.sendReport(r.typeName, rt, a)
	case route.AskGate:
		_ = inc.Send(a.To, frames.AppendStopped(nil, r.typeName, rt.shard, a.Token, a.ID))
	case route.AwaitRoom:
		r.awaitRoom(inc, rt, a)
	case route.NeedHome:
		inc.Need(rt.shard)
	case route.Misrouted:
		inc.Misrouted(rt.shard, a.Token)
	}
}

// sendBuffered sends a request that has waited, or delivers it here, and counts it.
func (r *Router) sendBuffered(inc *Incarnation, rt *shardRoute, a *route.Action[Message]) error {
	if a.Item.Returned {
		r.counters.Redirected.Add(1)
	}
	m := &a.Item.Msg
	err := r.sendRequest(inc, a)
	switch {
	case a.Source == route.Waiting:
		if err == nil {
			r.counters.Sent(routeOf(a), rt.shard)
		}
	case err == ErrCallOver:
		r.counters.Drop(DropExpired, 1)
	case errors.Is(err, transport.ErrFrameTooLarge):
		r.counters.Drop(DropTooLarge, 1)
		r.local.FailAsk(m.Call, failure.TooLarge)
	}
	return err
}

func routeOf(a *route.Action[Message]) figures.Route {
	if a.Kind == route.Deliver {
		return figures.RouteLocal
	}
	return figures.RouteRemote
}

// sendRequest queues a request on the connection to the home, or delivers it here.
func (r *Router) sendRequest(inc *Incarnation, a *route.Action[Message]) error {
	m := &a.Item.Msg
	frames.Stamp(m.Frame, a.Token, a.Number)
	if m.Call != 0 {
		if !m.Expires.IsZero() {
			frames.StampLeft(m.Frame, max(time.Until(m.Expires), 1))
		}
		if !r.local.MoveCall(m.Call, a.To) {
			return ErrCallOver
		}
	}
	if a.Kind == route.Deliver {
		if hosted, err := r.local.Deliver(inc.Self, m.Frame); err != nil || !hosted {
			return errNotYet
		}
		return nil
	}
	err := inc.Send(a.To, m.Frame)
	if err != nil && m.Call != 0 && !r.local.MoveCall(m.Call, 0) {
		return ErrCallOver
	}
	return err
}

// outcomeOf returns the outcome of an action.
func outcomeOf(err error) route.Outcome {
	switch {
	case err == nil:
		return route.Sent
	case err == ErrCallOver:
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
		return failure.TooLarge
	case route.Gone:
		return ErrCallOver
	}
	return errTryAgain
}

// sendMarker queues a marker, or acknowledges it if the owner is this node: what was sent here
// is in mailboxes already.
func (n *Incarnation) sendMarker(typ string, shard strategy.ShardID, a *route.Action[Message]) {
	if a.To == n.Self {
		n.Acked(a.To, shard, a.Token)
		return
	}
	_ = n.Send(a.To, frames.AppendMarker(nil, frames.KindMarker, typ, shard, a.Token))
}

// sendReport sends the home how far this node has sent, behind all that it has. A report that
// finds no room on the connection is lost; Look repeats it.
func (n *Incarnation) sendReport(typ string, rt *shardRoute, a *route.Action[Message]) {
	if a.To == n.Self {
		n.Accounts.Sender(n.Self).Reconcile(rt.shard, a.Token, rt.core.Report())
		n.Accounts.wakeLoop()
		return
	}
	_ = n.Send(a.To, frames.AppendBlocked(nil, typ, rt.shard, a.Token, rt.core.Report()))
}

// awaitRoom continues with the buffer when the connection has room.
func (r *Router) awaitRoom(inc *Incarnation, rt *shardRoute, a *route.Action[Message]) {
	home := a.To
	inc.Work.Go(func() {
		how := route.Sent
		if inc.Links.WaitRoom(inc.Ctx, home, transport.Message) != nil {
			how = route.Down
		}
		if inc.Ctx.Err() != nil {
			how = route.Gone
		}
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.core.RoomFound(home, how)
		r.carryOut(inc, rt)
	})
}

// GiveBack ends a refused request that cannot be sent again without overtaking.
func (r *Router) GiveBack(call uint64) {
	if call == 0 {
		r.counters.Drop(DropNotHome, 1)
		return
	}
	r.local.FailAsk(call, failure.Moved)
}
