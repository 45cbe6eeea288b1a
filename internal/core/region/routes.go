package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// route is one shard as a destination.
type route struct {
	// open: messages are sent to home. Otherwise they are buffered.
	open bool
	// wanted: messages wait for the home. Invariant: not while open.
	wanted bool
	// home and token are those last published; they stay while the route is closed.
	// Invariant: while open, home stands in the view.
	home  gossip.NodeID
	token protocol.Token
	// stamp is that of the newest Homes that was applied, the stamp of move that of the newest
	// Begin: the later of the two counts, in whatever order they come. Neither falls.
	stamp protocol.Token
	// asked is when the home was last asked for.
	asked clock.Instant
	// move is the newest that has begun, nil if none has: few shards ever move.
	move *routeMove
}

// routeMove is a move of a shard, for a node that sends to it.
type routeMove struct {
	// stamp is that of the Begin.
	stamp protocol.Token
	// marker is the owner whose answer to the marker of the move is awaited, zero if none.
	// Invariant: not while the route is open.
	marker gossip.NodeID
}

// begun returns the stamp of the newest move, zero if none has begun.
func (r *route) begun() protocol.Token {
	if r.move == nil {
		return protocol.Token{}
	}
	return r.move.stamp
}

// awaitedOwner returns the owner whose answer to a marker is awaited, zero if none.
func (r *route) awaitedOwner() gossip.NodeID {
	if r.move == nil {
		return 0
	}
	return r.move.marker
}

// needMove returns the newest move for writing.
func (r *route) needMove() *routeMove {
	if r.move == nil {
		r.move = &routeMove{}
	}
	return r.move
}

// routeTable has the shards as destinations of this node's messages.
type routeTable struct {
	*env
	link   *link
	states *stateTable
	outbox *outbox

	list shardTable[route]
	// wanted and marked count the routes that messages wait for, and the markers that are
	// out. Invariant: both exact.
	wanted, marked int
}

// beginMove closes routes for moves, the first step of a handoff:
//
//	open route:     CloseRoute with a marker, on the connection that carried all
//	                earlier messages; BeginAck when the owner has answered it
//	marker out:     the marker again under the new move: nothing was sent since
//	anything else:  BeginAck immediately: no message is in flight
//	home departed:  counts as the marker's answer
//
// Without the marker, a message of ours that is still in a socket to the old owner
// could arrive after one that waits here and goes to the new home (G3).
//
// A Begin from before the newest Homes belongs to a move that has ended. It gets no
// answer, and its sender waits for none.
func (rs *routeTable) beginMove(from gossip.NodeID, m *protocol.Begin) {
	for _, st := range m.Shards {
		if !rs.inRange(from, st.Shard) {
			continue
		}
		r := rs.list.entryOf(st.Shard)
		if st.Token.Less(r.stamp) || st.Token.Less(r.begun()) {
			rs.traceShard(TraceStaleToken, st.Shard, from, st.Token, "Begin")
			continue
		}
		again := st.Token == r.begun()
		r.needMove().stamp = st.Token
		rs.beginShard(from, st, again)
	}
}

func (rs *routeTable) beginShard(from gossip.NodeID, st protocol.ShardToken, again bool) {
	r := rs.list.entryOf(st.Shard)
	marker := Marker{Owner: r.home, Token: r.begun()}
	switch {
	case r.open:
		rs.arm()
		r.move.marker = r.home
		rs.marked++
		rs.closeRoute(st.Shard, &marker)
	case r.awaitedOwner() != 0 && again:
		// The resend timer repeats the marker.
	case r.awaitedOwner() != 0:
		rs.do(SendMarker{Shard: st.Shard, Marker: marker})
	default:
		rs.confirmBegin(from, st)
	}
}

// confirmBegin reports that this node's messages to the former home of a shard have ended.
func (rs *routeTable) confirmBegin(to gossip.NodeID, st protocol.ShardToken) {
	if assert.Enabled {
		rs.assertBegun(st)
	}
	rs.outbox.begun.addAnswer(to, nil, st)
}

func (rs *routeTable) markerAcked(ev MarkerAcked) {
	for _, st := range ev.Shards {
		if !rs.list.hasShard(st.Shard) {
			continue
		}
		if r := rs.list.entryOf(st.Shard); r.awaitedOwner() == ev.From && ev.From != 0 && r.begun() == st.Token {
			rs.unmark(r)
			rs.confirmBegin(rs.link.node, st)
		}
	}
}

func (rs *routeTable) resendMarkers() {
	if rs.marked == 0 {
		return
	}
	for id, r := range rs.list.usedShards() {
		if owner := r.awaitedOwner(); owner != 0 {
			rs.do(SendMarker{Shard: id, Marker: Marker{Owner: owner, Token: r.begun()}})
		}
	}
}

