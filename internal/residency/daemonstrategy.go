package residency

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// daemonStrategy is the strategy of a daemon whose number of workers changes. The shards of
// workers that must not run keep their homes, but are not counted: otherwise a few workers
// could share a node while another one has only empty shards.
type daemonStrategy struct {
	strategy.Strategy
	controller *DaemonController
}

// Strategy returns by, without the shards whose workers must not run.
func (k *DaemonController) Strategy(by strategy.Strategy) strategy.Strategy {
	return daemonStrategy{by, k}
}

// Allocate implements strategy.Strategy.
func (d daemonStrategy) Allocate(s *strategy.State, shard strategy.ShardID, requester gossip.NodeID) gossip.NodeID {
	return d.Strategy.Allocate(d.withoutIdle(s), shard, requester)
}

// Rebalance implements strategy.Strategy: it moves workers.
func (d daemonStrategy) Rebalance(s *strategy.State) []strategy.ShardID {
	return d.Strategy.Rebalance(d.withoutIdle(s))
}

// withoutIdle returns s without the shards whose workers must not run.
func (d daemonStrategy) withoutIdle(s *strategy.State) *strategy.State {
	p, _ := d.controller.currentPlan()
	if p == (daemon.Plan{}) {
		return s
	}
	out := *s
	out.Regions = slices.Clone(s.Regions)
	for i := range out.Regions {
		r := &out.Regions[i]
		r.Shards = slices.DeleteFunc(slices.Clone(r.Shards), func(n strategy.ShardID) bool { return int(n) >= p.Workers })
	}
	return &out
}
