package placement

import (
	"context"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/ddata"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/wire"
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

// The state of a daemon is one LWW-map, so that one read sees all of it: the plan
// and the acknowledgements, whose stamps are their revisions, and the wish.
const (
	planEntry = "plan"
	wishEntry = "wish"
	ackPrefix = "ack/"
)

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
		m.OfferAt(planEntry, appendPlan(p), s.revStamp(p.Rev))
		for _, n := range gone {
			m.Delete(ackPrefix + nodeKey(n))
		}
		return nil
	}, fenceOption(typ, term))
}

func (s dataStore) RequestWorkers(ctx context.Context, typ string, workers int) error {
	return ddata.Update(ctx, s.d, planKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		m.Set(wishEntry, string(wire.AppendUvarint(nil, uint64(workers))))
		return nil
	})
}

func (s dataStore) AckPlan(ctx context.Context, typ string, node gossip.NodeID, a daemon.Ack) error {
	return ddata.Update(ctx, s.d, planKey(typ), ddata.Majority, func(m *ddata.LWWMapTx[string, string]) error {
		m.OfferAt(ackPrefix+nodeKey(node), appendAck(a), s.revStamp(a.Rev))
		return nil
	})
}

func (s dataStore) WatchPlan(typ string, fn func(daemon.State)) (cancel func()) {
	return ddata.Subscribe(s.d, planKey(typ), func(m ddata.LWWMap[string, string]) { fn(planState(m)) })
}

// planState reads the map; entries that are none of ours are left out.
func planState(m ddata.LWWMap[string, string]) daemon.State {
	s := daemon.State{Acked: map[gossip.NodeID]daemon.Ack{}}
	for k, v := range m.All() { // order-free: each entry stands for itself
		in := wire.NewReader([]byte(v))
		switch {
		case k == planEntry:
			p := daemon.Plan{Rev: readRev(in), Workers: int(in.Uvarint()), Running: in.Byte() != 0}
			if in.Err() == nil {
				s.Plan = p
			}
		case k == wishEntry:
			if n := in.Uvarint(); in.Err() == nil && n <= protocol.ShardsMax {
				s.Wish = int(n)
			}
		case len(k) == len(ackPrefix)+8 && k[:len(ackPrefix)] == ackPrefix:
			node := wire.NewReader([]byte(k[len(ackPrefix):])).U64()
			if a := (daemon.Ack{Rev: readRev(in), Since: gossip.Epoch(in.U64())}); in.Err() == nil {
				s.Acked[gossip.NodeID(node)] = a
			}
		}
	}
	return s
}

func appendPlan(p daemon.Plan) string {
	b := appendRev(nil, p.Rev)
	b = wire.AppendUvarint(b, uint64(p.Workers))
	if p.Running {
		return string(append(b, 1))
	}
	return string(append(b, 0))
}

func appendAck(a daemon.Ack) string {
	return string(wire.AppendU64(appendRev(nil, a.Rev), uint64(a.Since)))
}

func appendRev(b []byte, r daemon.Rev) []byte {
	return wire.AppendUvarint(wire.AppendU64(b, uint64(r.Term)), r.Seq)
}

func readRev(in *wire.Reader) daemon.Rev {
	return daemon.Rev{Term: gossip.Epoch(in.U64()), Seq: in.Uvarint()}
}
