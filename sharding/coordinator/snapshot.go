package coordinator

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// snapshot is what the strategy sees while a batch of shards is placed: built when it
// is first asked for, and kept up by who places, or a batch would cost a pass over all
// shards for each of its own. The zero snapshot is ready, and good for one step.
type snapshot struct{ st *strategy.State }

func (v *snapshot) of(c *Core) *strategy.State {
	if v.st == nil {
		v.st = c.state()
	}
	return v.st
}

// placed notes where a shard counted, and where it counts from now on.
func (v *snapshot) placed(id protocol.ShardID, was, at view.NodeID) {
	if r := v.st.Region(was); r != nil {
		r.Shards = slices.DeleteFunc(r.Shards, func(x protocol.ShardID) bool { return x == id })
	}
	if r := v.st.Region(at); r != nil {
		r.Shards = append(r.Shards, id)
	}
}
