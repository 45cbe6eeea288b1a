package sharding

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// zonedNode adds a node of a zone.
func (c *cluster) zonedNode(name, zone string, roles ...string) *node {
	n := c.add(name, roles...)
	n.self.Zone = zone
	return n
}

// With nodes that host the shards and nodes that only ask, in each of three zones, the shards
// that a zone asks for live in it: its requests do not leave the zone.
func TestRequestsStayInTheirZone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, j := newCluster(t), newJournal()
		near := func(ty *Type[say, heard]) {
			ty.Role, ty.Shards, ty.RebalanceInterval = "home", 48, 100*time.Millisecond
			ty.Strategy = strategy.LeastShards{SpreadZones: true, RequesterZoneFactor: 1.25}
		}
		var nodes, askers []*node
		var regions []*Region[say, heard]
		for _, name := range []string{"a1", "b1", "b2", "c1"} {
			n := c.zonedNode(name, name[:1], "home")
			n.register(j, near)
			nodes = append(nodes, n)
		}
		for _, zone := range []string{"a", "b", "c"} {
			n := c.zonedNode("asker-"+zone, zone, "web")
			nodes, askers, regions = append(nodes, n), append(askers, n), append(regions, n.register(j, near))
		}
		for _, n := range nodes {
			n.start()
		}
		c.install(nodes...)
		zoneOf := map[gossip.NodeID]string{}
		for _, n := range nodes {
			zoneOf[n.self.ID] = n.self.Zone
		}
		asked := map[ShardID]string{}
		for i := 0; len(asked) < 48; i++ {
			id := fmt.Sprintf("id-%d", i)
			shard := regions[0].ShardOf(id)
			if asked[shard] != "" {
				continue
			}
			at := int(shard) % 3
			asked[shard] = askers[at].self.Zone
			if _, err := regions[at].Ask(context.Background(), id, say{"x", i}); err != nil {
				t.Fatal(err)
			}
		}
		pass(time.Second) // ten rounds of rebalancing
		homes, shards := map[ShardID]gossip.NodeID{}, map[gossip.NodeID]int{}
		for _, n := range askers {
			maps.Copy(homes, n.homes()) // each knows those that it has asked for
		}
		for shard, zone := range asked {
			shards[homes[shard]]++
			if got := zoneOf[homes[shard]]; got != zone {
				t.Errorf("shard %v was asked for in zone %s, and lives in %q", shard, zone, got)
			}
		}
		if b1, b2 := shards[nodes[1].self.ID], shards[nodes[2].self.ID]; b1 != 8 || b2 != 8 {
			t.Errorf("the two nodes of zone b have %d and %d shards, want 8 each", b1, b2)
		}
	})
}
