package delivery

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/reliable"
	"github.com/peerage-go/peerage/internal/core/route"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Serve begins to serve messages for an incarnation.
func (r *Router) Serve(inc *Incarnation) {
	r.now.Store(inc)
	r.onRoutes(inc, (*route.Route[Message]).Reask)
	r.room.Broadcast()
}

// Close lets no sender wait any longer, for good. Messages in buffers leave as long as an
// incarnation serves the type.
func (r *Router) Close() {
	if !r.closed.Swap(true) {
		close(r.ended)
	}
	if r.now.Load() == nil {
		r.giveUpBuffers()
	}
	for rt := range r.routes.usedRoutes() {
		rt.mu.Lock()
		rt.core.ReleaseCallers()
		r.carryOut(nil, rt)
		rt.mu.Unlock()
	}
	r.room.Broadcast()
	r.producers.forEach(func(l *Producer) { l.room.Broadcast() })
}

// This file passes events to routes: orders of the type's driver, and frames that come back
// over the connections. Package route explains why the order holds.

// onRoute passes an event to a route, and performs the actions that it makes due.
func (r *Router) onRoute(inc *Incarnation, rt *shardRoute, event func(*route.Route[Message])) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	event(&rt.core)
	r.carryOut(inc, rt)
}

// onRoutes passes an event to each route that is in use, and performs the actions that it makes
// due.
func (r *Router) onRoutes(inc *Incarnation, event func(*route.Route[Message])) {
	for rt := range r.routes.usedRoutes() {
		r.onRoute(inc, rt, event)
	}
}

// CloseRoute closes a route. If there is an owner, a marker with the token is sent to it behind
// all earlier messages.
func (r *Router) CloseRoute(inc *Incarnation, shard strategy.ShardID, owner gossip.NodeID, token protocol.Token) {
	r.onRoute(inc, r.routes.routeTo(shard), func(c *route.Route[Message]) { c.Close(owner, token) })
}

// ResendMarker sends the marker of a closed route again.
func (r *Router) ResendMarker(inc *Incarnation, shard strategy.ShardID, owner gossip.NodeID, token protocol.Token) {
	r.onRoute(inc, r.routes.routeTo(shard), func(c *route.Route[Message]) { c.Mark(owner, token) })
}

// OpenRoute opens a route, or turns it to another home, and lets the buffer leave.
func (r *Router) OpenRoute(inc *Incarnation, shard strategy.ShardID, home gossip.NodeID, token protocol.Token) {
	rt := r.routes.routeTo(shard)
	r.onRoute(inc, rt, func(c *route.Route[Message]) {
		took, waits := rt.waited()
		if c.Open(home, token, home == inc.Self) && waits && inc.HomeResolved != nil {
			inc.HomeResolved(took)
		}
	})
}

// WantHome makes the type's driver ask for the home of a shard unless the route has one.
func (r *Router) WantHome(inc *Incarnation, shard strategy.ShardID) {
	r.onRoute(inc, r.routes.routeTo(shard), (*route.Route[Message]).Want)
}

// OnRefused handles a request that this node had sent to the wrong home.
func (r *Router) OnRefused(inc *Incarnation, from gossip.NodeID, q *frames.Request, frame []byte) {
	r.onRoute(inc, r.routes.routeTo(q.Shard), func(c *route.Route[Message]) {
		expected := c.Expects(from, q.Token, q.Number)
		switch {
		case q.Reliable != nil:
			r.producers.noteRefused(q)
			if expected {
				c.Refused(from, q.Number, Item{Placeholder: true})
			}
		case expected:
			c.Refused(from, q.Number, returnedItem(r.local, q, frame))
		default:
			r.GiveBack(q.Call)
		}
	})
}

// returnedItem returns the item of a refused request, which may be sent again.
func returnedItem(local Local, q *frames.Request, frame []byte) Item {
	it := NewItem(Message{Frame: slices.Clone(frame), Call: q.Call}, "", false)
	if q.Call != 0 {
		it.Placeholder = !local.MoveCall(q.Call, 0)
		if q.Left != 0 {
			it.Msg.Expires = time.Now().Add(q.Left)
		}
	}
	return it
}

// noteRefused lets the producer of a reliable message retransmit it, because its shard
// does not run there. A placeholder keeps its place in the order of the route.
func (ps *producers) noteRefused(q *frames.Request) {
	if stamp, err := reliable.ParseStamp(q.Reliable); err == nil {
		ps.noteOne(stamp.Producer, reliable.Refused{Shard: q.Shard, Seq: stamp.Seq, Try: stamp.Try})
	}
}

// OnMarkerAcked handles the acknowledgement of a marker: of the route itself, or of the region
// core.
func (r *Router) OnMarkerAcked(inc *Incarnation, from gossip.NodeID, m frames.Marker) {
	if m.Token.Term != 0 {
		inc.Acked(from, m.Shard, m.Token)
		return
	}
	r.onRoute(inc, r.routes.routeTo(m.Shard), func(c *route.Route[Message]) { c.MarkerAcked(from, m.Token.Seq) })
}

// OnPeerLost suspends the routes to a node whose connection broke, and notifies the producers.
func (r *Router) OnPeerLost(inc *Incarnation, peer gossip.NodeID) {
	r.onRoutes(inc, func(c *route.Route[Message]) { c.PeerLost(peer) })
	r.producers.noteAll(reliable.Lost{Node: peer})
}

// OnPeerUp lets the routes to a node flow again.
func (r *Router) OnPeerUp(inc *Incarnation, peer gossip.NodeID) {
	r.onRoutes(inc, func(c *route.Route[Message]) { c.PeerUp(peer) })
}

// looksPerAsk is the number of looks between two queries whether a gate may open: the loss of
// an opening is rare.
const looksPerAsk = 20

// Look returns the homes of suspended routes, and repeats frames that may be lost: markers,
// reports and queries about gates. Call it at intervals. It costs nothing for routes on which
// nothing waits.
func (r *Router) Look(inc *Incarnation) (down []gossip.NodeID) {
	r.looks++
	r.looking.lookAt(func(rt *shardRoute) {
		if home := rt.core.Look(r.looks%looksPerAsk == 0); home != 0 && !slices.Contains(down, home) {
			down = append(down, home)
		}
		r.carryOut(inc, rt)
	})
	return down
}

// End forgets all homes, because the incarnation is over. Buffers stay for the next one, unless
// the Router is closed.
func (r *Router) End() {
	r.now.Store(nil)
	r.onRoutes(nil, (*route.Route[Message]).Reset)
	if r.closed.Load() {
		r.giveUpBuffers()
	}
	r.room.Broadcast()
	r.producers.noteAll(reliable.Lost{})
}

// giveUpBuffers fails the messages in the buffers. The Router is closed and no incarnation
// serves it. The later of Close and End calls giveUpBuffers, so no further message arrives.
func (r *Router) giveUpBuffers() {
	var waiting []Message
	r.onRoutes(nil, func(c *route.Route[Message]) {
		c.Filter(func(it *Item) bool { waiting = append(waiting, it.Msg); return true })
	})
	for i := range waiting {
		r.counters.Drop(DropNodeStopping, 1)
		r.local.FailAsk(waiting[i].Call, failure.NodeStopping)
	}
}
