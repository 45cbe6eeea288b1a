package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// batchMax bounds the shards in one message.
const batchMax = 1024

// outbox collects the messages of a step by node and shard, so that a thousand
// shards leave in one message. It holds no content: the content is
// read from the shard's state when the message is made, so it is never stale.
type outbox struct {
	acks     batch[protocol.ShardToken]
	begins   batch[protocol.ShardID]
	handoffs batch[protocol.ShardID]
	hosts    batch[protocol.ShardID]
	homes    batch[protocol.ShardID]
	// probe marks this step's orders as retransmissions.
	probe bool
}

// batch is a list per node.
type batch[T comparable] struct {
	nodes []gossip.NodeID
	items map[gossip.NodeID][]T
}

func (b *batch[T]) add(n gossip.NodeID, item T) {
	if b.items == nil {
		b.items = map[gossip.NodeID][]T{}
	}
	if _, ok := b.items[n]; !ok {
		b.nodes = append(b.nodes, n)
	}
	b.items[n] = append(b.items[n], item)
}

// drain hands out the lists in the order of the nodes, in pieces, each item once.
func drain[T comparable, M any](b *batch[T], entry func(gossip.NodeID, T) (M, bool), send func(gossip.NodeID, []M)) {
	slices.Sort(b.nodes)
	for _, n := range b.nodes {
		seen := make(map[T]bool, len(b.items[n]))
		var list []M
		for _, item := range b.items[n] {
			m, ok := entry(n, item)
			if !ok || seen[item] {
				continue
			}
			seen[item] = true
			if list = append(list, m); len(list) == batchMax {
				send(n, list)
				list = nil
			}
		}
		if len(list) > 0 {
			send(n, list)
		}
	}
	b.nodes, b.items = nil, nil
}

// flush turns what has gathered into messages.
func (c *Core) flush() {
	o := &c.outbox
	drain(&o.acks, func(_ gossip.NodeID, st protocol.ShardToken) (protocol.ShardToken, bool) { return st, true },
		func(n gossip.NodeID, list []protocol.ShardToken) {
			c.send(n, &protocol.StoppedAck{Head: c.head(), Shards: list})
		})
	drain(&o.begins, c.beginEntry, func(n gossip.NodeID, list []protocol.ShardToken) {
		c.send(n, &protocol.Begin{Head: c.orderHead(), Shards: list})
	})
	drain(&o.handoffs, c.handOffEntry, func(n gossip.NodeID, list []protocol.HandOffOrder) {
		c.send(n, &protocol.HandOff{Head: c.orderHead(), Within: c.cfg.StopTimeout, Shards: list})
	})
	drain(&o.hosts, c.hostEntry, func(n gossip.NodeID, list []protocol.HostOrder) {
		c.send(n, &protocol.HostShards{Head: c.orderHead(), Shards: list})
	})
	drain(&o.homes, c.homeEntry, func(n gossip.NodeID, list []protocol.Home) {
		c.send(n, &protocol.Homes{Head: c.head(), Homes: list})
	})
	o.probe = false
}

func (c *Core) beginEntry(n gossip.NodeID, id protocol.ShardID) (protocol.ShardToken, bool) {
	s := &c.shards[id]
	return protocol.ShardToken{Shard: id, Token: s.move}, s.phase == closing && slices.Contains(s.closers, n)
}

func (c *Core) handOffEntry(n gossip.NodeID, id protocol.ShardID) (protocol.HandOffOrder, bool) {
	s := &c.shards[id]
	return protocol.HandOffOrder{Shard: id, Token: s.token, Move: s.move, To: s.target}, s.phase == stopping && s.home == n
}

func (c *Core) hostEntry(n gossip.NodeID, id protocol.ShardID) (protocol.HostOrder, bool) {
	s := &c.shards[id]
	return protocol.HostOrder{Shard: id, Token: s.token, From: s.from}, (s.phase == starting || s.phase == asking) && s.home == n
}

func (c *Core) homeEntry(n gossip.NodeID, id protocol.ShardID) (protocol.Home, bool) {
	s := &c.shards[id]
	return protocol.Home{Shard: id, Node: s.home, Token: s.token}, s.served() && c.findable(n)
}

func (c *Core) head() protocol.Head {
	return protocol.Head{Type: c.cfg.Type, Term: c.term, View: c.view.Epoch, Seq: c.seq}
}

func (c *Core) orderHead() protocol.Head {
	h := c.head()
	h.Probe = c.outbox.probe
	return h
}

func (c *Core) send(to gossip.NodeID, m protocol.Message) {
	c.out.Do = append(c.out.Do, Send{To: to, Msg: m})
}
