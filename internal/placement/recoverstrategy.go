package placement

import (
	"log/slog"
	"runtime/debug"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/loglimit"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// recoverStrategy adds the zone of the node that asked for a shard, which the coordinator does
// not have, and contains the panics of a strategy: the coordinator then decides without it.
// A panic that ended the process would also end that of the next coordinator, and so all nodes
// of the role, one after the other.
type recoverStrategy struct {
	strategy strategy.Strategy
	view     func() *gossip.View
	typ      string
	log      *slog.Logger
	lines    loglimit.Folder
}

// newRecoverStrategy returns s with its panics contained, and nil, which means the default,
// for nil.
func newRecoverStrategy(s strategy.Strategy, view func() *gossip.View, typ string, log *slog.Logger) strategy.Strategy {
	if s == nil {
		return nil
	}
	return &recoverStrategy{strategy: s, view: view, typ: typ, log: log}
}

// Allocate returns zero after a panic: the most suitable region is taken.
func (r *recoverStrategy) Allocate(s *strategy.State, shard strategy.ShardID, requester gossip.NodeID) (home gossip.NodeID) {
	defer func() {
		if v := recover(); v != nil {
			home = 0
			r.logPanic(v)
		}
	}()
	if m := r.view().Member(requester); m != nil && m.Zone != "" {
		asked := *s
		asked.RequesterZone = m.Zone
		s = &asked
	}
	return r.strategy.Allocate(s, shard, requester)
}

// Rebalance returns nothing after a panic: no shard moves in this round.
func (r *recoverStrategy) Rebalance(s *strategy.State) (moves []strategy.ShardID) {
	defer func() {
		if v := recover(); v != nil {
			moves = nil
			r.logPanic(v)
		}
	}()
	return r.strategy.Rebalance(s)
}

func (r *recoverStrategy) logPanic(v any) {
	r.lines.Log(r.log, slog.LevelError, "panic", "sharding: strategy panicked; shards go to the most suitable nodes; mend the strategy",
		"type", r.typ, "panic", v, "stack", string(debug.Stack()))
}
