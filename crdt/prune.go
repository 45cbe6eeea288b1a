package crdt

import "slices"

// Values hold more than their content: the context of dead writers, tombstones, and the
// entries of dead writers in counters. All of it is garbage once every replica has it and
// nothing older is in flight; pruning it earlier would bring removed content back. A value
// cannot determine this moment, so pruning takes two steps. First, every replica returns
// the garbage of these dead writers. If the results are equal, all replicas have seen the
// same changes. Then every replica is ordered to prune that garbage; a replica that has
// changed since does nothing, and both steps are repeated. The caller must make sure that
//
//   - the writers are dead for good, and frames from them are rejected;
//   - the answer of a replica comes after all that it sent before it, on each way
//     between two replicas; values held by a queue or a transfer are replicas too.
//
// Tried and rejected: forgetting after a time (Akka: values "will not be correct"
// after a pause longer than that), and markers inside the values (Akka #21647,
// akka.net #8219: each merge path must handle them, and two concurrent prunings did
// not).

// Garbage is the garbage of a value, as one number for comparison.
type Garbage struct {
	// Digest is equal for two values with the same garbage.
	Digest uint64
	// Items is the number of entries that would be freed.
	Items int
}

func (g *Garbage) add(hash uint64) {
	g.Digest += hash
	g.Items++
}

// garbage is the context of dead writers of which nothing is live. The context of
// one that still has live dots stays: it costs one interval, less than its dots.
func (c *causal[P]) garbage(dead func(NodeID) bool) (g Garbage) {
	for i := range c.columns {
		if col := &c.columns[i]; col.used && col.live == 0 && dead(col.node) {
			g.add(col.seenHash())
		}
	}
	return g
}

func (c *causal[P]) prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || c.garbage(dead) != agreed {
		return false
	}
	for i := range c.columns {
		col := &c.columns[i]
		if !col.used || col.live > 0 || !dead(col.node) {
			continue
		}
		c.sum -= col.seenHash()
		delete(c.index, col.node)
		*col = column{}
		c.idle++
	}
	return true
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (s *ORSet[E]) Garbage(dead func(NodeID) bool) Garbage {
	if s.full == nil && s.one.more == nil {
		return s.smallGarbage(dead)
	}
	return s.indexed().garbage(dead)
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (s *ORSet[E]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return s.grown().prune(agreed, dead)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (f *Flag) Garbage(dead func(NodeID) bool) Garbage { return f.asSet().Garbage(dead) }

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (f *Flag) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return f.asSet().Prune(agreed, dead)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (r *MVRegister[V]) Garbage(dead func(NodeID) bool) Garbage { return r.set.Garbage(dead) }

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (r *MVRegister[V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return r.set.Prune(agreed, dead)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (m *ORMap[K, V]) Garbage(dead func(NodeID) bool) Garbage { return m.asSet().Garbage(dead) }

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (m *ORMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.asSet().Prune(agreed, dead)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (m *ORMultiMap[K, V]) Garbage(dead func(NodeID) bool) Garbage { return m.asSet().Garbage(dead) }

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (m *ORMultiMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.asSet().Prune(agreed, dead)
}

// Garbage returns the garbage as of any value with a causal context. The shares of a dead writer stay as long as their
// keys do; Gather puts them together.
func (m *PNCounterMap[K]) Garbage(dead func(NodeID) bool) Garbage { return m.asSet().Garbage(dead) }

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (m *PNCounterMap[K]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.asSet().Prune(agreed, dead)
}

// Garbage returns the garbage: all tombstones, of all writers.
func (m *LWWMap[K, V]) Garbage(func(NodeID) bool) Garbage {
	if m.full != nil {
		return Garbage{Digest: m.full.tombs, Items: m.full.dead}
	}
	if !m.one.dead {
		return Garbage{}
	}
	return Garbage{Digest: m.Digest(), Items: 1}
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (m *LWWMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || m.Garbage(dead) != agreed {
		return false
	}
	return m.DropTombstones(func(K, Stamp) bool { return true }) > 0
}

// Garbage returns the garbage: the entries of dead writers.
func (v *VersionVector) Garbage(dead func(NodeID) bool) (g Garbage) {
	for _, x := range v.items {
		if dead(x.node) {
			g.add(tallyHash(x))
		}
	}
	return g
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (v *VersionVector) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || v.Garbage(dead) != agreed {
		return false
	}
	for _, c := range slices.Clone(v.items) {
		if dead(c.node) {
			v.drop(c.node)
		}
	}
	return true
}
