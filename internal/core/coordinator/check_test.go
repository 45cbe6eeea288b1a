package coordinator_test

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

// checker holds what must be true after every event.
type checker struct {
	w   *world
	err error
	// written are the allocations acknowledged at their level (S8).
	acked map[protocol.ShardToken]bool
	// owner of every allocation ever started, and the newest per shard (S7).
	owner  map[protocol.ShardToken]gossip.NodeID
	newest map[protocol.ShardID]protocol.Token
	// last message processed per stream (S3).
	last                map[message]int
	sent, done, dropped int
	marks               map[string]int
	// holders are who held office, by term.
	holders map[gossip.Epoch]gossip.NodeID
}

func (c *checker) init(w *world) {
	*c = checker{w: w, acked: map[protocol.ShardToken]bool{}, owner: map[protocol.ShardToken]gossip.NodeID{},
		newest: map[protocol.ShardID]protocol.Token{}, last: map[message]int{}, marks: map[string]int{}, holders: map[gossip.Epoch]gossip.NodeID{}}
}

func (c *checker) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
		c.w.logf("FAIL: %v", c.err)
	}
}

func (c *checker) trace(n *node, kind string) {
	c.marks[kind]++
	if kind == coordinator.TraceDouble {
		c.fail("S1: %d finds a shard that lives twice, or takes one for it", n.id)
	}
}

func (c *checker) written(records []protocol.Record) {
	for _, r := range records {
		c.acked[protocol.ShardToken{Shard: r.Shard, Token: r.Token}] = true
	}
}

// order checks S8: no HostShards before its allocation is acknowledged.
func (c *checker) order(n *node, e coordinator.Send) {
	m, ok := e.Msg.(*protocol.HostShards)
	if !ok {
		return
	}
	for _, o := range m.Shards {
		if !c.acked[protocol.ShardToken{Shard: o.Shard, Token: o.Token}] {
			c.fail("S8: %d orders shard %v under %v before the write was acknowledged", n.id, o.Shard, o.Token)
		}
	}
}

// start checks S7 and S1, S11: nothing of the shard lives anywhere.
func (c *checker) start(n *node, e region.StartShard) {
	st := protocol.ShardToken{Shard: e.Shard, Token: e.Token}
	if o, ok := c.owner[st]; ok {
		c.fail("S7: shard %v under %v is started at %d, and was at %d", e.Shard, e.Token, n.id, o)
	}
	c.owner[st] = n.id
	if e.Token.Less(c.newest[e.Shard]) {
		c.fail("S7: shard %v is started at %d under %v, after %v", e.Shard, n.id, e.Token, c.newest[e.Shard])
	}
	c.newest[e.Shard] = e.Token
	for _, o := range c.w.nodes {
		if t := o.tenants[e.Shard]; o.alive && t != nil {
			c.fail("S1: shard %v starts at %d under %v while %d has it under %v (stopping: %v)",
				e.Shard, n.id, e.Token, o.id, t.token, t.stopping)
		}
	}
	if !n.lease {
		c.fail("shard %v is started at %d without a lease", e.Shard, n.id)
	}
	if c.w.cur.Member(n.id) == nil {
		c.fail("S6: shard %v is started at %d outside the view", e.Shard, n.id)
	}
}

// processed checks S3: streams never go back.
func (c *checker) processed(n *node, m message) {
	c.done++
	stream := message{from: m.from, shard: m.shard}
	if m.seq <= c.last[stream] {
		c.fail("S3: shard %v at %d handles message %d of %d after %d", m.shard, n.id, m.seq, m.from, c.last[stream])
	}
	c.last[stream] = m.seq
}

func (c *checker) drop(ms ...message) {
	c.dropped += len(ms)
	if len(ms) > 0 && c.w.plan.keep {
		c.fail("G9: message %d of %d for shard %v is lost", ms[0].seq, ms[0].from, ms[0].shard)
	}
}

// office checks that a term has one holder, whoever declined.
func (c *checker) office(n *node) {
	if n.coord == nil || n.coord.Term() == 0 {
		return
	}
	if was, ok := c.holders[n.coord.Term()]; ok && was != n.id {
		c.fail("S7: %d holds office in term %v, and %d did", n.id, n.coord.Term(), was)
	}
	c.holders[n.coord.Term()] = n.id
}

// all runs after every event.
func (c *checker) all() {
	for _, n := range c.w.nodes {
		if n.alive {
			c.office(n)
		}
	}
	if c.w.plan.outside {
		return
	}
	for _, n := range c.w.nodes {
		if !n.alive {
			continue
		}
		if err := n.reg.Check(); err != nil {
			c.fail("%d: %v", n.id, err)
		}
		if n.coord != nil {
			if err := n.coord.Check(); err != nil {
				c.fail("%d: %v", n.id, err)
			}
		}
	}
}

// live checks L1, L3 and the agreement of everybody about the homes, when nothing
// has failed for a while.
func (c *checker) live() {
	boss := c.w.inOffice()
	if boss == nil || !boss.coord.Settled() {
		c.fail("L1: nobody is in office and settled (%v)", boss)
		return
	}
	known := map[protocol.ShardID]bool{}
	for _, h := range boss.coord.Homes() {
		known[h.Shard] = true
		t := c.w.node(h.Node).tenants[h.Shard]
		if !c.w.node(h.Node).alive || t == nil || !t.running || t.token != h.Token {
			c.fail("L1: shard %v is said to be hosted at %d under %v and is not", h.Shard, h.Node, h.Token)
		}
	}
	for _, n := range c.w.nodes {
		if !n.alive {
			continue
		}
		for s := range n.tenants {
			if !known[s] {
				c.fail("L1: %d hosts shard %v, and the coordinator does not know", n.id, s)
			}
		}
		for s, p := range n.routes {
			if len(p.buffer) > 0 {
				c.fail("L3: %d still buffers %d messages for shard %v", n.id, len(p.buffer), s)
			}
		}
	}
}
