package sharding

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// This file passes events to routes: orders of the shell, and frames that come back over the
// connections. Package route says why the order holds.

// onRoute performs an event of a route, and what it makes due.
func (r *router) onRoute(inc *incarnation, rt *shardRoute, event func(*route.Route[message])) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	event(&rt.core)
	r.carryOut(inc, rt)
}

// onRoutes performs an event of each route, and what it makes due.
func (r *router) onRoutes(inc *incarnation, event func(*route.Route[message])) {
	for i := range r.routes {
		r.onRoute(inc, &r.routes[i], event)
	}
}

// closeRoute closes a route. With an owner, a marker with token goes down the
// connection to it behind everything that was sent there.
func (r *router) closeRoute(inc *incarnation, shard ShardID, owner gossip.NodeID, token Token) {
	r.onRoute(inc, &r.routes[shard], func(c *route.Route[message]) { c.Close(owner, token) })
}

// resendMarker sends the marker of a closed route again.
func (r *router) resendMarker(inc *incarnation, shard ShardID, owner gossip.NodeID, token Token) {
	r.onRoute(inc, &r.routes[shard], func(c *route.Route[message]) { c.Mark(owner, token) })
}

// openRoute opens a route, or turns it to another home, and lets the buffer leave.
func (r *router) openRoute(inc *incarnation, shard ShardID, home gossip.NodeID, token Token) {
	rt := &r.routes[shard]
	r.onRoute(inc, rt, func(c *route.Route[message]) {
		if c.Open(home, token, home == inc.self) && inc.observer != nil {
			inc.observer.HomeResolved(r.name, time.Since(rt.since))
		}
	})
}

// wantHome makes the shell ask for a shard's home if it is not known.
func (r *router) wantHome(inc *incarnation, shard ShardID) {
	r.onRoute(inc, &r.routes[shard], (*route.Route[message]).Want)
}

// refused takes a request back that this node sent to the wrong home.
func (r *router) refused(inc *incarnation, from gossip.NodeID, q *frames.Request, frame []byte) {
	r.onRoute(inc, &r.routes[q.Shard], func(c *route.Route[message]) {
		expected := c.Expects(from, q.Token, q.Number)
		switch {
		case q.Reliable != nil:
			r.returned(q)
			if expected {
				c.Refused(from, q.Number, item{Placeholder: true})
			}
		case expected:
			c.Refused(from, q.Number, r.returnedItem(q, frame))
		default:
			r.giveBack(q.Call)
		}
	})
}

// returnedItem returns the item of a refused request, which may be sent again.
func (r *router) returnedItem(q *frames.Request, frame []byte) item {
	it := newItem(message{frame: slices.Clone(frame), call: q.Call}, "", false)
	if q.Call != 0 {
		it.Placeholder = !r.inner.move(q.Call, 0)
		if q.Left != 0 {
			it.Msg.expires = time.Now().Add(q.Left)
		}
	}
	return it
}

// returned lets the producer of a reliable message send it again: it was refused because its
// shard does not run there. Its place in the order is kept by a placeholder.
func (r *router) returned(q *frames.Request) {
	if stamp, err := reliable.ParseStamp(q.Reliable); err == nil {
		r.tellOne(stamp.Producer, reliable.Refused{Shard: q.Shard, Seq: stamp.Seq, Try: stamp.Try})
	}
}

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
func (r *router) markerAcked(inc *incarnation, from gossip.NodeID, m frames.Marker) {
	if m.Token.Term != 0 {
		inc.acked(from, m.Shard, m.Token)
		return
	}
	r.onRoute(inc, &r.routes[m.Shard], func(c *route.Route[message]) { c.MarkerAcked(from, m.Token.Seq) })
}

// peerLost suspends the routes to a node whose connection broke.
func (r *router) peerLost(inc *incarnation, peer gossip.NodeID) {
	r.onRoutes(inc, func(c *route.Route[message]) { c.PeerLost(peer) })
}

// peerUp lets the routes to a node flow again.
func (r *router) peerUp(inc *incarnation, peer gossip.NodeID) {
	r.onRoutes(inc, func(c *route.Route[message]) { c.PeerUp(peer) })
}

// looksPerAsk is how many looks are between two questions whether a gate may open: an open
// that is lost is rare.
const looksPerAsk = 20

// look returns the homes of suspended routes, and repeats frames that may be lost: markers,
// reports and questions about gates. The shell calls it now and then.
func (r *router) look(inc *incarnation) (down []gossip.NodeID) {
	r.looks++
	r.onRoutes(inc, func(c *route.Route[message]) {
		if home := c.Look(r.looks%looksPerAsk == 0); home != 0 && !slices.Contains(down, home) {
			down = append(down, home)
		}
	})
	return down
}

// closeAll forgets all homes: the incarnation is over. Buffers stay for the next
// one, unless there will be none.
func (r *router) closeAll() {
	r.onRoutes(nil, (*route.Route[message]).Reset)
	if r.closed.Load() {
		r.giveUpBuffers()
	}
	r.room.Broadcast()
}

// giveUpBuffers ends what no incarnation will ever take out of the buffers. The
// Registry is closed and nothing serves the type, in whichever order: the later of
// the two calls this, so nothing can come in any more.
func (r *router) giveUpBuffers() {
	var waiting []message
	r.onRoutes(nil, func(c *route.Route[message]) {
		c.Filter(func(it *item) bool { waiting = append(waiting, it.Msg); return true })
	})
	for i := range waiting {
		r.counters.drop(DropNodeStopping, 1)
		r.inner.failAsk(waiting[i].call, ErrNodeStopping)
	}
}

// reask tells a new incarnation which shards messages wait for.
func (r *router) reask(inc *incarnation) { r.onRoutes(inc, (*route.Route[message]).Reask) }
