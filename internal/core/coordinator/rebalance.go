package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// canMove reports whether moves may begin at all. Out of office no census is done.
func (c *Core) canMove() bool { return c.census.done && c.lease }

// rebalance asks the strategy for moves and begins them. It does nothing while
// no shard may be placed: a shard stopped then would stay stopped.
func (c *Core) rebalance() {
	if !c.canMove() || c.foreignHosts() {
		return
	}
	st := c.state()
	for _, id := range c.cfg.Strategy.Rebalance(st) {
		if int(id) < len(c.shards) {
			c.startMove(st, id)
		}
	}
}

// unsettled returns why shards must not be moved now, "" if they may.
func (c *Core) unsettled() string {
	version, first := "", true
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if !m.HasRole(c.cfg.Role) {
			continue
		}
		switch p := c.peers[m.ID]; {
		case m.Status == gossip.Joining:
			return "a member is joining"
		case c.isSilent(m.ID):
			return "a member is silent"
		case p == nil || !p.registered || !p.hosts:
		case first:
			version, first = m.AppVersion, false
		case m.AppVersion != version:
			return "versions are mixed"
		}
	}
	return ""
}

// leaving reports whether a member must lose its shards. When the cluster has
// yielded to another cluster, all members must, and no shard is placed any longer.
func (c *Core) leaving(n gossip.NodeID) bool {
	m, p := c.view.Member(n), c.peers[n]
	return c.view.Yields() != nil || m != nil && m.Status == gossip.Leaving || p != nil && p.draining
}

// drainRequest takes all shards from a member, immediately and in bulk. It answers each
// repeated request with the progress.
func (c *Core) drainRequest(from gossip.NodeID) {
	p := c.peer(from)
	if !p.draining {
		p.draining = true
		c.trace(TraceDrain, from, c.termToken(), "")
	}
	p.told = false
	c.sound()
}

// sound asks the members that have not yet registered: those that do not run
// the type answer only when asked. Drain is repeated, and so is this request.
func (c *Core) sound() {
	if !c.census.done {
		return
	}
	for i := range c.view.Members {
		if m := &c.view.Members[i]; m.Status == gossip.Up && m.HasRole(c.cfg.Role) && c.unsaid(m.ID) {
			c.sendCensus(m.ID, false)
		}
	}
}

// unsaid reports whether a member has neither registered nor been refused.
func (c *Core) unsaid(n gossip.NodeID) bool {
	p := c.peers[n]
	return p == nil || !p.registered && p.refused == (protocol.Conflict{})
}

// tellDrained answers the draining members that cannot be relieved of more shards.
// It runs after relieve, which has begun all moves that are possible.
func (c *Core) tellDrained() {
	if !c.canMove() {
		return
	}
	for i := range c.view.Members {
		n := c.view.Members[i].ID
		p := c.peers[n]
		if p == nil || !p.draining || p.told {
			continue
		}
		left, going := c.tenants(n)
		if going || left > 0 && p.registered && c.elsewhere() {
			continue
		}
		p.told = true
		c.trace(TraceDrained, n, c.termToken(), "")
		c.send(n, &protocol.Drained{Head: c.head(), Left: left})
	}
}

// tenants counts the shards that are hosted at a member, and reports whether any
// is on its way there or away. A state that waits there counts, too. A shard that the
// member handed off is on its way until its next home is on record: if this coordinator
// were replaced earlier, only the former home could report where the state went.
func (c *Core) tenants(n gossip.NodeID) (left uint32, going bool) {
	for i := range c.shards {
		switch s := &c.shards[i]; {
		case s.target == n, s.from != 0 && s.prefer == n, s.phase == writing && s.from == n:
			going = true
		case s.home != n:
		case s.phase == hosted:
			left++
		default:
			going = true
		}
	}
	return left, going
}

// elsewhere reports whether any region can take shards, or may be able to soon: a
// silent one, or a member that is joining or has not registered yet. Such a member
// either becomes ready or leaves the view, so the wait ends; and a draining member
// has a time-out of its own.
func (c *Core) elsewhere() bool {
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if !m.HasRole(c.cfg.Role) || c.leaving(m.ID) {
			continue
		}
		if p := c.peers[m.ID]; c.unsaid(m.ID) || p.registered && p.hosts {
			return true
		}
	}
	return false
}

// relieve begins the moves off leaving members.
func (c *Core) relieve() {
	if !c.canMove() || !c.anyLeaving() {
		return
	}
	var st *strategy.State
	for i := range c.shards {
		s := &c.shards[i]
		if s.phase != hosted || !c.leaving(s.home) {
			continue
		}
		if st == nil {
			st = c.state()
		}
		if st.Region(s.home) == nil {
			// Refused for its settings: its shards cannot be moved, those of other members can.
			continue
		}
		if !c.startMove(st, protocol.ShardID(i)) {
			return
		}
	}
}

func (c *Core) anyLeaving() bool {
	for i := range c.view.Members {
		if c.leaving(c.view.Members[i].ID) {
			return true
		}
	}
	return false
}
