package placement

import (
	"context"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/replicator"
)

// PlanStore keeps a daemon's plan. All it does is at level majority.
type PlanStore interface {
	// ReadPlan is fenced unless term is zero, WritePlan always.
	ReadPlan(ctx context.Context, typ string, term gossip.Epoch) (daemon.State, error)
	WritePlan(ctx context.Context, typ string, term gossip.Epoch, p daemon.Plan, gone []gossip.NodeID) error
	RequestWorkers(ctx context.Context, typ string, workers int) error
	AckPlan(ctx context.Context, typ string, node gossip.NodeID, a daemon.Ack) error
	// WatchPlan calls fn with the state in this node's replica, now and after changes.
	WatchPlan(typ string, fn func(daemon.State)) (cancel func())
}

func planKey(typ string) tableKey {
	return ddata.LWWMapKey[string, string](StorePrefix + typ + "/plan")
}

func (s dataStore) revStamp(r daemon.Rev) crdt.Stamp {
	return crdt.Stamp{Time: uint64(r.Term), Node: crdt.NodeID(s.self), Seq: r.Seq}
}

func (s dataStore) ReadPlan(ctx context.Context, typ string, term gossip.Epoch) (daemon.State, error) {
	var opts []replicator.Option
	if term != 0 {
		opts = append(opts, fenceOption(typ, term))
	}
	m, err := ddata.Get(ctx, s.d, planKey(typ), ddata.Majority, opts...)
	return planState(m), err
}

func (s dataStore) WritePlan(ctx context.Context, typ string, term gossip.Epoch, p daemon.Plan, gone []gossip.NodeID) error {
	return ddata.Update(ctx, s.d, planKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		m.OfferAt(daemon.PlanEntry, p.Encode(), s.revStamp(p.Rev))
		for _, n := range gone {
			m.Delete(daemon.AckEntry(n))
		}
		return nil
	}, fenceOption(typ, term))
}

func (s dataStore) RequestWorkers(ctx context.Context, typ string, workers int) error {
	return ddata.Update(ctx, s.d, planKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		m.Set(daemon.WishEntry, daemon.EncodeWish(workers))
		return nil
	})
}

func (s dataStore) AckPlan(ctx context.Context, typ string, node gossip.NodeID, a daemon.Ack) error {
	return ddata.Update(ctx, s.d, planKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		m.OfferAt(daemon.AckEntry(node), a.Encode(), s.revStamp(a.Rev))
		return nil
	})
}

func (s dataStore) WatchPlan(typ string, fn func(daemon.State)) (cancel func()) {
	return ddata.Subscribe(s.d, planKey(typ), func(m ddata.LWWMap[string, string]) { fn(planState(m)) })
}

func planState(m ddata.LWWMap[string, string]) daemon.State {
	return daemon.ReadState(m.All(), protocol.ShardsMax)
}
