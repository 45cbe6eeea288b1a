package sharding

import (
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// staffed is the strategy of a daemon whose number of workers changes. The shards of
// workers that are not to run have homes too, once they had one, and count for
// nothing: else a few workers could share a node while another carries empty shards.
type staffed struct {
	by Strategy
	k  *workerKeeper
}

// Allocate implements Strategy.
func (f staffed) Allocate(s *strategy.State, shard ShardID, requester view.NodeID) view.NodeID {
	return f.by.Allocate(f.workers(s), shard, requester)
}

// Rebalance implements Strategy: it moves workers.
func (f staffed) Rebalance(s *strategy.State) []ShardID { return f.by.Rebalance(f.workers(s)) }

// workers returns s without the shards that nobody works in.
func (f staffed) workers(s *strategy.State) *strategy.State {
	p := f.k.plan.Load()
	if p == nil {
		return s
	}
	out := *s
	out.Regions = slices.Clone(s.Regions)
	for i := range out.Regions {
		r := &out.Regions[i]
		r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(n ShardID) bool { return int(n) >= p.Workers })
	}
	return &out
}
