package coordinator

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// One shard after the other is asked for, written, hosted and sent to its asker. The cost of a
// shard must not grow with their number.
func BenchmarkAllocate(b *testing.B) {
	for _, shards := range []int{1000, 3000, 10_000, protocol.ShardsMax} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			at := shards
			var c *Core
			for b.Loop() {
				if at == shards {
					c, at = settled(shards), 0
				}
				askForShard(c, protocol.ShardID(at))
				at++
			}
		})
	}
}

// askForShard has a shard asked for, written and started.
func askForShard(c *Core, id protocol.ShardID) {
	const now = clock.Instant(1)
	var out Effects
	h := protocol.Head{Type: "counter", Term: c.term, View: c.term}
	c.Step(now, Received{From: 2, Msg: &protocol.GetHome{Head: h, Hosts: true, Shards: []protocol.ShardID{id}}}, &out)
	w := out.Do[len(out.Do)-1].(Write)
	c.Step(now, WriteDone{ID: w.ID, Result: OK}, &out)
	r := w.Records[0]
	c.Step(now, Received{From: r.Home, Msg: &protocol.ShardsHosted{Head: h, Shards: []protocol.ShardToken{{Shard: r.Shard, Token: r.Token}}}}, &out)
}

// settled returns a core in office among ten nodes.
func settled(shards int) *Core {
	c := New(Config{Self: 1, Type: "counter", Shards: shards})
	v := &gossip.View{Epoch: gossip.FirstEpoch(3)}
	for id := range gossip.NodeID(10) {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id + 1}, Status: gossip.Up})
	}
	var out Effects
	c.Step(1, LeaseChanged{Valid: true}, &out)
	c.Step(1, ViewChanged{View: v}, &out)
	c.Step(1, ReadDone{ID: c.census.readID, Result: OK}, &out)
	for _, m := range v.Members {
		c.Step(1, Received{From: m.ID, Msg: &protocol.CensusReport{Head: protocol.Head{Term: c.term, View: v.Epoch}, Hosts: true}}, &out)
	}
	return c
}

// A cold start that asks for one shard after the other counts the shards once: the counts stay
// valid while shards start that never had a home. A move ends that.
func TestAColdStartCountsTheShardsOnce(t *testing.T) {
	const shards = 100
	c := settled(shards)
	var kept map[gossip.NodeID][]protocol.ShardID
	for id := range protocol.ShardID(shards) {
		askForShard(c, id)
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		if c.table.chooser.counts == nil || id > 0 && len(kept) == 0 {
			t.Fatalf("shard %d: the shards are counted anew", id)
		}
		kept = c.table.chooser.counts
	}
	for n, list := range kept {
		if len(list) != shards/10 {
			t.Errorf("%d shards at node %v", len(list), n)
		}
	}
	c.out = &Effects{}
	c.table.beginMove(3, 2)
	if c.table.chooser.counts != nil {
		t.Error("counts are kept although a shard moves")
	}
}
