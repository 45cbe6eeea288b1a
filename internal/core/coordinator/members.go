package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// peer is the coordinator's record of a member in this term.
type peer struct {
	// asked: the census has asked it.
	asked bool
	// registered regions and proxies receive homes and moves.
	registered bool
	hosts      bool
	settings   protocol.Settings
	// refused is how its settings differ from ours: it is not registered.
	refused protocol.Conflict
	// messages names those of its messages that have another shape than ours, "" for none.
	messages string
	// listed: the records name it as a region or proxy, so that a successor will find it.
	listed bool
	// foreign: it hosts shards under such settings.
	foreign bool
	// draining members asked to be relieved of their shards.
	draining bool
	// told: the last Drain was answered.
	told bool
	// owed is since when probes have gone unanswered, zero if none is out.
	owed clock.Instant
	// yielded is when the leader was last asked to end a lease (Yield).
	yielded clock.Instant
}

// peer returns the entry of a member and creates it if missing.
func (c *Core) peer(n gossip.NodeID) *peer {
	p := c.peers[n]
	if p == nil {
		p = &peer{}
		c.peers[n] = p
	}
	return p
}

// registered returns the regions and proxies that receive homes, most senior first.
func (c *Core) registered() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		if p := c.peers[n]; p != nil && p.registered {
			out = append(out, n)
		}
	}
	return out
}

// register notes a region or proxy. A new one, or one that has lost its routes,
// receives the homes of all served shards. It also takes part in the moves that are
// closing routes, since it may hold routes of an earlier coordinator. register returns
// false and replies with the difference if the member's settings are not ours.
func (c *Core) register(from gossip.NodeID, hosts bool, settings *protocol.Settings, tellAll bool) bool {
	p := c.peer(from)
	if !c.agrees(from, p, settings) {
		return false
	}
	if p.settings != *settings {
		p.settings, c.dirty = *settings, true
	}
	if !p.registered || p.hosts != hosts {
		p.registered, p.hosts = true, hosts
		tellAll, c.dirty = true, true
		c.noteRegistered(from, hosts)
		c.trace(TraceRegistered, from, c.termToken(), "")
		c.joinMoves(from)
	}
	if tellAll {
		c.tellServed(from)
	}
	return true
}

// agrees refuses a region or proxy that maps ids to shards, or shards to nodes,
// by other settings than ours.
func (c *Core) agrees(from gossip.NodeID, p *peer, settings *protocol.Settings) bool {
	ours := protocol.Settings{Shards: uint32(c.cfg.Shards), Role: c.cfg.Role, ShardOf: c.cfg.ShardOf, Keeps: c.cfg.Keeps}
	conflict := ours.Compare(settings)
	if conflict != p.refused {
		p.refused = conflict
		if conflict != (protocol.Conflict{}) {
			c.trace(TraceRefused, from, c.termToken(), conflict.String())
		}
	}
	if conflict == (protocol.Conflict{}) {
		c.compareMessages(from, p, settings.Messages)
		return true
	}
	p.registered = false
	c.send(from, &protocol.RegisterRefused{Head: c.head(), Conflict: conflict.Swap()})
	return false
}

// compareMessages traces, once, that the messages of a region have another shape than ours: a
// rolling update that adds a field looks so, and it is registered all the same.
func (c *Core) compareMessages(from gossip.NodeID, p *peer, theirs protocol.Shapes) {
	differ := c.cfg.Messages.Compare(theirs)
	if differ != "" && differ != p.messages {
		c.trace(TraceMessages, from, c.termToken(), differ)
	}
	p.messages = differ
}

// foreignHosts reports whether shards run somewhere that were cut by other
// settings than ours. An entity of theirs may belong to any of our shards, so
// nothing new is placed meanwhile: better no home than two.
func (c *Core) foreignHosts() bool {
	for _, p := range c.peers { // order-free: any will do
		if p.foreign {
			return true
		}
	}
	return false
}

func (c *Core) joinMoves(from gossip.NodeID) {
	for i := range c.shards {
		if s := &c.shards[i]; s.phase == closing && !slices.Contains(s.closers, from) {
			s.closers = append(s.closers, from)
			c.outbox.begins.add(from, protocol.ShardID(i))
		}
	}
}

// dropGone handles members that have left the view: their shards become free,
// and the answers that they owed count as received.
func (c *Core) dropGone() {
	gone := func(n gossip.NodeID) bool { return c.view.Member(n) == nil }
	var snap snapshot
	for i := range c.shards {
		id, s := protocol.ShardID(i), &c.shards[i]
		s.waiters = slices.DeleteFunc(s.waiters, gone)
		if s.home != 0 && gone(s.home) {
			c.traceShard(TraceFreed, id, s.home, s.token, "its home left the view")
			c.orphan(s)
		}
		if s.phase == closing {
			s.closers = slices.DeleteFunc(s.closers, gone)
			c.closed(&snap, id)
		}
		c.turnLost(&snap, id)
	}
	c.strays = slices.DeleteFunc(c.strays, func(st stray) bool { return gone(st.node) })
	var left []gossip.NodeID
	for n := range c.peers {
		if gone(n) {
			left = append(left, n)
		}
	}
	slices.Sort(left)
	for _, n := range left {
		delete(c.peers, n)
		c.noteGone(n)
		c.trace(TraceGone, n, c.termToken(), "")
	}
}

// orphan frees a shard whose home has gone. If the shard was stopping there, its state may
// have reached the new home. Then the new home gets the shard and looks for the state.
func (c *Core) orphan(s *shard) {
	from, target := s.home, s.target
	if s.phase != stopping && s.phase != asking || c.view.Member(target) == nil {
		from, target = 0, 0
	}
	c.unhome(s)
	s.from, s.prefer = from, target
}

// answered notes that an order reached the member.
func (c *Core) answered(from gossip.NodeID) {
	if p := c.peer(from); p.owed != 0 {
		p.owed, c.dirty = 0, true
	}
}

// unanswered notes orders to these members as the only ones in flight. It runs at a
// resend, and when no order is in flight. When a member has not answered
// for RemoveAfter, unanswered asks the leader to end one of the two leases (Yield).
func (c *Core) unanswered(nodes []gossip.NodeID) {
	c.owing = len(nodes) > 0
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		p := c.peers[n]
		if p == nil {
			continue
		}
		switch {
		case n == c.cfg.Self || !slices.Contains(nodes, n):
			c.dirty = c.dirty || p.owed != 0
			p.owed = 0
		case p.owed == 0:
			p.owed = c.now
		case c.now.Sub(p.owed) >= c.cfg.RemoveAfter && (p.yielded == 0 || c.now.Sub(p.yielded) >= c.cfg.RemoveAfter):
			p.yielded = c.now
			c.trace(TraceYield, n, c.termToken(), "")
			c.out.Do = append(c.out.Do, Yield{Subject: n})
		}
	}
}

// isSilent reports whether a member gets no shards for now: it is on the Silent
// list, or two probes in a row had no answer.
func (c *Core) isSilent(n gossip.NodeID) bool {
	if n == c.cfg.Self {
		return false
	}
	p := c.peers[n]
	return slices.Contains(c.silent, n) || p != nil && p.owed != 0 && c.now.Sub(p.owed) >= c.cfg.Resend
}
