package sharding

import (
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// advised contains the panics of a strategy: the coordinator then decides without it. A
// panic that ended the process would also end that of the next coordinator, and so all nodes
// of the role, one after the other.
type advised struct {
	strategy Strategy
	typ      string
	log      *slog.Logger
	lines    loglimit.Budget
}

// advisedBy returns s with its panics contained, and nil, which means the default, for nil.
func advisedBy(s Strategy, typ string, log *slog.Logger) Strategy {
	if s == nil {
		return nil
	}
	return &advised{strategy: s, typ: typ, log: log}
}

// Allocate returns zero after a panic: the most suitable region is taken.
func (a *advised) Allocate(s *strategy.State, shard ShardID, requester gossip.NodeID) (home gossip.NodeID) {
	defer func() {
		if v := recover(); v != nil {
			home = 0
			a.panicked(v)
		}
	}()
	return a.strategy.Allocate(s, shard, requester)
}

// Rebalance returns nothing after a panic: no shard moves in this round.
func (a *advised) Rebalance(s *strategy.State) (moves []ShardID) {
	defer func() {
		if v := recover(); v != nil {
			moves = nil
			a.panicked(v)
		}
	}()
	return a.strategy.Rebalance(s)
}

func (a *advised) panicked(v any) {
	if unsaid, ok := a.lines.Take(time.Now()); ok {
		a.log.Error("sharding: strategy panicked, shards go to the most suitable nodes",
			"type", a.typ, "panic", v, "stack", string(debug.Stack()), "unsaid", unsaid)
	}
}

// staffed is the strategy of a daemon whose number of workers changes. The shards of
// workers that must not run keep their homes, but are not counted: otherwise a few workers
// could share a node while another one has only empty shards.
type staffed struct {
	by Strategy
	k  *workerKeeper
}

// Allocate implements Strategy.
func (f staffed) Allocate(s *strategy.State, shard ShardID, requester gossip.NodeID) gossip.NodeID {
	return f.by.Allocate(f.workers(s), shard, requester)
}

// Rebalance implements Strategy: it moves workers.
func (f staffed) Rebalance(s *strategy.State) []ShardID { return f.by.Rebalance(f.workers(s)) }

// workers returns s without the shards whose workers must not run.
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
