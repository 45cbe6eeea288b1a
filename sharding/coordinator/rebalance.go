package coordinator

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// canMove reports whether moves may begin at all.
func (c *Core) canMove() bool { return c.term != 0 && c.census.done && c.lease }

// rebalance has the strategy look at the balance, and begins what it wants.
func (c *Core) rebalance() {
	if !c.canMove() {
		return
	}
	st := c.state()
	for _, id := range c.cfg.Strategy.Rebalance(st) {
		if int(id) < len(c.shards) {
			c.startMove(st, id)
		}
	}
}

// unsettled says why this is no good time to move shards.
func (c *Core) unsettled() string {
	version, first := "", true
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if !m.HasRole(c.cfg.Role) {
			continue
		}
		switch p := c.peers[m.ID]; {
		case m.Status == view.Joining:
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

// leaving reports whether a member is to lose its shards.
func (c *Core) leaving(n view.NodeID) bool {
	m, p := c.view.Member(n), c.peers[n]
	return m != nil && m.Status == view.Leaving || p != nil && p.draining
}

// drainRequest takes all shards from a member, at once and in bulk. Asked again,
// it says whether that is done.
func (c *Core) drainRequest(from view.NodeID) {
	p := c.peer(from)
	if !p.draining {
		p.draining, c.dirty = true, true
		c.trace(TraceDrain, from, c.termToken(), "")
	}
	if !c.census.done {
		return
	}
	// What can move has to begin first: then what is left is left for good.
	c.relieve()
	left, going := uint32(0), false
	for i := range c.shards {
		s := &c.shards[i]
		if s.home != from {
			continue
		}
		if s.phase == hosted {
			left++
		} else {
			going = true
		}
	}
	if going || left > 0 && c.elsewhere() {
		return
	}
	c.trace(TraceDrained, from, c.termToken(), "")
	c.send(from, &protocol.Drained{Head: c.head(), Left: left})
}

// elsewhere reports whether any region can take shards.
func (c *Core) elsewhere() bool {
	st := c.state()
	for i := range st.Regions {
		if st.Regions[i].Eligible() {
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
