package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// waiting reports whether any order is out without an answer.
func (c *Core) waiting() bool {
	return c.open > 0 || len(c.census.pending) > 0 || len(c.strays) > 0
}

func (c *Core) tick() {
	if c.term == 0 {
		return
	}
	if r := c.census.retry; r != 0 && !c.now.Before(r) {
		c.readState()
	}
	c.retryWrites()
	if c.waiting() && !c.now.Before(c.nextResend) {
		c.resend()
	}
	if !c.now.Before(c.nextRebalance) {
		c.nextRebalance = c.now.Add(c.cfg.Rebalance)
		c.dirty = true
		c.flushSets()
		c.rebalance()
	}
}

// resend ends the phases that have timed out, and retransmits every order that has
// been unanswered for long enough.
func (c *Core) resend() {
	c.nextResend = c.now.Add(c.cfg.Resend)
	c.outbox.probe = true
	for i := range c.shards {
		id, s := protocol.ShardID(i), &c.shards[i]
		if (s.phase == closing || s.phase == stopping) && !c.now.Before(s.deadline) {
			c.cancel(id)
		}
		if s.phase.waits() && c.now.Sub(s.sent) >= c.cfg.Resend/2 {
			s.sent = c.now
			c.resendShard(id)
		}
	}
	for _, n := range c.census.pending {
		c.sendCensus(n, true)
	}
	for _, st := range c.strays {
		c.sendStray(st, true)
	}
	c.unanswered(c.debtors())
}

func (c *Core) resendShard(id protocol.ShardID) {
	s := &c.shards[id]
	switch s.phase {
	case starting, asking:
		c.outbox.hosts.add(s.home, id)
	case stopping:
		c.outbox.handoffs.add(s.home, id)
	case closing:
		for _, n := range s.closers {
			c.outbox.begins.add(n, id)
		}
	}
}

// debtors are the members that have an order to answer.
func (c *Core) debtors() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range c.shards {
		switch s := &c.shards[i]; s.phase {
		case starting, asking, stopping:
			out = addOnce(out, s.home)
		case closing:
			for _, n := range s.closers {
				out = addOnce(out, n)
			}
		}
	}
	for _, st := range c.strays {
		out = addOnce(out, st.node)
	}
	for _, n := range c.census.pending {
		out = addOnce(out, n)
	}
	return out
}
