package coordinator

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
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

// getHome replies with the homes on record, and allocates the shards that have none.
func (c *Core) getHome(from gossip.NodeID, m *protocol.GetHome) {
	if !c.register(from, m.Hosts, &m.Settings, false) {
		return
	}
	for _, id := range m.Shards {
		if int(id) >= len(c.shards) {
			continue
		}
		s := &c.shards[id]
		if s.served() {
			c.outbox.homes.add(from, id)
			continue
		}
		s.addWaiter(from)
		c.dirty = c.dirty || s.phase == free
	}
}

// place gives a home to every free shard that wants one.
func (c *Core) place() {
	if !c.dirty || !c.census.done || !c.lease {
		return
	}
	c.dirty = false
	if c.foreignHosts() {
		c.trace(TraceNoRegion, 0, c.termToken(), "a node hosts shards under other settings")
		return
	}
	var st *strategy.State
	counted, full := false, false
	for i := range c.shards {
		id, s := protocol.ShardID(i), &c.shards[i]
		if s.phase != free || !s.known && len(s.waiters) == 0 || full && s.from == 0 {
			continue
		}
		if st == nil {
			st = c.places()
		}
		home := c.bearer(st, s)
		if home == 0 && !full {
			if !counted {
				c.count(st)
				counted = true
			}
			home = c.homeFor(st, id)
		}
		if home == 0 {
			full = true
			continue
		}
		c.choose(st, id, home)
	}
}

// homeFor finds a region for a shard whose state waits nowhere. It returns zero if there
// is no region for such a shard; then there is none for any other such shard either.
func (c *Core) homeFor(st *strategy.State, id protocol.ShardID) gossip.NodeID {
	why := "too few regions"
	if c.enough(st) {
		if home := c.ask(st, id); home != 0 {
			return home
		}
		why = "none is eligible"
	}
	c.traceShard(TraceNoRegion, id, 0, c.shards[id].token, why)
	return 0
}

// bearer returns the region at which the state of a shard waits,
// zero if there is none. That region takes precedence over all other regions, even if it
// must lose its shards by now: its state can only be moved on with a shard that
// lives. If the new home has left or is silent, the former one has kept the state.
func (c *Core) bearer(st *strategy.State, s *shard) gossip.NodeID {
	if r := st.Region(s.prefer); r != nil && !r.Silent && (!r.Leaving || s.from != 0) {
		return s.prefer
	}
	if r := st.Region(s.from); r != nil && r.Eligible() {
		return s.from
	}
	if r := st.Region(s.prefer); r != nil && s.from != 0 {
		// The former home takes no shards. Wait until the new home responds again or leaves
		// the view.
		return s.prefer
	}
	return 0
}

// enough reports whether the minimum numbers of members are here, or were once.
func (c *Core) enough(st *strategy.State) bool {
	n := 0
	for i := range st.Regions {
		if st.Regions[i].Eligible() {
			n++
		}
	}
	c.settled = c.settled || n >= c.cfg.MinMembers && c.membersUp() >= c.cfg.MinMembersAll
	return c.settled && n > 0
}

// membersUp counts the members of the view that are up, of any role.
func (c *Core) membersUp() (n int) {
	for i := range c.view.Members {
		if c.view.Members[i].Status == gossip.Up {
			n++
		}
	}
	return n
}

// choose allocates one shard.
func (c *Core) choose(st *strategy.State, id protocol.ShardID, home gossip.NodeID) {
	s := &c.shards[id]
	r := st.Region(home)
	r.Shards = append(r.Shards, id)
	s.home, s.token, s.prefer = home, c.next(), 0
	if s.known {
		c.noteMove(s)
	}
	c.traceShard(TraceChosen, id, home, s.token, "")
	c.writes.records = append(c.writes.records, c.recordOf(id))
	if c.cfg.Mutant.Is("HostShard before the ack") {
		c.host(id)
		return
	}
	c.set(s, writing)
}

// ask has the strategy name a region, and validates the answer.
func (c *Core) ask(st *strategy.State, id protocol.ShardID) gossip.NodeID {
	var requester gossip.NodeID
	if w := c.shards[id].waiters; len(w) > 0 {
		requester = w[0]
	}
	home := c.cfg.Strategy.Allocate(st, id, requester)
	if r := st.Region(home); r == nil || !r.Eligible() {
		return strategy.MostSuitable(st)
	}
	return home
}

