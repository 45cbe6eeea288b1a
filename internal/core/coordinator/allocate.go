package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Allocation order.
//
//	choose:      the strategy names a region; the shard gets the next token
//	Write:       the record, at majority, under our fence; many shards in one
//	WriteDone:   HostShards to the region, again until answered
//	ShardsHosted: Homes to the askers; to all regions and proxies if the shard had a home
//
// Nothing waits for a timer: a new shard costs one majority write and one round
// trip, and its askers get the answer in the step in which ShardsHosted comes in.
//
// A write of unknown outcome is retried with the same records. The retry is idempotent,
// since a record is only a permission to
// host under a token that exists once. If the home leaves the view meanwhile, the shard
// gets a new token, and the old record loses against that token wherever they meet.
//
// Rejected: to send HostShards beside the write. That saves the round trip of the
// write, but a coordinator that is cut off in between leaves a host that no read
// shows. The census finds it, but must not be the only line of defence.

// getHome replies with the homes on record, and has shards allocated that have none.
func (t *table) getHome(from gossip.NodeID, shards []protocol.ShardID) {
	for _, id := range shards {
		if int(id) >= len(t.shards) {
			continue
		}
		s := &t.shards[id]
		if s.served() {
			t.outbox.homes.addItem(from, id)
			continue
		}
		s.addWaiter(from)
		if s.phase == free {
			t.requested = append(t.requested, id)
		}
	}
}

// placeFree gives a home to every free shard that wants one. If only requests for homes have
// come since the last time, it looks at their shards alone: all others wait as before. A pass
// over all shards for each request would make a cold start quadratic.
func (t *table) placeFree() {
	if !t.dirty && len(t.requested) == 0 || !t.surveyed || !t.lease {
		return
	}
	all, requested := t.dirty, t.requested
	t.dirty, t.requested = false, nil
	if t.members.foreignHosts() {
		t.traceEvent(TraceNoRegion, 0, t.termToken(), "a node hosts shards under other settings")
		return
	}
	p := placement{table: t}
	if !all {
		slices.Sort(requested)
		for _, id := range slices.Compact(requested) {
			p.placeShard(id)
		}
	} else {
		t.retryStart = 0
		for i := range t.shards {
			p.placeShard(protocol.ShardID(i))
		}
	}
	if p.counted {
		t.chooser.keepCounts(p.st)
	}
}

// placement places free shards in one step. st is what the strategy sees, nil before the first
// shard, with counts once counted is set.
type placement struct {
	*table
	st      *strategy.State
	counted bool
	// full: there is no region for shards whose state waits nowhere.
	full bool
}

// placeShard gives a home to a shard if it is free and wants one.
func (p *placement) placeShard(id protocol.ShardID) {
	s := &p.shards[id]
	if s.phase != free || !s.known && len(s.waitOf().waiters) == 0 || p.full && s.waitOf().from == 0 || p.delaysStart(s) {
		return
	}
	if p.st == nil {
		p.st = p.chooser.places()
	}
	home := p.bearer(p.st, s)
	if home == 0 && !p.full {
		if !p.counted {
			p.chooser.recallCounts(p.st)
			p.counted = true
		}
		home = p.homeFor(p.st, id)
	}
	if home == 0 {
		p.full = true
		return
	}
	p.allocateShard(p.st, id, home)
}

// homeFor finds a region for a shard whose state waits nowhere. It returns zero if there
// is no region for such a shard; then there is none for any other such shard either.
func (t *table) homeFor(st *strategy.State, id protocol.ShardID) gossip.NodeID {
	why := "too few regions"
	if t.chooser.enoughMembers(st) {
		if home := t.chooser.askStrategy(st, id); home != 0 {
			return home
		}
		why = "none is eligible"
	}
	t.traceShard(TraceNoRegion, id, 0, t.shards[id].token, why)
	return 0
}

