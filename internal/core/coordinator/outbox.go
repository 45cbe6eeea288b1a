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
	*env
	members *members
	table   *table

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

func (b *batch[T]) addItem(n gossip.NodeID, item T) {
	if b.items == nil {
		b.items = map[gossip.NodeID][]T{}
	}
	if _, ok := b.items[n]; !ok {
		b.nodes = append(b.nodes, n)
	}
	b.items[n] = append(b.items[n], item)
}

// drainBatch hands out the lists in the order of the nodes, in pieces, each item once.
func drainBatch[T comparable, M any](b *batch[T], entry func(gossip.NodeID, T) (M, bool), send func(gossip.NodeID, []M)) {
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

// sendAll turns what has gathered into messages.
func (o *outbox) sendAll() {
	drainBatch(&o.acks, func(_ gossip.NodeID, st protocol.ShardToken) (protocol.ShardToken, bool) { return st, true },
		func(n gossip.NodeID, list []protocol.ShardToken) {
			o.sendMessage(n, &protocol.StoppedAck{Head: o.head(), Shards: list})
		})
	drainBatch(&o.begins, o.beginEntry, func(n gossip.NodeID, list []protocol.ShardToken) {
		o.sendMessage(n, &protocol.Begin{Head: o.orderHead(), Shards: list})
	})
	drainBatch(&o.handoffs, o.handOffEntry, func(n gossip.NodeID, list []protocol.HandOffOrder) {
		o.sendMessage(n, &protocol.HandOff{Head: o.orderHead(), Within: o.cfg.StopTimeout, Shards: list})
	})
	drainBatch(&o.hosts, o.hostEntry, func(n gossip.NodeID, list []protocol.HostOrder) {
		o.sendMessage(n, &protocol.HostShards{Head: o.orderHead(), Shards: list})
	})
	drainBatch(&o.homes, o.homeEntry, func(n gossip.NodeID, list []protocol.Home) {
		o.sendMessage(n, &protocol.Homes{Head: o.head(), Homes: list})
	})
	o.probe = false
}

func (o *outbox) beginEntry(n gossip.NodeID, id protocol.ShardID) (protocol.ShardToken, bool) {
	s := &o.table.shards[id]
	return protocol.ShardToken{Shard: id, Token: s.moveOf().stamp}, s.phase == closing && slices.Contains(s.moveOf().closers, n)
}

func (o *outbox) handOffEntry(n gossip.NodeID, id protocol.ShardID) (protocol.HandOffOrder, bool) {
	s := &o.table.shards[id]
	m := s.moveOf()
	return protocol.HandOffOrder{Shard: id, Token: s.token, Move: m.stamp, To: m.target}, s.phase == stopping && s.home == n
}

func (o *outbox) hostEntry(n gossip.NodeID, id protocol.ShardID) (protocol.HostOrder, bool) {
	s := &o.table.shards[id]
	w := s.waitOf()
	return protocol.HostOrder{Shard: id, Token: s.token, From: w.from, Ended: w.ended}, (s.phase == starting || s.phase == asking) && s.home == n
}

func (o *outbox) homeEntry(n gossip.NodeID, id protocol.ShardID) (protocol.Home, bool) {
	s := &o.table.shards[id]
	return protocol.Home{Shard: id, Node: s.home, Token: s.token}, s.served() && o.members.findable(n)
}

func (o *outbox) orderHead() protocol.Head {
	h := o.head()
	h.Probe = o.probe
	return h
}
