package sharding

import (
	"errors"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/core/reliable"
)

// This file holds what the shell orders of the routes, and what comes back over
// the connections. The essay above route says why the order holds.

// closeRoute closes a route. With an owner, a marker with token goes down the
// connection to it behind everything that was sent there.
func (r *router) closeRoute(inc *incarnation, shard ShardID, owner view.NodeID, token Token) {
	rt := &r.routes[shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.open, rt.suspended, rt.asked = false, false, false
	r.release(rt)
	r.inner.hide(shard)
	if owner != 0 {
		r.sendMarker(inc, shard, owner, token)
	}
	if len(rt.buf) > 0 {
		r.ask(inc, rt)
	}
}

// sendMarker queues a marker, or answers it if the owner is this node: what was
// sent here is in mailboxes already. A marker that finds no room is not sent; the
// core sends it again.
func (r *router) sendMarker(inc *incarnation, shard ShardID, owner view.NodeID, token Token) {
	if owner == inc.self {
		inc.acked(owner, shard, token)
		return
	}
	_ = inc.send(owner, appendMarker(nil, frameMarker, r.name, shard, token))
}

// resendMarker sends the marker of a closed route again.
func (r *router) resendMarker(inc *incarnation, shard ShardID, owner view.NodeID, token Token) {
	rt := &r.routes[shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	r.sendMarker(inc, shard, owner, token)
}

// openRoute opens a route, or turns it to another home, and lets the buffer flow.
func (r *router) openRoute(inc *incarnation, shard ShardID, home view.NodeID, token Token) {
	rt := &r.routes[shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.open && rt.home == home && rt.token == token && !rt.suspended {
		return
	}
	if rt.settle.waiting() && rt.settle.owner != home {
		// What is still out at the former home will be refused there, or is lost with
		// it; it must not hold up the new home.
		r.sortBack(rt)
	}
	if old := rt.home; rt.open && !rt.suspended && old != home && old != inc.self && !rt.settle.waiting() {
		// It turns without a marker: a coordinator that has just taken office may not know
		// that this node sends. What the old home refuses goes first.
		r.settleWith(inc, rt, old)
	}
	r.inner.hide(shard)
	if rt.asked && inc.observer != nil && len(rt.buf) > 0 {
		inc.observer.HomeResolved(r.name, time.Since(rt.since))
	}
	rt.open, rt.suspended, rt.asked = true, false, false
	if rt.home != home || rt.token != token {
		r.release(rt)
		rt.window.Open()
		rt.blocked = false
	}
	rt.home, rt.token = home, token
	r.flow(inc, rt)
}

// flow lets the buffer out, in order, as far as there is room; called with the
// mutex. When the buffer is empty and the shard runs here, local senders get to
// see it.
func (r *router) flow(inc *incarnation, rt *route) {
	for len(rt.buf) > 0 {
		if !rt.open || rt.suspended || rt.settle.waiting() || rt.flushing {
			return
		}
		it := &rt.buf[0]
		if !rt.window.MayLeave(it.class()) {
			r.holdUp(inc, rt)
			return
		}
		switch err := r.flowOne(inc, rt, it); {
		case errors.Is(err, transport.ErrQueueFull):
			r.flowLater(inc, rt)
			return
		case errors.Is(err, errNobodyWaits):
			r.counters.drop(DropExpired, 1)
		case errors.Is(err, transport.ErrFrameTooLarge):
			r.counters.drop(DropTooLarge, 1)
			r.inner.failAsk(it.call, ErrTooLarge)
		case err != nil:
			rt.suspended = true
			r.release(rt)
			return
		}
		r.hold(rt, -1, -len(it.frame))
		rt.buf[0] = item{}
		rt.buf = rt.buf[1:]
	}
	rt.buf = nil
	if rt.open && rt.home == inc.self && !rt.settle.waiting() {
		rt.suspended = !r.inner.publish(rt.shard, rt.token)
	}
	r.serveHeld(inc, rt)
	if rt.free() {
		r.announce(reliable.Freed{Shard: rt.shard})
		r.room.ring()
	}
}

// errNotYet: the shard is said to run here, and does not.
var errNotYet = errors.New("sharding: home is not ready")

func (r *router) flowOne(inc *incarnation, rt *route, it *item) error {
	if it.returned {
		r.counters.redirected.Add(1)
	}
	if rt.home != inc.self {
		return r.leave(inc, rt, it)
	}
	if it.call != 0 && !r.inner.move(it.call, inc.self) {
		return errNobodyWaits
	}
	stamp(it.frame, rt.token, rt.window.Sent()+1)
	if it.call != 0 && !it.expires.IsZero() {
		stampLeft(it.frame, max(time.Until(it.expires), 1))
	}
	if hosted, err := r.inner.deliver(inc.self, it.frame); err != nil || !hosted {
		return errNotYet
	}
	rt.window.Left(len(it.frame))
	return nil
}

// flowLater goes on with the buffer when the connection has room; called with the
// mutex.
func (r *router) flowLater(inc *incarnation, rt *route) {
	rt.flushing = true
	home := rt.home
	inc.work.Go(func() {
		err := inc.links.WaitRoom(inc.ctx, home, transport.Message)
		rt.mu.Lock()
		defer rt.mu.Unlock()
		rt.flushing = false
		if inc.ctx.Err() != nil {
			return
		}
		if err != nil && rt.home == home {
			rt.suspended = true
			r.release(rt)
			return
		}
		r.flow(inc, rt)
	})
}

// refused takes a request back that this node sent to the wrong home.
func (r *router) refused(inc *incarnation, from view.NodeID, q *request, frame []byte) {
	rt := &r.routes[q.shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	current := rt.home == from && rt.token == q.token || rt.settle.owner == from
	if !current {
		if q.sure != nil {
			r.returned(q)
			return
		}
		r.giveBack(q.call)
		return
	}
	it := item{frame: slices.Clone(frame), call: q.call, number: q.number, returned: true}
	if q.call != 0 {
		if !r.inner.move(q.call, 0) {
			// It still stands for its number: what is behind it may go back.
			it.call = callGone
		}
		if q.left != 0 {
			it.expires = time.Now().Add(q.left)
		}
	}
	if q.sure != nil {
		it = r.returned(q)
	}
	rt.back = append(rt.back, it)
	if rt.settle.waiting() {
		return
	}
	if rt.open {
		rt.open, rt.suspended, rt.asked = false, false, true
		r.inner.hide(rt.shard)
		inc.misrouted(rt.shard, rt.token)
	}
	r.settleWith(inc, rt, from)
}

// settleWith waits for all that a node refuses of what it was sent; called with the
// mutex.
func (r *router) settleWith(inc *incarnation, rt *route, owner view.NodeID) {
	rt.settle = settling{owner: owner, token: Token{Seq: r.markers.Add(1)}}
	r.release(rt)
	r.sendMarker(inc, rt.shard, owner, rt.settle.token)
}

// callGone stands in for the number of an ask that nobody waits for.
const callGone = ^uint64(0)

// giveBack ends a refused request that cannot be sent again without overtaking.
func (r *router) giveBack(call uint64) {
	if call == 0 {
		r.counters.drop(DropNotHome, 1)
		return
	}
	r.inner.failAsk(call, ErrMoved)
}

// markerAcked takes the answer to a marker: one of the route's own, or one that
// the core waits for.
func (r *router) markerAcked(inc *incarnation, from view.NodeID, m marker) {
	if m.token.Term != 0 {
		inc.acked(from, m.shard, m.token)
		return
	}
	rt := &r.routes[m.shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.settle.owner == from && rt.settle.token == m.token {
		r.settled(inc, rt)
	}
}

// settled lets go on what waited for refusals; called with the mutex. The core may have
// closed the route meanwhile, when there was nothing to ask a home for.
func (r *router) settled(inc *incarnation, rt *route) {
	r.sortBack(rt)
	r.flow(inc, rt)
	if len(rt.buf) > 0 {
		r.ask(inc, rt)
	}
}

// sortBack ends the wait for refusals: what may go back to the head of the buffer
// does, the rest is given up; called with the mutex.
func (r *router) sortBack(rt *route) {
	rt.settle = settling{}
	again, lost := sortReturned(rt.back, rt.window.Sent())
	rt.back = nil
	for _, it := range lost {
		if it.call != callGone {
			r.giveBack(it.call)
		}
	}
	again = slices.DeleteFunc(slices.Clone(again), func(it item) bool { return it.call == callGone })
	if len(again) == 0 {
		return
	}
	bytes := 0
	for _, it := range again {
		bytes += len(it.frame)
	}
	if len(rt.buf) == 0 {
		rt.since = time.Now()
	}
	// These had room once; the limits hold up new ones.
	r.hold(rt, len(again), bytes)
	rt.buf = append(again, rt.buf...)
}

// peerLost suspends the routes to a node whose connection broke.
func (r *router) peerLost(inc *incarnation, peer view.NodeID) {
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		if rt.settle.owner == peer {
			// No answer will come over what is gone.
			r.settled(inc, rt)
		}
		if rt.open && rt.home == peer {
			rt.suspended = true
			r.release(rt)
		}
		rt.mu.Unlock()
	}
}

// peerUp lets the routes to a node flow again.
func (r *router) peerUp(inc *incarnation, peer view.NodeID) {
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		if rt.suspended && rt.home == peer {
			rt.suspended = false
			if rt.blocked {
				// The report, or the grant, may be lost with the former connection.
				r.report(inc, rt)
			}
			r.flow(inc, rt)
		}
		rt.mu.Unlock()
	}
}

// looksPerAsk is how many looks are between two questions whether a gate may open: an open
// that is lost is rare.
const looksPerAsk = 20

// look finds what waits for others: homes of suspended routes; markers of settling ones,
// and reports of those that are held up, which are sent again. The shell calls it now and
// then.
func (r *router) look(inc *incarnation) (down []view.NodeID) {
	r.looks++
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		if rt.settle.waiting() {
			r.sendMarker(inc, rt.shard, rt.settle.owner, rt.settle.token)
		}
		if len(rt.gates) > 0 && r.looks%looksPerAsk == 0 {
			r.askStopped(inc, rt)
		}
		switch {
		case rt.blocked && rt.open && !rt.suspended && !rt.settle.waiting():
			r.report(inc, rt)
		case rt.suspended && rt.home == inc.self:
			rt.suspended = false
			r.flow(inc, rt)
		case rt.suspended && !slices.Contains(down, rt.home):
			down = append(down, rt.home)
		}
		rt.mu.Unlock()
	}
	return down
}

// closeAll forgets all homes: the incarnation is over. Buffers stay for the next
// one, unless there will be none.
func (r *router) closeAll() {
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		r.inner.hide(rt.shard)
		r.sortBack(rt)
		rt.open, rt.suspended, rt.asked, rt.blocked = false, false, false, false
		rt.home, rt.token = 0, Token{}
		r.release(rt)
		rt.mu.Unlock()
	}
	if r.closed.Load() {
		r.giveUpBuffers()
	}
	r.room.ring()
}

// giveUpBuffers ends what no incarnation will ever take out of the buffers. The
// Registry is closed and nothing serves the type, in whichever order: the later of
// the two calls this, so nothing can come in any more.
func (r *router) giveUpBuffers() {
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		waiting := rt.buf
		rt.buf = nil
		for i := range waiting {
			r.hold(rt, -1, -len(waiting[i].frame))
		}
		rt.mu.Unlock()
		for _, it := range waiting {
			r.counters.drop(DropNodeStopping, 1)
			r.inner.failAsk(it.call, ErrNodeStopping)
		}
	}
}

// reask tells a new incarnation which shards messages wait for.
func (r *router) reask(inc *incarnation) {
	for i := range r.routes {
		rt := &r.routes[i]
		rt.mu.Lock()
		if len(rt.buf) > 0 {
			r.ask(inc, rt)
		}
		rt.mu.Unlock()
	}
}
