package residency

import (
	"context"
	"log/slog"
	"sync"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Shard is a shard that runs on this node. activation.Shard implements it.
type Shard interface {
	Token() protocol.Token
	// Ensure starts an entity that has no instance, and reports whether it does.
	Ensure(id string) (starts bool)
	// Dismiss ends an instance in an orderly way, and reports whether it still exists.
	Dismiss(id string) (exists bool)
	IDs() []string
}

// Node has what the core reads of this node.
type Node = core.Node

// Home is the part of a node that hosts one type, in one incarnation. All fields must be set,
// but for the two stores.
type Home struct {
	Node
	Type string
	Log  *slog.Logger
	// Ctx ends with the incarnation; Work counts its goroutines.
	Ctx  context.Context
	Work *sync.WaitGroup
	// Clock measures the rounds and the pace, for all types of the node.
	Clock clock.Clock

	// Shard returns a shard that runs here in this incarnation, nil if it does not; Shards is
	// the type's number of shards.
	Shard  func(strategy.ShardID) Shard
	Shards uint32
	// WantHome requests a home for a shard that has none.
	WantHome func(strategy.ShardID)
	// Supersede ends an allocation immediately; the shard gets a new one. Forced is called with
	// the number of shards that were superseded since workers had not ended.
	Supersede func(strategy.ShardID, protocol.Token)
	Forced    func(shards int)

	// Plans is nil if no plans of daemons can be stored; Store is nil if entities cannot be
	// remembered.
	Plans placement.PlanStore
	Store placement.Rememberer
}

// TokenIn returns Node.Token for the shards that shard returns.
func TokenIn(shard func(strategy.ShardID) Shard) func(strategy.ShardID) protocol.Token {
	return func(i strategy.ShardID) (t protocol.Token) {
		if s := shard(i); s != nil {
			t = s.Token()
		}
		return t
	}
}

// performLocal performs an action that does not wait for other nodes.
func (h *Home) performLocal(a *core.Action) (o core.Outcome) {
	switch a.Kind {
	case core.WantHomes:
		for _, i := range a.Shards {
			h.WantHome(i)
		}
	case core.Start, core.Recall:
		s := h.Shard(a.Shard)
		o.OK = s != nil && s.Ensure(a.ID)
	case core.StopAll:
		o.OK, o.Running = true, h.stopAll(a.Abandon)
	}
	return o
}

// stopAll ends all instances in an orderly way, and returns how many still exist. If abandon is
// set, it ends the allocations of their shards.
func (h *Home) stopAll(abandon bool) (running int) {
	forced := 0
	for i := range strategy.ShardID(h.Shards) {
		s := h.Shard(i)
		if s == nil {
			continue
		}
		before := running
		for _, id := range s.IDs() {
			if s.Dismiss(id) {
				running++
			}
		}
		if abandon && running > before {
			forced++
			h.Supersede(i, s.Token())
		}
	}
	if forced > 0 {
		h.Forced(forced)
	}
	return running
}

// performRemote performs an action that waits for other nodes.
func (h *Home) performRemote(a *core.Action, startElsewhere func(ctx context.Context, id string) error) (o core.Outcome, err error) {
	ctx, cancel := context.WithTimeout(h.Ctx, a.Timeout())
	defer cancel()
	switch a.Kind {
	case core.RecallElsewhere:
		err = startElsewhere(ctx, a.ID)
	case core.Read:
		o.IDs, err = h.Store.Remembered(ctx, h.Type, a.Shard)
	case core.Write:
		err = h.Store.Remember(ctx, h.Type, a.Shard, a.Add, a.Remove)
	case core.ReadPlan:
		o.State, err = h.Plans.ReadPlan(ctx, h.Type, a.Term)
	case core.WritePlan:
		err = h.Plans.WritePlan(ctx, h.Type, a.Term, a.Plan, a.Gone)
	case core.AckPlan:
		err = h.Plans.AckPlan(ctx, h.Type, h.Self, a.Ack)
	}
	o.OK = err == nil
	return o, err
}
