package coordinator

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// waiting reports whether any order is out without an answer.
func (c *Core) waiting() bool { return c.table.ordersOpen() || len(c.census.pending) > 0 }

func (c *Core) stepTick() {
	if c.term == 0 {
		return
	}
	if r := c.census.retry; r != 0 && !c.now.Before(r) {
		c.census.readState()
	}
	if r := c.writes.retry; r != 0 && !c.now.Before(r) {
		c.writes.repeatUnknown(c.table.isCurrent)
	}
	if c.waiting() && !c.now.Before(c.table.nextResend) {
		c.resend()
	}
	if !c.now.Before(c.nextRebalance) {
		c.nextRebalance = c.now.Add(c.cfg.Rebalance)
		c.dirty = true
		c.writes.flushSets()
		c.table.rebalance()
	}
}

// resend ends the phases that have timed out, and retransmits every order that has
// been unanswered for long enough.
func (c *Core) resend() {
	c.outbox.probe = true
	c.table.resendOrders()
	c.census.repeatRequests()
	c.table.strays.repeatOrders()
	debtors := c.table.debtors()
	for _, n := range c.census.pending {
		debtors = addOnce(debtors, n)
	}
	c.members.unanswered(debtors)
}

// ordersOpen reports whether any order about a shard is out without an answer.
func (t *table) ordersOpen() bool { return t.open > 0 || len(t.strays.list) > 0 }

func (t *table) resendOrders() {
	t.nextResend = t.now.Add(t.cfg.Resend)
	for i := range t.shards {
		id, s := protocol.ShardID(i), &t.shards[i]
		if (s.phase == closing || s.phase == stopping) && !t.now.Before(s.deadline) {
			t.cancel(id)
		}
		if s.phase.waits() && t.now.Sub(s.sent) >= t.cfg.Resend/2 {
			s.sent = t.now
			t.resendShard(id)
		}
	}
}

func (t *table) resendShard(id protocol.ShardID) {
	s := &t.shards[id]
	switch s.phase {
	case starting, asking:
		t.outbox.hosts.addItem(s.home, id)
	case stopping:
		t.outbox.handoffs.addItem(s.home, id)
	case closing:
		for _, n := range s.closers {
			t.outbox.begins.addItem(n, id)
		}
	}
}

// debtors returns the members that have an order about a shard to answer.
func (t *table) debtors() []gossip.NodeID {
	var out []gossip.NodeID
	for i := range t.shards {
		switch s := &t.shards[i]; s.phase {
		case starting, asking, stopping:
			out = addOnce(out, s.home)
		case closing:
			for _, n := range s.closers {
				out = addOnce(out, n)
			}
		}
	}
	for _, st := range t.strays.list {
		out = addOnce(out, st.node)
	}
	return out
}
