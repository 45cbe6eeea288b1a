package coordinator_test

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

// message is one of a stream from a node to a shard.
type message struct {
	from  gossip.NodeID
	shard protocol.ShardID
	seq   int
}

// pipe is a route as the shell keeps it.
type pipe struct {
	open   bool
	home   gossip.NodeID
	token  protocol.Token
	buffer []message
	needed bool
	// sent counts messages; left is the last one that has left and not come back.
	sent, left int
}

// frame is what goes down a message connection.
type frame struct {
	marker bool
	shard  protocol.ShardID
	// token is the allocation's, or the marker's.
	token protocol.Token
	msg   message
}

// lane is a message connection: frames arrive in order, or not at all.
type lane struct {
	last clock.Instant
	life int
}

func (n *node) tell(s protocol.ShardID) {
	p := n.routes[s]
	p.sent++
	m := message{n.id, s, p.sent}
	n.w.check.sent++
	if p.open && len(p.buffer) == 0 {
		n.forward(p, m)
		return
	}
	p.buffer = append(p.buffer, m)
	n.need(s, p)
}

func (n *node) need(s protocol.ShardID, p *pipe) {
	if !p.needed && !p.open {
		p.needed = true
		n.stepRegion(region.NeedHome{Shards: []protocol.ShardID{s}})
	}
}

func (n *node) forward(p *pipe, m message) {
	p.left = max(p.left, m.seq)
	n.transmit(p.home, frame{shard: m.shard, token: p.token, msg: m})
}

func (n *node) closePipe(e region.CloseRoute) {
	p := n.routes[e.Shard]
	p.open, p.needed = false, false
	if e.Marker != nil {
		n.transmit(e.Marker.Owner, frame{marker: true, shard: e.Shard, token: e.Marker.Token})
	}
	if len(p.buffer) > 0 {
		n.w.at(0, func() { n.need(e.Shard, p) })
	}
}

func (n *node) openPipe(e region.OpenRoute) {
	p := n.routes[e.Shard]
	p.open, p.home, p.token, p.needed = true, e.Home, e.Token, false
	waiting := p.buffer
	p.buffer = nil
	for _, m := range waiting {
		n.forward(p, m)
	}
}

// transmit puts a frame on the message connection to a node.
func (n *node) transmit(to gossip.NodeID, f frame) {
	l := n.lanes[to]
	if l == nil {
		l = &lane{}
		n.lanes[to] = l
	}
	at := n.w.now
	if to != n.id {
		at = max(l.last, n.w.now.Add(n.w.netDelay()))
	}
	l.last = at
	life, dest := l.life, n.w.node(to)
	n.w.at(at.Sub(n.w.now), func() {
		if n.alive && dest.alive && n.lanes[to] == l && l.life == life && !n.w.cut[[2]gossip.NodeID{n.id, to}] {
			dest.arrive(n, f)
		} else if !f.marker {
			n.w.check.drop(f.msg)
		}
	})
}

// dropLanes ends the connections to departed members.
func (n *node) dropLanes(v *gossip.View) {
	for id := range n.lanes {
		if v.Member(id) == nil {
			delete(n.lanes, id)
		}
	}
}

// breakLane loses what is in flight to a peer.
func (n *node) breakLane(to gossip.NodeID) {
	if l := n.lanes[to]; l != nil {
		l.life++
	}
}

func (n *node) arrive(from *node, f frame) {
	if f.marker {
		n.w.at(n.w.netDelay(), func() {
			if !n.w.chance(n.w.plan.drop) && !n.w.cut[[2]gossip.NodeID{n.id, from.id}] {
				from.stepRegion(region.MarkerAcked{From: n.id, Shards: []protocol.ShardToken{{Shard: f.shard, Token: f.token}}})
			}
		})
		return
	}
	if t := n.tenants[f.shard]; t != nil && !t.stopping && t.token == f.token {
		if t.early = append(t.early, f.msg); t.running {
			t.work(n)
		}
		return
	}
	n.w.logf("%d refuses message %d of %d for shard %v under %v", n.id, f.msg.seq, from.id, f.shard, f.token)
	n.w.at(n.w.netDelay(), func() { from.refused(f) })
}

// refused puts a message back if nothing later has left meanwhile.
func (n *node) refused(f frame) {
	if !n.alive {
		n.w.check.drop(f.msg)
		return
	}
	p := n.routes[f.shard]
	n.stepRegion(region.Misrouted{Shard: f.shard, Token: f.token})
	if p.left != f.msg.seq || p.open {
		n.w.check.drop(f.msg)
		return
	}
	p.left--
	at, _ := slices.BinarySearchFunc(p.buffer, f.msg.seq, func(m message, seq int) int { return m.seq - seq })
	p.buffer = slices.Insert(p.buffer, at, f.msg)
	n.need(f.shard, p)
}

// work handles what has come in.
func (t *tenant) work(n *node) {
	for _, m := range t.early {
		n.w.check.processed(n, m)
	}
	t.early = nil
}
