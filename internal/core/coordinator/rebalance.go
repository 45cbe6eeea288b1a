package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// canMove reports whether moves may begin at all. Out of office no census is done.
func (t *table) canMove() bool { return t.surveyed && t.lease }

// rebalance asks the strategy for moves and begins them. It does nothing while
// no shard may be placed: a shard stopped then would stay stopped.
func (t *table) rebalance() {
	if !t.canMove() || t.members.foreignHosts() {
		return
	}
	st := t.chooser.state()
	for _, id := range t.cfg.Strategy.Rebalance(st) {
		if int(id) < len(t.shards) {
			t.startMove(st, id)
		}
	}
}

// tellDrained answers the draining members that cannot be relieved of more shards.
// It runs after relieve, which has begun all moves that are possible.
func (t *table) tellDrained() {
	if !t.canMove() {
		return
	}
	for i := range t.view.Members {
		n := t.view.Members[i].ID
		p := t.members.peers[n]
		if p == nil || !p.draining || p.drainAnswered {
			continue
		}
		left, going := t.tenants(n, p)
		if going || left > 0 && p.registered && t.members.elsewhere() {
			continue
		}
		p.drainAnswered = true
		t.traceEvent(TraceDrained, n, t.termToken(), "")
		t.sendMessage(n, &protocol.Drained{Head: t.head(), Left: left})
	}
}

// tenants counts the shards that are hosted at a member, and reports whether any
// is on its way there or away. A state that waits there counts, too. A shard that the
// member handed off is on its way until its next home is on record: if this coordinator
// were replaced earlier, only the former home could report where the state went. A shard whose next
// home collects its states is on its way until it runs, from wherever it was before, unless no member
// can take it: the former home has all states, and the other holders may go (seed 12004781 of
// TestReplicated).
//
// While any is on its way, the member keeps the number of one of them, and left means nothing: a
// member drains for as many messages as it has shards, and a pass over all shards for each would make
// that quadratic.
func (t *table) tenants(n gossip.NodeID, p *peer) (left uint32, going bool) {
	collects := t.cfg.Collects && t.members.elsewhere()
	for i := range t.shards {
		id := (int(p.going) + i) % len(t.shards)
		s := &t.shards[id]
		if s.isGoing(n, collects) {
			p.going = protocol.ShardID(id)
			return 0, true
		}
		if s.home == n {
			left++
		}
	}
	return left, false
}

// isGoing reports whether a shard is on its way to a member or away, as tenants has it.
func (s *shard) isGoing(n gossip.NodeID, collects bool) bool {
	w := s.waitOf()
	switch {
	case s.move != nil && s.move.target == n, w.from != 0 && w.prefer == n, s.phase == writing && w.from == n:
		return true
	case collects && !s.served() && (slices.Contains(w.were, n) || w.from == n):
		return true
	}
	return s.home == n && s.phase != hosted
}

// relieve begins the moves off leaving members.
func (t *table) relieve() {
	if !t.canMove() || !t.hosted.atLeaving(t.members) {
		return
	}
	var st *strategy.State
	for i := range t.shards {
		s := &t.shards[i]
		if s.phase != hosted || !t.members.leaving(s.home) {
			continue
		}
		if st == nil {
			st = t.chooser.state()
		}
		if st.Region(s.home) == nil {
			// Refused for its settings: its shards cannot be moved, those of other members can.
			continue
		}
		if !t.startMove(st, protocol.ShardID(i)) {
			return
		}
	}
}

// hostedShards counts the shards in phase hosted by their homes. Invariant: it is exact, and has no
// zeros. A home changes in no such phase.
type hostedShards map[gossip.NodeID]int

// countShard adds to the count of the shard's home, if the shard is in phase hosted.
func (h hostedShards) countShard(s *shard, more int) {
	if s.phase != hosted {
		return
	}
	if h[s.home] += more; h[s.home] == 0 {
		delete(h, s.home)
	}
}

// atLeaving reports whether any member that leaves hosts a shard.
func (h hostedShards) atLeaving(ms *members) bool {
	for i := range ms.view.Members {
		if m := &ms.view.Members[i]; ms.memberLeaves(m) && h[m.ID] > 0 {
			return true
		}
	}
	return false
}
