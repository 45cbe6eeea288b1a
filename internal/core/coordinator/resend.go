package coordinator

import (
	"fmt"
	"time"

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
	if r := c.table.retryStart; r != 0 && !c.now.Before(r) {
		c.table.retryStart, c.dirty = 0, true
	}
	if !c.now.Before(c.nextRebalance) {
		c.nextRebalance = c.now.Add(c.cfg.Rebalance)
		c.dirty = true
		c.writes.flushSets()
		c.table.rebalance()
	}
}

// A home that does not start a shard promises instead that the shard does not run there, and the
// shard is placed again, maybe at that home. It may begin to drain, or have lost its lease for a
// moment, so the first failure costs no time. If its host has a shard that the region does not
// know of, each start fails, and costs a majority write. So the waits double from the second
// failure on. A change of the view ends them: another home may be chosen.

// startRetryMax bounds the wait before a shard is placed again that its homes do not start.
const startRetryMax = 10 * time.Second

// noteFailedStart notes that the home of a shard has not started it.
func (t *table) noteFailedStart(id protocol.ShardID) {
	s := &t.shards[id]
	w := s.needWait()
	if w.failed++; w.failed == 1 {
		return
	}
	wait := min(t.cfg.Resend<<min(w.failed-2, 16), startRetryMax)
	w.retryAt = t.now.Add(wait)
	t.traceShard(TraceStartFailed, id, s.home, s.token, fmt.Sprintf("%d times in a row; the shard is placed again in %v", w.failed, wait))
}

// delaysStart reports whether a shard must wait before it is placed again. If so, it also has
// the table look again when the wait is over.
func (t *table) delaysStart(s *shard) bool {
	w := s.waitOf()
	if w.retryAt == 0 || !t.now.Before(w.retryAt) {
		return false
	}
	if t.retryStart == 0 || w.retryAt.Before(t.retryStart) {
		t.retryStart = w.retryAt
	}
	return true
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
		if (s.phase == closing || s.phase == stopping) && !t.now.Before(s.move.deadline) {
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
		for _, n := range s.move.closers {
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
			for _, n := range s.move.closers {
				out = addOnce(out, n)
			}
		}
	}
	for _, st := range t.strays.list {
		out = addOnce(out, st.node)
	}
	return out
}