func (c *Core) recordOf(id protocol.ShardID) protocol.Record {
	s := &c.shards[id]
	return protocol.Record{Shard: id, Home: s.home, Token: s.token, State: protocol.Allocated, From: s.from, Moves: s.moves, Since: s.since}
}

// host orders the home to start the shard: the record stands at its level.
func (c *Core) host(id protocol.ShardID) {
	s := &c.shards[id]
	c.set(s, starting)
	s.sent = c.now
	c.outbox.hosts.add(s.home, id)
}

// shardsHosted ends allocations, and answers whether a shard is still served.
func (c *Core) shardsHosted(from gossip.NodeID, m *protocol.ShardsHosted) {
	for _, st := range m.Shards {
		if int(st.Shard) >= len(c.shards) {
			continue
		}
		s := &c.shards[st.Shard]
		switch {
		case s.home != from || s.token != st.Token:
		case s.phase == starting:
			c.traceShard(TraceHosted, st.Shard, from, s.token, "")
			c.hosted(st.Shard)
		case s.phase == asking && m.Term == c.term && m.Seq >= s.asked:
			c.traceShard(TraceStillServed, st.Shard, from, s.token, "")
			c.hosted(st.Shard)
		}
	}
}

// hosted makes the shard's home public.
func (c *Core) hosted(id protocol.ShardID) {
	s := &c.shards[id]
	c.set(s, hosted)
	s.from = 0
	if s.known {
		c.publish(id)
	}
	c.answerWaiters(id)
	s.known = true
}

func (c *Core) publish(id protocol.ShardID) {
	for _, n := range c.registered() {
		c.outbox.homes.add(n, id)
	}
}

// publishServed sends the homes of all served shards to every region and proxy.
func (c *Core) publishServed() {
	for _, n := range c.registered() {
		c.tellServed(n)
	}
	for i := range c.shards {
		if s := &c.shards[i]; s.served() {
			s.waiters = nil
		}
	}
}

func (c *Core) answerWaiters(id protocol.ShardID) {
	s := &c.shards[id]
	for _, n := range s.waiters {
		c.outbox.homes.add(n, id)
	}
	s.waiters = nil
}

// unhome frees a shard. All writes and orders under its token are void.
func (c *Core) unhome(s *shard) {
	c.set(s, free)
	s.home, s.from = 0, 0
	c.dirty = true
}

// state builds what the strategy sees.
func (c *Core) state() *strategy.State {
	st := c.places()
	c.count(st)
	return st
}

// places returns the candidate regions. A shard that moves to a home chosen before it
// stopped needs no counts. A drain places hundreds of such shards one by one, and
// counting all shards for each was half of its cost.
func (c *Core) places() *strategy.State {
	st := &strategy.State{Shards: len(c.shards), Unsettled: c.unsettled(), Wanted: c.wanted}
	for _, m := range c.view.WithRole(c.cfg.Role) {
		p := c.peers[m.ID]
		if p == nil || !p.registered || !p.hosts {
			continue
		}
		st.Regions = append(st.Regions, strategy.Region{
			Node: m.ID, Name: m.Name, Joined: m.Joined, AppVersion: m.AppVersion,
			Leaving: c.leaving(m.ID), Silent: c.isSilent(m.ID),
			Capacity: max(p.settings.Capacity, 1),
		})
	}
	return st
}

// count adds where the shards are.
func (c *Core) count(st *strategy.State) {
	st.Moving, st.Moved = 0, map[protocol.ShardID]strategy.Moved{}
	index := map[gossip.NodeID]int{}
	for i := range st.Regions {
		st.Regions[i].Shards = nil
		index[st.Regions[i].Node] = i
	}
	for i := range c.shards {
		s := &c.shards[i]
		if s.phase.moves() || s.known && (s.phase == writing || s.phase == starting) {
			st.Moving++
		}
		if m := c.movedLately(s); m.Times > 0 {
			st.Moved[protocol.ShardID(i)] = m
		}
		if at, ok := index[s.place()]; ok {
			st.Regions[at].Shards = append(st.Regions[at].Shards, protocol.ShardID(i))
		}
	}
	for i := range st.Regions {
		slices.SortFunc(st.Regions[i].Shards, func(a, b protocol.ShardID) int {
			return cmp.Or(c.shards[a].token.Compare(c.shards[b].token), cmp.Compare(a, b))
		})
	}
}
