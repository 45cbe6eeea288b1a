package coordinator_test

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// replica is one node's part of the modelled replicator: no anti-entropy, so that
// a record lives exactly where a write has put it.
type replica struct {
	fence   gossip.Epoch
	records map[protocol.ShardID]protocol.Record
}

func (r *replica) merge(records []protocol.Record) {
	if r.records == nil {
		r.records = map[protocol.ShardID]protocol.Record{}
	}
	for _, rec := range records {
		if old, ok := r.records[rec.Shard]; !ok || old.Token.Less(rec.Token) {
			r.records[rec.Shard] = rec
		}
	}
}

func (r *replica) all() []protocol.Record {
	var out []protocol.Record
	for _, s := range slices.Sorted(maps.Keys(r.records)) {
		out = append(out, r.records[s])
	}
	return out
}

// op is a read or write under way.
type op struct {
	need   int
	merged replica
	done   func(coordinator.Result, gossip.Epoch, []protocol.Record)
}

const opTimeout = 60 * time.Millisecond

func (n *node) startWrite(e coordinator.Write) {
	n.operate(e.ID, e.Term, e.Records, func(r coordinator.Result, higher gossip.Epoch, _ []protocol.Record) {
		if r == coordinator.OK {
			n.w.check.written(e.Records)
		}
		n.stepCoordinator(coordinator.WriteDone{ID: e.ID, Result: r, Higher: higher})
	})
}

func (n *node) startRead(e coordinator.Read) {
	n.operate(e.ID, e.Term, nil, func(r coordinator.Result, higher gossip.Epoch, records []protocol.Record) {
		n.stepCoordinator(coordinator.ReadDone{ID: e.ID, Result: r, Higher: higher, Records: records})
	})
}

// operate asks every replica of the role in the node's view and waits for more
// than half of them, itself included.
func (n *node) operate(id uint64, term gossip.Epoch, records []protocol.Record, done func(coordinator.Result, gossip.Epoch, []protocol.Record)) {
	replicas := n.view.WithRole("backend")
	o := &op{need: len(replicas)/2 + 1, done: done}
	n.ops[id] = o
	for _, m := range replicas {
		n.ask(m.ID, id, term, records)
	}
	n.w.at(opTimeout, func() { n.end(id, coordinator.Unknown, 0) })
}

func (n *node) end(id uint64, r coordinator.Result, higher gossip.Epoch) {
	o := n.ops[id]
	if o == nil || !n.alive {
		return
	}
	delete(n.ops, id)
	o.done(r, higher, o.merged.all())
}

func (n *node) ask(to gossip.NodeID, id uint64, term gossip.Epoch, records []protocol.Record) {
	dest := n.w.node(to)
	n.hop(to, func() {
		if n.w.unstored != nil && n.w.unstored(to) {
			return
		}
		if term < dest.store.fence {
			higher := dest.store.fence
			dest.hop(n.id, func() { n.end(id, coordinator.Fenced, higher) })
			return
		}
		dest.store.fence = term
		dest.store.merge(records)
		found := dest.store.all()
		dest.hop(n.id, func() {
			o := n.ops[id]
			if o == nil {
				return
			}
			o.merged.merge(found)
			if o.need--; o.need == 0 {
				n.store.merge(o.merged.all())
				n.end(id, coordinator.OK, 0)
			}
		})
	})
}

// hop runs do at another node, if the network lets it.
func (n *node) hop(to gossip.NodeID, do func()) {
	dest := n.w.node(to)
	if to != n.id && n.w.chance(n.w.plan.drop) {
		return
	}
	d := time.Duration(0)
	if to != n.id {
		d = n.w.netDelay()
	}
	n.w.at(d, func() {
		if dest.alive && !n.w.cut[[2]gossip.NodeID{n.id, to}] {
			do()
		}
	})
}
