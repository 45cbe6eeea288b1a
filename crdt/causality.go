package crdt

import "iter"

func (c *causal[P]) claims(yield func(NodeID, uint64) bool) {
	for i := range c.columns {
		if col := &c.columns[i]; col.used && len(col.seen) > 0 && !yield(col.node, col.seen.max()) {
			return
		}
	}
}

func (o *oneDot[E]) claims(yield func(NodeID, uint64) bool) {
	if o.dot.Seq != 0 && !yield(o.dot.Node, o.dot.Seq) || o.gone.Seq != 0 && !yield(o.gone.Node, o.gone.Seq) {
		return
	}
	for _, d := range o.rest() {
		if !yield(d.Node, d.Seq) {
			return
		}
	}
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (s *ORSet[E]) Claims() iter.Seq2[NodeID, uint64] {
	if s.full != nil {
		return s.full.claims
	}
	return s.one.claims
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (f *Flag) Claims() iter.Seq2[NodeID, uint64] { return f.set.Claims() }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (r *MVRegister[V]) Claims() iter.Seq2[NodeID, uint64] { return r.set.Claims() }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *ORMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *ORMultiMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *PNCounterMap[K]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }
