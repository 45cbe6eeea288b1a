package coordinator

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// One shard after the other is asked for, written, hosted and sent to its asker.
func BenchmarkAllocate(b *testing.B) {
	for _, shards := range []int{256, 1000, 10000} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			b.ReportAllocs()
			now, at := clock.Instant(1), shards
			var c *Core
			for b.Loop() {
				if at == shards {
					c, at = settled(shards), 0
				}
				var out Effects
				h := protocol.Head{Type: "counter", Term: c.term, View: c.term}
				c.Step(now, Received{From: 2, Msg: &protocol.GetHome{Head: h, Hosts: true, Shards: []protocol.ShardID{protocol.ShardID(at)}}}, &out)
				w := out.Do[len(out.Do)-1].(Write)
				c.Step(now, WriteDone{ID: w.ID, Result: OK}, &out)
				r := w.Records[0]
				c.Step(now, Received{From: r.Home, Msg: &protocol.ShardsHosted{Head: h, Shards: []protocol.ShardToken{{Shard: r.Shard, Token: r.Token}}}}, &out)
				at++
			}
		})
	}
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
