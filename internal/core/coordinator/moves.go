package coordinator

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Handoff, for each shard of a batch:
//
//	closing:   Begin to every region and proxy, and to members that may be one; each
//	           closes its route, and answers when the owner has confirmed its marker
//	stopping:  all have answered or left: HandOff to the owner
//	free:      Stopped came: choose (the home named before, if it still can), write,
//	           HostShards, and Homes to all regions and proxies, which opens the routes
//
// Each phase has its own time-out. If Begin times out, the move is cancelled: no entity was
// stopped, and Homes under a later stamp opens the routes again. If HandOff times out, the
// coordinator asks the owner whether it still serves the shard (HostShards under the old
// token). If hosted, routes open again; if Stopped, the move continues. The question
// itself has no time-out: the outcome stays open until the owner
// answers or leaves the view.
//
// Stopped counts in every phase, from the shard's present home and at its token or
// above, however late: it is a promise, not a reply. A Stopped from another node, or
// below that token, concerns an earlier allocation and changes nothing (akka.net #8146 freed
// the new home on one). The coordinator acknowledges every Stopped with StoppedAck.
//
// Rejected: one timer over both phases and a worker per shard that receives the
// answer, as in Akka. An answer to a dead worker left shards stopped that the
// coordinator took for hosted (akka.net #7500).

// stopGrace is the time beyond StopTimeout for an owner's report to arrive.
const stopGrace = time.Second

// startMove begins the move of a hosted shard if there is a better place.
func (c *Core) startMove(st *strategy.State, id protocol.ShardID) bool {
	s := &c.shards[id]
	owner := st.Region(s.home)
	if owner == nil || s.phase != hosted {
		return false
	}
	owner.Shards = slices.DeleteFunc(owner.Shards, func(x protocol.ShardID) bool { return x == id })
	target := c.ask(st, id)
	if target == 0 || target == s.home {
		owner.Shards = append(owner.Shards, id)
		return false
	}
	to := st.Region(target)
	to.Shards = append(to.Shards, id)
	c.beginMove(id, target)
	return true
}

// beginMove closes the routes to a hosted shard.
func (c *Core) beginMove(id protocol.ShardID, target gossip.NodeID) {
	s := &c.shards[id]
	c.set(s, closing)
	s.move, s.target, s.sent = c.next(), target, c.now
	s.deadline = c.now.Add(c.cfg.BeginTimeout)
	s.closers = c.routers()
	c.traceShard(TraceMove, id, target, s.move, "")
	for _, n := range s.closers {
		c.outbox.begins.add(n, id)
	}
}

func (c *Core) beginAck(from gossip.NodeID, shards []protocol.ShardToken) {
	var snap snapshot
	for _, st := range shards {
		if int(st.Shard) >= len(c.shards) {
			continue
		}
		if s := &c.shards[st.Shard]; s.phase == closing && s.move == st.Token {
			s.closers = without(s.closers, from)
			c.closed(&snap, st.Shard)
		}
	}
}

// closed orders the HandOff when the last route is closed. If the new home has left
// meanwhile or must lose its shards, closed names another home or cancels the move.
func (c *Core) closed(snap *snapshot, id protocol.ShardID) {
	s := &c.shards[id]
	if s.phase != closing || len(s.closers) > 0 {
		return
	}
	if c.leaving(s.target) || c.view.Member(s.target) == nil {
		if c.retarget(snap, id); s.target == 0 {
			c.cancel(id)
			return
		}
	}
	c.handOff(id)
}

// retarget names another new home for a move in progress. Zero stands for no home: a
// former home that has begun to stop then keeps the state, and may get the shard back.
func (c *Core) retarget(snap *snapshot, id protocol.ShardID) {
	s, st := &c.shards[id], snap.of(c)
	was := s.place()
	if s.target = c.ask(st, id); s.target == s.home {
		s.target = 0
	}
	snap.placed(id, was, s.place())
	c.traceShard(TraceRetarget, id, s.target, s.move, "")
}

// turnLost names another home for a stopping shard if the home that its state was to
// reach has left.
func (c *Core) turnLost(snap *snapshot, id protocol.ShardID) {
	if s := &c.shards[id]; s.phase == stopping && s.target != 0 && c.view.Member(s.target) == nil {
		c.retarget(snap, id)
		c.turn(id)
	}
}

// turn orders the owner to send the state to a home named after the order to stop.
// If the shard has already stopped, the owner keeps the state and stops it again.
// Only an answer to this order counts; otherwise the state might be left at a node that
// the coordinator does not ask.
func (c *Core) turn(id protocol.ShardID) {
	c.shards[id].turned = c.next().Seq
	c.handOff(id)
}

func (c *Core) handOff(id protocol.ShardID) {
	s := &c.shards[id]
	c.set(s, stopping)
	s.sent, s.deadline = c.now, c.now.Add(c.cfg.StopTimeout+stopGrace)
	c.traceShard(TraceHandOff, id, s.home, s.token, "")
	c.outbox.handoffs.add(s.home, id)
}

// cancel calls off a move that has exceeded its time-out.
func (c *Core) cancel(id protocol.ShardID) {
	s := &c.shards[id]
	stamp := c.next()
	c.traceShard(TraceCancel, id, s.home, s.move, "in phase "+s.phase.String())
	if s.phase == closing {
		c.hosted(id)
		return
	}
	s.asked = stamp.Seq
	c.set(s, asking)
	s.sent = c.now
	c.outbox.hosts.add(s.home, id)
}

// stopped handles Stopped promises: those of present homes free their shards.
func (c *Core) stopped(from gossip.NodeID, m *protocol.Stopped) {
	for _, st := range m.Shards {
		if int(st.Shard) >= len(c.shards) {
			continue
		}
		c.outbox.acks.add(from, st)
		c.strays = slices.DeleteFunc(c.strays, func(x stray) bool {
			return x.node == from && x.shard == st.Shard && !st.Token.Less(x.token)
		})
		if !c.census.done {
			c.unserve(claim{node: from, shard: st.Shard, token: st.Token})
			continue
		}
		c.stoppedAt(from, m, st)
	}
}

func (c *Core) stoppedAt(from gossip.NodeID, m *protocol.Stopped, st protocol.ShardToken) {
	s := &c.shards[st.Shard]
	if s.phase == free {
		return
	}
	if s.phase == stopping && s.turned != 0 && (m.Term != c.term || m.Seq < s.turned) {
		c.traceShard(TraceStale, st.Shard, from, st.Token, "Stopped before the move was turned to another home")
		return
	}
	if s.home != from || st.Token.Less(s.token) {
		c.traceShard(TraceStale, st.Shard, from, st.Token, "Stopped of an earlier allocation")
		if !c.cfg.Mutant.Is("ShardStopped matched without token") {
			return
		}
	}
	c.traceShard(TraceStopped, st.Shard, from, st.Token, "in phase "+s.phase.String())
	inOrder, target := s.phase == stopping || s.phase == asking, s.target
	c.unhome(s)
	s.prefer, s.known = target, true
	if inOrder {
		s.from = from
	}
}

// stray is a shard that a node claims although another node has it under a higher
// token. The coordinator repeats its order to stop until the node has confirmed it.
type stray struct {
	node  gossip.NodeID
	shard protocol.ShardID
	token protocol.Token
}

func (c *Core) sendStray(st stray, probe bool) {
	m := &protocol.HandOff{Head: c.head(), Within: c.cfg.StopTimeout, Shards: []protocol.HandOffOrder{
		{Shard: st.shard, Token: st.token, Move: protocol.Token{Term: c.term, Seq: c.seq}},
	}}
	m.Probe = probe
	c.send(st.node, m)
}
