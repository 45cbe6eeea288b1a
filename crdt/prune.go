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

// Pruner is a Value that holds more than its content. All types except GSet and LWWRegister
// are Pruners.
type Pruner interface {
	Value
	// Garbage returns the garbage of the value if the writers for which dead returns true
	// are gone for good.
	Garbage(dead func(NodeID) bool) Garbage
	// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
	// reports whether it did. The content does not change, but the digest does.
	Prune(agreed Garbage, dead func(NodeID) bool) bool
}

// Folder is a Pruner whose shares of dead writers must be moved to a live writer before
// pruning: a counter.
type Folder interface {
	Pruner
	// Fold moves the share of a dead writer to heir, as a change made by heir, and returns
	// the delta, or nil if there is nothing to move. The content does not change. Only the
	// incarnation heir itself may call it. Two concurrent heirs do no harm, but keep the
	// entry from ever being pruned: let one member fold.
	Fold(dead, heir NodeID) Value
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

// Garbage implements Pruner.
func (s *ORSet[E]) Garbage(dead func(NodeID) bool) Garbage {
	if s.full == nil && s.one.more == nil {
		return s.smallGarbage(dead)
	}
	return s.indexed().garbage(dead)
}

// Prune implements Pruner.
func (s *ORSet[E]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return s.grown().prune(agreed, dead)
}

// Garbage implements Pruner.
func (f *Flag) Garbage(dead func(NodeID) bool) Garbage { return f.inner().Garbage(dead) }

// Prune implements Pruner.
func (f *Flag) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return f.inner().Prune(agreed, dead)
}

// Garbage implements Pruner.
func (r *MVRegister[V]) Garbage(dead func(NodeID) bool) Garbage { return r.set.Garbage(dead) }

// Prune implements Pruner.
func (r *MVRegister[V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return r.set.Prune(agreed, dead)
}

// Garbage implements Pruner.
func (m *ORMap[K, V]) Garbage(dead func(NodeID) bool) Garbage { return m.inner().Garbage(dead) }

// Prune implements Pruner.
func (m *ORMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.inner().Prune(agreed, dead)
}

// Garbage implements Pruner.
func (m *ORMultiMap[K, V]) Garbage(dead func(NodeID) bool) Garbage { return m.inner().Garbage(dead) }

// Prune implements Pruner.
func (m *ORMultiMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.inner().Prune(agreed, dead)
}

// Garbage implements Pruner. The shares of a dead writer stay as long as their
// keys do; Gather puts them together.
func (m *PNCounterMap[K]) Garbage(dead func(NodeID) bool) Garbage { return m.inner().Garbage(dead) }

// Prune implements Pruner.
func (m *PNCounterMap[K]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	return m.inner().Prune(agreed, dead)
}

// Garbage implements Pruner: all tombstones, of all writers.
func (m *LWWMap[K, V]) Garbage(func(NodeID) bool) Garbage {
	if m.full != nil {
		return Garbage{Digest: m.full.tombs, Items: m.full.dead}
	}
	if !m.one.dead {
		return Garbage{}
	}
	return Garbage{Digest: m.Digest(), Items: 1}
}

// Prune implements Pruner.
func (m *LWWMap[K, V]) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || m.Garbage(dead) != agreed {
		return false
	}
	return m.DropTombstones(func(K, Stamp) bool { return true }) > 0
}

// Garbage implements Pruner: the entries of dead writers.
func (v *VersionVector) Garbage(dead func(NodeID) bool) (g Garbage) {
	for _, x := range v.items {
		if dead(x.node) {
			g.add(tallyHash(x))
		}
	}
	return g
}

// Prune implements Pruner.
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
