package region

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

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
		r := &rs.list[st.Shard]
		if st.Token.Less(r.stamp) || st.Token.Less(r.move) {
			rs.traceShard(TraceStaleToken, st.Shard, from, st.Token, "Begin")
			continue
		}
		again := st.Token == r.move
		r.move = st.Token
		rs.beginShard(from, st, again)
	}
}

func (rs *routeTable) beginShard(from gossip.NodeID, st protocol.ShardToken, again bool) {
	r := &rs.list[st.Shard]
	marker := Marker{Owner: r.home, Token: r.move}
	switch {
	case r.open:
		rs.arm()
		r.marker = r.home
		rs.marked++
		rs.closeRoute(st.Shard, &marker)
	case r.marker != 0 && again:
		// The resend timer repeats the marker.
	case r.marker != 0:
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
		if int(st.Shard) >= len(rs.list) {
			continue
		}
		if r := &rs.list[st.Shard]; r.marker == ev.From && r.marker != 0 && r.move == st.Token {
			rs.unmark(r)
			rs.confirmBegin(rs.link.node, st)
		}
	}
}

func (rs *routeTable) resendMarkers() {
	if rs.marked == 0 {
		return
	}
	for i := range rs.list {
		if r := &rs.list[i]; r.marker != 0 {
			rs.do(SendMarker{Shard: protocol.ShardID(i), Marker: Marker{Owner: r.marker, Token: r.move}})
		}
	}
}