// applyHomes applies the homes that a coordinator publishes. A home outside our view has left
// since. Newer stamps win over higher tokens: a coordinator that has just taken
// office may serve a record that its census then refutes.
func (rs *routeTable) applyHomes(m *protocol.Homes, runs func(protocol.ShardID, protocol.Token) bool) {
	for _, h := range m.Homes {
		if !rs.list.hasShard(h.Shard) {
			continue
		}
		r := rs.list.entryOf(h.Shard)
		switch {
		case m.Stamp().Less(r.stamp) || !r.begun().Less(m.Stamp()), m.Stamp() == r.stamp && h.Token.Less(r.token):
			rs.traceShard(TraceStaleToken, h.Shard, h.Node, h.Token, "Homes")
		case rs.view.Member(h.Node) == nil:
		case h.Node == rs.cfg.Self && !runs(h.Shard, h.Token):
			// Published before the census was through, or about to open of itself.
		default:
			r.stamp = r.stamp.Max(m.Stamp())
			rs.openRoute(h)
		}
	}
}

// openOwn opens the route to a shard that runs here under a token, before its home is
// published. order is the stamp of the newest order to host it.
func (rs *routeTable) openOwn(s protocol.ShardID, token, order protocol.Token) {
	r := rs.list.entryOf(s)
	if r.begun().Less(order) && rs.view.Member(rs.cfg.Self) != nil {
		r.stamp = r.stamp.Max(order)
		rs.openRoute(protocol.Home{Shard: s, Node: rs.cfg.Self, Token: token})
	}
}

// closeOwn closes the route to a shard that no longer runs here.
func (rs *routeTable) closeOwn(s protocol.ShardID) {
	if r := rs.list.entryOf(s); r.open && r.home == rs.cfg.Self {
		rs.closeRoute(s, nil)
	}
}

func (rs *routeTable) openRoute(h protocol.Home) {
	r := rs.list.entryOf(h.Shard)
	rs.unwant(r)
	rs.unmark(r)
	if r.open && r.home == h.Node && r.token == h.Token {
		return
	}
	r.open, r.home, r.token = true, h.Node, h.Token
	rs.states.dropState(h.Shard, h.Node, h.Token)
	rs.traceShard(TraceOpened, h.Shard, h.Node, h.Token, "")
	rs.do(OpenRoute{Shard: h.Shard, Home: h.Node, Token: h.Token})
}

func (rs *routeTable) closeRoute(s protocol.ShardID, m *Marker) {
	r := rs.list.entryOf(s)
	r.open = false
	rs.traceShard(TraceClosed, s, r.home, r.begun(), "")
	rs.do(CloseRoute{Shard: s, Marker: m})
}

func (rs *routeTable) want(r *route) {
	if !r.wanted {
		rs.arm()
		r.wanted = true
		rs.wanted++
	}
}

func (rs *routeTable) unwant(r *route) {
	if r.wanted {
		r.wanted = false
		rs.wanted--
	}
}

func (rs *routeTable) unmark(r *route) {
	if r.awaitedOwner() != 0 {
		r.move.marker = 0
		rs.marked--
	}
}

// needHome asks for homes immediately, unless it did so a moment ago: a route that
// opens and is refused again and again must not cause a message storm.
func (rs *routeTable) needHome(shards []protocol.ShardID) {
	for _, s := range shards {
		if !rs.list.hasShard(s) || rs.list.entryOf(s).open {
			continue
		}
		r := rs.list.entryOf(s)
		rs.want(r)
		if r.asked == 0 || rs.now.Sub(r.asked) >= rs.cfg.Retry {
			rs.requestHome(s)
		}
	}
}

func (rs *routeTable) requestHome(s protocol.ShardID) {
	if rs.link.node != 0 {
		rs.list.entryOf(s).asked = rs.now
		rs.outbox.needs = append(rs.outbox.needs, s)
	}
}

// repeatOverdue repeats overdue requests for wanted homes; repeatAll requests all of them
// immediately.
func (rs *routeTable) repeatOverdue() {
	for id, r := range rs.list.usedShards() {
		if r.wanted && rs.now.Sub(r.asked) >= rs.cfg.Resend/2 {
			rs.requestHome(id)
		}
	}
}

func (rs *routeTable) repeatAll() {
	if rs.wanted == 0 {
		return
	}
	for id, r := range rs.list.usedShards() {
		if r.wanted {
			rs.requestHome(id)
		}
	}
}

// misrouted closes a route whose home has refused a message. Returned messages
// find it closed, and raise NeedHome.
func (rs *routeTable) misrouted(ev Misrouted) {
	if !rs.list.hasShard(ev.Shard) {
		return
	}
	if r := rs.list.entryOf(ev.Shard); r.open && r.token == ev.Token {
		rs.closeRoute(ev.Shard, nil)
	}
}

// dropGone closes the routes to members that have left the view. Their departure
// counts as the answer to their markers: messages sent to them are lost, and
// can overtake none.
func (rs *routeTable) dropGone() {
	for id, r := range rs.list.usedShards() {
		if r.open && rs.view.Member(r.home) == nil {
			rs.closeRoute(id, nil)
			// From now on the request is for another home, so it need not wait its turn.
			r.asked = 0
		}
		if owner := r.awaitedOwner(); owner != 0 && rs.view.Member(owner) == nil {
			rs.unmark(r)
			rs.confirmBegin(rs.link.node, protocol.ShardToken{Shard: id, Token: r.begun()})
		}
	}
}
