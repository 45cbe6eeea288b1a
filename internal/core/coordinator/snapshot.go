package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// snapshot is the strategy's input while a batch of shards is placed. It is built on
// first use, and the placing code updates it; otherwise each shard of a batch would cost a
// pass over all shards. The zero snapshot is ready, and valid for one step.
type snapshot struct{ st *strategy.State }

func (v *snapshot) of(c *Core) *strategy.State {
	if v.st == nil {
		v.st = c.state()
	}
	return v.st
}

// placed notes where a shard counted, and where it counts from now on.
func (v *snapshot) placed(id protocol.ShardID, was, at gossip.NodeID) {
	if r := v.st.Region(was); r != nil {
		r.Shards = slices.DeleteFunc(r.Shards, func(x protocol.ShardID) bool { return x == id })
	}
	if r := v.st.Region(at); r != nil {
		r.Shards = append(r.Shards, id)
	}
}
