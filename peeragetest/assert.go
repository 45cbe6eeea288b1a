package peeragetest

import (
	"github.com/peerage-go/peerage/sharding"
)

// life is a shard that runs on a node.
type life[S any] struct {
	node  *Node[S]
	shard sharding.ShardStats
}

// AssertSingleInstance checks now that no entity of any type has an instance on two nodes,
// and that no node has ever found such a pair. Nodes that have crashed, or hold no lease,
// do not count: their entities have no effect. The test fails, and goes on, if there is
// one; the failure names the entity and both nodes.
//
// It sends no message, and takes time in proportion to the number of entities.
func (c *Cluster[S]) AssertSingleInstance() {
	c.t.Helper()
	for _, typ := range c.types() {
		hosts := map[sharding.ShardID]life[S]{}
		for _, n := range c.Nodes() {
			if s, _ := n.Registry().Stats(typ); s.Duplicates > 0 {
				c.t.Errorf("peeragetest: node %s has found %d shards of type %q that ran twice", n.Name, s.Duplicates, typ)
			}
			for _, shard := range n.shardsOf(typ) {
				if first, taken := hosts[shard.Shard]; taken && first.goesOn(typ) {
					c.reportTwice(typ, first, life[S]{n, shard})
				}
				hosts[shard.Shard] = life[S]{n, shard}
			}
		}
	}
}

// types returns the names of the types that any running node has registered.
func (c *Cluster[S]) types() (names []string) {
	seen := map[string]bool{}
	for _, n := range c.Nodes() {
		for _, typ := range n.Registry().Types() {
			if !seen[typ] {
				names = append(names, typ)
			}
			seen[typ] = true
		}
	}
	return names
}

// shardsOf returns the shards of a type that run on n, none without a lease.
func (n *Node[S]) shardsOf(typ string) []sharding.ShardStats {
	shards, _ := n.Registry().Local(typ)
	if !n.LeaseValid() {
		return nil
	}
	return shards
}

// goesOn reports whether the life has not ended since it was seen. Nodes are read one after
// the other, so a shard may move from a node that was read to one that is read later.
func (l life[S]) goesOn(typ string) bool {
	for _, s := range l.node.shardsOf(typ) {
		if s.Shard == l.shard.Shard && s.Token == l.shard.Token {
			return true
		}
	}
	return false
}

// reportTwice fails the test for each entity of two lives of a shard.
func (c *Cluster[S]) reportTwice(typ string, a, b life[S]) {
	c.t.Helper()
	there := map[string]bool{}
	for _, id := range a.shard.IDs {
		there[id] = true
	}
	for _, id := range b.shard.IDs {
		if there[id] {
			c.t.Errorf("peeragetest: entity %q of type %q has two instances: on node %s with token %v, and on node %s with token %v",
				id, typ, a.node.Name, a.shard.Token, b.node.Name, b.shard.Token)
		}
	}
}
