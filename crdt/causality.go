package crdt

import "iter"

// Causal is a Value with a causal context: all but the counters, GSet, the
// last-writer-wins types and VersionVector.
type Causal interface {
	Value
	// Context returns a copy of the causal context.
	Context() *Context
	// Claims yields the writers in the context, in no particular order, each with its
	// highest sequence number in the context. It costs next to nothing, and may yield a
	// writer more than once. A process that finds a higher number for itself than it has
	// used shares its NodeID with another process, has come back with an old state, or has
	// received a damaged value: after a join it continues above that number.
	Claims() iter.Seq2[NodeID, uint64]
}

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

// Claims implements Causal.
func (s *ORSet[E]) Claims() iter.Seq2[NodeID, uint64] {
	if s.full != nil {
		return s.full.claims
	}
	return s.one.claims
}

// Claims implements Causal.
func (f *Flag) Claims() iter.Seq2[NodeID, uint64] { return f.set.Claims() }

// Claims implements Causal.
func (r *MVRegister[V]) Claims() iter.Seq2[NodeID, uint64] { return r.set.Claims() }

// Claims implements Causal.
func (m *ORMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }

// Claims implements Causal.
func (m *ORMultiMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }

// Claims implements Causal.
func (m *PNCounterMap[K]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }
