package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// routeState is how messages for a shard are handled.
type routeState uint8

const (
	// unknown: buffered; no home is known.
	unknown routeState = iota
	// open: sent to home.
	open
	// closed: buffered; a move is in progress.
	closed
)

// route is one shard as a destination.
type route struct {
	state routeState
	// home and token are those last published; they stay while the route is closed.
	// Invariant: while open, home stands in the view.
	home  gossip.NodeID
	token protocol.Token
	// stamp is that of the newest Homes that was applied, move that of the newest
	// Begin: the later of the two counts, in whatever order they come. Neither falls.
	stamp, move protocol.Token
	// marker is the owner whose answer to the marker of move is awaited, zero if none.
	// Invariant: only while closed.
	marker gossip.NodeID
	// wanted: messages wait for the home. Invariant: not while open.
	wanted bool
	// asked is when the home was last asked for.
	asked clock.Instant
}

// homes applies the homes that a coordinator publishes. A home outside our view has left
// since. Newer stamps win over higher tokens: a coordinator that has just taken
// office may serve a record that its census then refutes.
func (c *Core) homes(m *protocol.Homes) {
	for _, h := range m.Homes {
		if int(h.Shard) >= len(c.routes) {
			continue
		}
		r := &c.routes[h.Shard]
		switch {
		case m.Stamp().Less(r.stamp) || !r.move.Less(m.Stamp()), m.Stamp() == r.stamp && h.Token.Less(r.token):
			c.traceShard(TraceStaleToken, h.Shard, h.Node, h.Token, "Homes")
		case c.view.Member(h.Node) == nil:
		case h.Node == c.cfg.Self && !c.runs(h.Shard, h.Token):
			// Published before the census was through, or about to open of itself.
		default:
			r.stamp = r.stamp.Max(m.Stamp())
			c.openRoute(h)
		}
	}
}

func (c *Core) runs(s protocol.ShardID, t protocol.Token) bool {
	return c.hosts[s].phase == running && c.hosts[s].token == t
}

// openOwn opens the route to a shard that runs here, before its home is published.
func (c *Core) openOwn(s protocol.ShardID) {
	h, r := &c.hosts[s], &c.routes[s]
	if r.move.Less(h.order) && c.view.Member(c.cfg.Self) != nil {
		r.stamp = r.stamp.Max(h.order)
		c.openRoute(protocol.Home{Shard: s, Node: c.cfg.Self, Token: h.token})
	}
}

func (c *Core) openRoute(h protocol.Home) {
	r := &c.routes[h.Shard]
	c.unwant(r)
	c.unmark(r)
	if r.state == open && r.home == h.Node && r.token == h.Token {
		return
	}
	r.state, r.home, r.token = open, h.Node, h.Token
	c.dropState(h.Shard, h.Node, h.Token)
	c.traceShard(TraceOpened, h.Shard, h.Node, h.Token, "")
	c.do(OpenRoute{Shard: h.Shard, Home: h.Node, Token: h.Token})
}

func (c *Core) closeRoute(s protocol.ShardID, m *Marker) {
	r := &c.routes[s]
	r.state = closed
	c.traceShard(TraceClosed, s, r.home, r.move, "")
	c.do(CloseRoute{Shard: s, Marker: m})
}

func (c *Core) want(r *route) {
	if !r.wanted {
		c.arm()
		r.wanted = true
		c.wanted++
	}
}

func (c *Core) unwant(r *route) {
	if r.wanted {
		r.wanted = false
		c.wanted--
	}
}

// needHome asks for homes immediately, unless it did so a moment ago: a route that
// opens and is refused again and again must not cause a message storm.
func (c *Core) needHome(shards []protocol.ShardID) {
	for _, s := range shards {
		if int(s) >= len(c.routes) || c.routes[s].state == open {
			continue
		}
		r := &c.routes[s]
		c.want(r)
		if r.asked == 0 || c.now.Sub(r.asked) >= c.cfg.Retry {
			c.askFor(s)
		}
	}
}

func (c *Core) askFor(s protocol.ShardID) {
	if c.office.node != 0 {
		c.routes[s].asked = c.now
		c.outbox.needs = append(c.outbox.needs, s)
	}
}

// ask repeats overdue requests for wanted homes; askAll requests all of them immediately.
func (c *Core) ask() {
	for i := range c.routes {
		if r := &c.routes[i]; r.wanted && c.now.Sub(r.asked) >= c.cfg.Resend/2 {
			c.askFor(protocol.ShardID(i))
		}
	}
}

func (c *Core) askAll() {
	if c.wanted == 0 {
		return
	}
	for i := range c.routes {
		if c.routes[i].wanted {
			c.askFor(protocol.ShardID(i))
		}
	}
}

// misrouted closes a route whose home has refused a message. Returned messages
// find it closed, and raise NeedHome.
func (c *Core) misrouted(ev Misrouted) {
	if int(ev.Shard) >= len(c.routes) {
		return
	}
	if r := &c.routes[ev.Shard]; r.state == open && r.token == ev.Token {
		c.closeRoute(ev.Shard, nil)
		r.state = unknown
	}
}

// dropGone closes the routes to members that have left the view. Their departure
// counts as the answer to their markers: messages sent to them are lost, and
// can overtake none.
func (c *Core) dropGone() {
	for i := range c.routes {
		id, r := protocol.ShardID(i), &c.routes[i]
		if r.state == open && c.view.Member(r.home) == nil {
			c.closeRoute(id, nil)
			// From now on the request is for another home, so it need not wait its turn.
			r.state, r.asked = unknown, 0
		}
		if r.marker != 0 && c.view.Member(r.marker) == nil {
			c.unmark(r)
			c.outbox.begun.add(c.office.node, nil, protocol.ShardToken{Shard: id, Token: r.move})
		}
	}
}
