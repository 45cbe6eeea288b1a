package main

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func (r *replica) merge(records []protocol.Record) {
	for _, rec := range records {
		if old, ok := r.records[rec.Shard]; !ok || old.Token.Less(rec.Token) {
			r.records[rec.Shard] = rec
		}
	}
}

func (r *replica) list() []protocol.Record {
	var out []protocol.Record
	for _, s := range slices.Sorted(maps.Keys(r.records)) {
		out = append(out, r.records[s])
	}
	return out
}

// quorum returns a smallest majority of n's view that n can reach, itself first; of two it is the
// more senior other node, with swap the more junior one. It is nil if there is none. A replica
// whose view lacks n does not answer.
func (w *world) quorum(n *node, swap bool) []*node {
	voters := n.view.WithRole(role)
	need := len(voters)/2 + 1
	var out []*node
	for _, m := range voters {
		if at := w.index(m.ID); w.connected(w.index(n.id), at) && w.nodes[at].view.Member(n.id) != nil {
			out = append(out, w.nodes[at])
		}
	}
	slices.SortStableFunc(out, func(a, b *node) int {
		switch {
		case a.id == n.id:
			return -1
		case b.id == n.id:
			return 1
		case swap:
			return int(b.id) - int(a.id)
		}
		return int(a.id) - int(b.id)
	})
	if len(out) < need {
		return nil
	}
	return out[:need]
}

// operate reads or writes at a majority. The result comes back by n's own queue: between the
// two, another coordinator may act.
func (w *world) operate(n *node, o *operation, swap bool) {
	done := &operated{op: o, result: coordinator.OK}
	q := w.quorum(n, swap)
	if q == nil {
		done.result = coordinator.Unknown
		n.replica.merge(o.records)
	}
	for _, r := range q {
		done.higher = max(done.higher, r.replica.fence)
	}
	if done.higher > o.term {
		done.result = coordinator.Fenced
		w.push(control, n, n.id, done)
		return
	}
	for _, r := range q {
		r = w.edit(w.index(r.id))
		r.replica.fence = o.term
		r.replica.merge(o.records)
	}
	if !o.write {
		var all replica
		all.records = map[protocol.ShardID]protocol.Record{}
		for _, r := range q {
			all.merge(w.nodes[w.index(r.id)].replica.list())
		}
		done.records = all.list()
		for _, r := range q {
			w.edit(w.index(r.id)).replica.merge(done.records)
		}
	}
	w.push(control, n, n.id, done)
}

func (w *world) finishOperation(n *node, d *operated) {
	if d.op.write {
		if d.result == coordinator.OK {
			noteWritten(w, d.op.records)
		}
		w.stepCoordinator(n, coordinator.WriteDone{ID: d.op.id, Result: d.result, Higher: d.higher})
		return
	}
	w.stepCoordinator(n, coordinator.ReadDone{ID: d.op.id, Result: d.result, Higher: d.higher, Records: d.records})
}