// bearer returns the region at which the state of a shard waits,
// zero if there is none. That region takes precedence over all other regions, even if it
// must lose its shards by now: its state can only be moved on with a shard that
// lives. If the new home has left or is silent, the former one has kept the state.
func (t *table) bearer(st *strategy.State, s *shard) gossip.NodeID {
	w := s.waitOf()
	if r := st.Region(w.prefer); r != nil && !r.Silent && (!r.Leaving || w.from != 0) {
		return w.prefer
	}
	if r := st.Region(w.from); r != nil && r.Eligible() {
		return w.from
	}
	if r := st.Region(w.prefer); r != nil && w.from != 0 {
		// The former home takes no shards. Wait until the new home responds again or leaves
		// the view.
		return w.prefer
	}
	return 0
}

// allocateShard allocates one shard.
func (t *table) allocateShard(st *strategy.State, id protocol.ShardID, home gossip.NodeID) {
	s := &t.shards[id]
	r := st.Region(home)
	r.Shards = append(r.Shards, id)
	old := s.token
	s.home, s.token = home, t.nextToken()
	if s.wait != nil {
		s.wait.prefer = 0
	}
	if assert.Enabled {
		s.assertAbove(id, old)
	}
	detail := ""
	if s.known {
		s.noteMove(t.now, t.cfg.Calm, t.view.Epoch)
		detail = AllocatedBefore
	}
	t.traceShard(TraceChosen, id, home, s.token, detail)
	t.writes.records = append(t.writes.records, s.allocationRecord(id))
	t.setPhase(s, writing)
}

// orderStart orders the home to start the shard: the record stands at its level.
func (t *table) orderStart(id protocol.ShardID) {
	s := &t.shards[id]
	if assert.Enabled {
		s.assertWritten(id)
	}
	t.awaitStart(id)
}

// awaitStart orders the home to start the shard, and waits until it runs.
func (t *table) awaitStart(id protocol.ShardID) {
	s := &t.shards[id]
	t.setPhase(s, starting)
	s.sent = t.now
	t.outbox.hosts.addItem(s.home, id)
}

// shardsHosted ends allocations, and answers whether a shard is still served.
func (t *table) shardsHosted(from gossip.NodeID, m *protocol.ShardsHosted) {
	for _, st := range m.Shards {
		if int(st.Shard) >= len(t.shards) {
			continue
		}
		s := &t.shards[st.Shard]
		switch {
		case s.home != from || s.token != st.Token:
		case s.phase == starting:
			t.traceShard(TraceHosted, st.Shard, from, s.token, "")
			t.publishHome(st.Shard)
		case s.phase == asking && m.Term == t.term && m.Seq >= s.move.asked:
			t.traceShard(TraceStillServed, st.Shard, from, s.token, "")
			t.publishHome(st.Shard)
		}
	}
}

// publishHome makes the shard's home public.
func (t *table) publishHome(id protocol.ShardID) {
	s := &t.shards[id]
	t.setPhase(s, hosted)
	if s.known {
		t.publish(id)
	}
	t.answerWaiters(id)
	s.wait, s.known = nil, true
}

func (t *table) publish(id protocol.ShardID) {
	for _, n := range t.members.registered() {
		t.outbox.homes.addItem(n, id)
	}
}

// publishServed sends the homes of all served shards to every region and proxy.
func (t *table) publishServed() {
	for _, n := range t.members.registered() {
		t.tellServed(n)
	}
	for i := range t.shards {
		if s := &t.shards[i]; s.served() {
			s.wait = nil
		}
	}
}

func (t *table) answerWaiters(id protocol.ShardID) {
	w := t.shards[id].wait
	if w == nil {
		return
	}
	for _, n := range w.waiters {
		t.outbox.homes.addItem(n, id)
	}
	w.waiters = nil
}

// releaseHome frees a shard. All writes and orders under its token are void.
func (t *table) releaseHome(s *shard) {
	t.setPhase(s, free)
	if t.cfg.Collects {
		s.cameFrom(s.home)
	}
	s.home = 0
	s.moveFrom(0, protocol.Token{})
	t.dirty = true
}
