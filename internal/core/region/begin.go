package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// begin closes routes for moves, the first step of a handoff:
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
func (c *Core) begin(from gossip.NodeID, m *protocol.Begin) {
	for _, st := range m.Shards {
		if !c.inRange(from, st.Shard) {
			continue
		}
		r := &c.routes[st.Shard]
		if st.Token.Less(r.stamp) || st.Token.Less(r.move) {
			c.traceShard(TraceStaleToken, st.Shard, from, st.Token, "Begin")
			continue
		}
		again := st.Token == r.move
		r.move = st.Token
		c.beginShard(from, st, again)
	}
}

func (c *Core) beginShard(from gossip.NodeID, st protocol.ShardToken, again bool) {
	r := &c.routes[st.Shard]
	marker := Marker{Owner: r.home, Token: r.move}
	switch {
	case r.state == open && c.cfg.Mutant.Is("marker left out of Begin"):
		c.closeRoute(st.Shard, nil)
		c.outbox.begun.add(from, nil, st)
	case r.state == open:
		c.arm()
		r.marker = r.home
		c.marked++
		c.closeRoute(st.Shard, &marker)
	case r.marker != 0 && again:
		// The resend timer repeats the marker.
	case r.marker != 0:
		c.do(SendMarker{Shard: st.Shard, Marker: marker})
	default:
		c.outbox.begun.add(from, nil, st)
	}
}

func (c *Core) unmark(r *route) {
	if r.marker != 0 {
		r.marker = 0
		c.marked--
	}
}

func (c *Core) markerAcked(ev MarkerAcked) {
	for _, st := range ev.Shards {
		if int(st.Shard) >= len(c.routes) {
			continue
		}
		if r := &c.routes[st.Shard]; r.marker == ev.From && r.marker != 0 && r.move == st.Token {
			c.unmark(r)
			c.outbox.begun.add(c.office.node, nil, st)
		}
	}
}

func (c *Core) resendMarkers() {
	if c.marked == 0 {
		return
	}
	for i := range c.routes {
		if r := &c.routes[i]; r.marker != 0 {
			c.do(SendMarker{Shard: protocol.ShardID(i), Marker: Marker{Owner: r.marker, Token: r.move}})
		}
	}
}
