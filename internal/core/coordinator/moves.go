package coordinator

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
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
func (t *table) startMove(st *strategy.State, id protocol.ShardID) bool {
	s := &t.shards[id]
	owner := st.Region(s.home)
	if owner == nil || s.phase != hosted {
		return false
	}
	owner.Shards = slices.DeleteFunc(owner.Shards, func(x protocol.ShardID) bool { return x == id })
	target := t.chooser.askStrategy(st, id)
	if target == 0 || target == s.home {
		owner.Shards = append(owner.Shards, id)
		return false
	}
	to := st.Region(target)
	to.Shards = append(to.Shards, id)
	t.beginMove(id, target)
	return true
}

// beginMove closes the routes to a hosted shard.
func (t *table) beginMove(id protocol.ShardID, target gossip.NodeID) {
	s := &t.shards[id]
	t.setPhase(s, closing)
	s.sent = t.now
	s.move = &shardMove{stamp: t.nextToken(), target: target, deadline: t.now.Add(t.cfg.BeginTimeout), closers: t.members.routers()}
	t.traceShard(TraceMove, id, target, s.move.stamp, "")
	for _, n := range s.move.closers {
		t.outbox.begins.addItem(n, id)
	}
}

func (t *table) beginAck(from gossip.NodeID, shards []protocol.ShardToken) {
	var snap snapshot
	for _, st := range shards {
		if int(st.Shard) >= len(t.shards) {
			continue
		}
		if s := &t.shards[st.Shard]; s.phase == closing && s.move.stamp == st.Token {
			s.move.closers = without(s.move.closers, from)
			t.closed(&snap, st.Shard)
		}
	}
}

// closed orders the HandOff when the last route is closed. If the new home has left
// meanwhile or must lose its shards, closed names another home or cancels the move.
func (t *table) closed(snap *snapshot, id protocol.ShardID) {
	s := &t.shards[id]
	if s.phase != closing || len(s.move.closers) > 0 {
		return
	}
	if t.members.leaving(s.move.target) || t.view.Member(s.move.target) == nil {
		if t.retarget(snap, id); s.move.target == 0 {
			t.cancel(id)
			return
		}
	}
	t.handOff(id)
}

// retarget names another new home for a move in progress. Zero stands for no home: a
// former home that has begun to stop then keeps the state, and may get the shard back.
func (t *table) retarget(snap *snapshot, id protocol.ShardID) {
	s, st := &t.shards[id], snap.of(&t.chooser)
	was := s.countedAt()
	if s.move.target = t.chooser.askStrategy(st, id); s.move.target == s.home {
		s.move.target = 0
	}
	snap.placed(id, was, s.countedAt())
	t.traceShard(TraceRetarget, id, s.move.target, s.move.stamp, "")
}

// turnLost names another home for a stopping shard if the home that its state was to
// reach has left.
func (t *table) turnLost(snap *snapshot, id protocol.ShardID) {
	if s := &t.shards[id]; s.phase == stopping && s.move.target != 0 && t.view.Member(s.move.target) == nil {
		t.retarget(snap, id)
		t.redirectState(id)
	}
}

// redirectState orders the owner to send the state to a home named after the order to stop.
// If the shard has already stopped, the owner keeps the state and stops it again.
// Only an answer to this order counts; otherwise the state might be left at a node that
// the coordinator does not ask.
func (t *table) redirectState(id protocol.ShardID) {
	t.shards[id].move.turned = t.nextToken().Seq
	t.handOff(id)
}

func (t *table) handOff(id protocol.ShardID) {
	s := &t.shards[id]
	t.setPhase(s, stopping)
	s.sent, s.move.deadline = t.now, t.now.Add(t.cfg.StopTimeout+stopGrace)
	t.traceShard(TraceHandOff, id, s.home, s.token, "")
	t.outbox.handoffs.addItem(s.home, id)
}

// cancel calls off a move that has exceeded its time-out.
func (t *table) cancel(id protocol.ShardID) {
	s := &t.shards[id]
	stamp := t.nextToken()
	t.traceShard(TraceCancel, id, s.home, s.move.stamp, "in phase "+s.phase.String())
	if s.phase == closing {
		t.publishHome(id)
		return
	}
	s.move.asked = stamp.Seq
	t.setPhase(s, asking)
	s.sent = t.now
	t.outbox.hosts.addItem(s.home, id)
}

// onShardStopped handles the promise of a node that a shard has stopped there. Only that of the
// present home, at the present token or above, frees the shard.
func (t *table) onShardStopped(from gossip.NodeID, m *protocol.Stopped, st protocol.ShardToken) {
	s := &t.shards[st.Shard]
	if s.phase == free {
		return
	}
	if s.phase == stopping && s.move.turned != 0 && (m.Term != t.term || m.Seq < s.move.turned) {
		t.traceShard(TraceStale, st.Shard, from, st.Token, "Stopped before the move was turned to another home")
		return
	}
	if s.home != from || st.Token.Less(s.token) {
		t.traceShard(TraceStale, st.Shard, from, st.Token, "Stopped of an earlier allocation")
		return
	}
	if assert.Enabled {
		s.assertNewestState(st)
	}
	t.traceShard(TraceStopped, st.Shard, from, st.Token, "in phase "+s.phase.String())
	inOrder, target := s.phase == stopping || s.phase == asking, s.moveOf().target
	if s.phase == starting {
		t.noteFailedStart(st.Shard)
	}
	t.releaseHome(s)
	s.needWait().prefer, s.known = target, true
	if inOrder {
		s.moveFrom(from, s.token)
	}
}
