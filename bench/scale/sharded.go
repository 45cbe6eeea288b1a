package main

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// askForAll has one node, which stays in all scenes, ask for all shards of all types at one moment.
func (c *cluster) askForAll() []int {
	c.asking = true
	c.slots[c.asker].askForTypes()
	return c.living()
}

// killCoordinator ends the process that coordinates the first type. All types choose their
// coordinators alike, so it coordinates the others, too.
func (c *cluster) killCoordinator() []int {
	if i := c.coordinator(); i >= 0 {
		c.endProcess(i)
	}
	return c.living()
}

// joinOne starts one more node, which must get its part of all types.
func (c *cluster) joinOne() []int {
	c.joined = c.nodes
	c.startProcess(c.joined, false)
	return c.living()
}

// coordinator returns the host of the coordinator of the first type, -1 if there is none.
func (c *cluster) coordinator() int {
	for i, n := range c.slots {
		if n != nil && len(n.types) > 0 && n.types[0].office.Term() != 0 && n.member.LeaseValid() {
			return i
		}
	}
	return -1
}

// served reports whether all types have a coordinator that has registered all nodes and has nothing
// under way, and, once all shards were asked for, whether each of them runs at one node, to which the
// routes of the asker lead.
func (c *cluster) served() bool {
	nodes := map[gossip.NodeID]*node{}
	for _, n := range c.slots {
		if n != nil {
			nodes[n.p.ID()] = n
		}
	}
	for number := range c.stores {
		if !c.typeServed(number, nodes) {
			return false
		}
	}
	return true
}

func (c *cluster) typeServed(number int, nodes map[gossip.NodeID]*node) bool {
	running := 0
	for _, n := range nodes {
		t := n.types[number]
		at := nodes[t.region.Coordinator()]
		if at == nil || !t.region.Registered() || at.types[number].office.Term() == 0 {
			return false
		}
		running += len(t.hosted)
	}
	if !c.asking {
		return true
	}
	if running != c.shards || !c.joinedHasPart(number, len(nodes)) {
		return false
	}
	asker := c.slots[c.asker].types[number].region
	for shard := range c.shards {
		home, open := asker.Route(protocol.ShardID(shard))
		if n := nodes[home.Node]; !open || n == nil || n.types[number].hosted[home.Shard] != home.Token {
			return false
		}
	}
	return true
}

// joinedHasPart reports whether the node that has joined, if any, runs nine tenths of its part of a
// type: balance is within a shard or so, and a part below that is none.
func (c *cluster) joinedHasPart(number, nodes int) bool {
	return c.joined < 0 || len(c.slots[c.joined].types[number].hosted) >= c.shards/nodes*9/10
}
