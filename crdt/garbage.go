package crdt

import (
	"maps"
	"slices"
)

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

func (g *Garbage) addItem(hash uint64) {
	g.Digest += hash
	g.Items++
}

// garbage is the context of dead writers of which nothing is live. The context of
// one that still has live dots stays: it costs one interval, less than its dots.
func (c *causal[P]) garbage(dead func(NodeID) bool) (g Garbage) {
	for i := range c.columns {
		if col := &c.columns[i]; col.used && col.live == 0 && dead(col.node) {
			g.addItem(col.seenHash())
		}
	}
	return g
}

func (c *causal[P]) pruneColumns(agreed Garbage, dead func(NodeID) bool) bool {
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
	return s.grown().pruneColumns(agreed, dead)
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
			g.addItem(tallyHash(x))
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
			v.dropNode(c.node)
		}
	}
	return true
}

// Counters in a map have a share per writer, and the shares of dead writers stay as long as
// their keys: a map that outlives a thousand restarts has a thousand shares under a key
// that each life has counted at. They can be merged in place: one share takes the counts
// of the rest, under its own dot, and the dots of the rest end. All replicas do that at the
// same point of their history or none does; the dot then has the same new payload
// everywhere, and a remove that has seen the shares before ends what came of them.
//
// Like pruning it takes two steps, under the same conditions. The difference:
// all replicas must carry out an agreed order, even if they have changed in between. They
// can, since the shares of a dead writer do not grow and are removed together: a replica
// that saw all of them removes all of them.
//
// Tried and rejected: a fold as in GCounter, a change by a live heir with a record of
// what it took. It needs no agreement before, but a record per key and dead writer
// that no replica may lose; and a heir that takes a share whose younger state is at another
// replica counts it twice.

// shares defines how the elements of a set are shares of counters.
type shares[E, G comparable] struct {
	// split returns the counter and the share that an element is; ok is false for one
	// that is none.
	split func(*E) (g G, p part, ok bool)
	// with returns e with other counts.
	with func(e E, p part) E
	// moved keeps the index in step.
	moved func(old []E, now E)
	// clean identifies the shares of dead writers at the last call that found none to
	// merge.
	clean *uint64
}

// counters returns the shares of these writers by counter, in the order of the
// counters' first ones.
func (x *shares[E, G]) counters(s *ORSet[E], of func(NodeID) bool) (order []G, by map[G][]E) {
	by = map[G][]E{}
	for e := range s.All() {
		g, p, ok := x.split(&e)
		if !ok || !of(p.node) {
			continue
		}
		if by[g] == nil {
			order = append(order, g)
		}
		by[g] = append(by[g], e)
	}
	return order, by
}

// mergeableWriters returns some of the dead writers, in order and at most most, of whom two
// or more have shares of one counter.
func (x *shares[E, G]) mergeableWriters(s *ORSet[E], dead func(NodeID) bool, most int) []NodeID {
	writers, now := s.indexed().standing(dead)
	if writers < 2 || now == *x.clean {
		return nil
	}
	found := map[NodeID]bool{}
	order, by := x.counters(s, dead)
	for _, g := range order {
		if len(by[g]) < 2 {
			continue
		}
		for i := range by[g] {
			if _, p, _ := x.split(&by[g][i]); len(found) < most {
				found[p.node] = true
			}
		}
		if len(found) == most {
			break
		}
	}
	if len(found) == 0 {
		*x.clean = now
	}
	return slices.Sorted(maps.Keys(found))
}

// standing returns how many of the dead writers have live dots, and a number for
// these dots: they go one by one, and any that come have not been seen before.
func (c *causal[P]) standing(dead func(NodeID) bool) (writers int, sum uint64) {
	for i := range c.columns {
		if col := &c.columns[i]; col.used && col.live > 0 && dead(col.node) {
			writers++
			sum += mix(col.seenHash(), uint64(col.live))
		}
	}
	return writers, sum
}

func (x *shares[E, G]) digest(s *ORSet[E], of func(NodeID) bool) (sum Garbage) {
	f := s.indexed()
	order, by := x.counters(s, of)
	for _, g := range order {
		sum.Items += len(by[g]) - 1
		for _, e := range by[g] {
			hash, _ := f.elem.hashAndSize(e)
			for _, d := range f.dots(e) {
				sum.Digest += dotHash(d.Node, d.Seq, hash)
			}
		}
	}
	return sum
}

func (x *shares[E, G]) gather(s *ORSet[E], of func(NodeID) bool) (changed bool) {
	f := s.grown()
	order, by := x.counters(s, of)
	for _, g := range order {
		old := by[g]
		if len(old) < 2 {
			continue
		}
		first, lead := f.dots(old[0])[0], old[0]
		for _, e := range old {
			if d := slices.MinFunc(f.dots(e), Dot.Compare); d.Compare(first) < 0 {
				first, lead = d, e
			}
		}
		_, p, _ := x.split(&lead)
		p.inc, p.dec = upDown(old, func(e *E) part { _, p, _ := x.split(e); return p })
		now := x.with(lead, p)
		for _, e := range old {
			f.eraseElement(e, &ORSet[E]{})
		}
		orsetHooks[E]{f, nil}.arrived(f.insertDot(f.column(first.Node), first.Seq, now))
		x.moved(old, now)
		changed = true
	}
	s.compact()
	return changed
}

// dots returns the dots of an element that is there.
func (f *orset[E]) dots(e E) []Dot {
	at, _ := f.findSlot(f.table.hash(e), e)
	out := []Dot{f.dot(at)}
	for _, more := range f.extra[at] {
		out = append(out, f.dot(more))
	}
	return out
}

func (m *PNCounterMap[K]) shares() *shares[share[K], K] {
	return &shares[share[K], K]{
		clean: &m.tidy,
		split: func(e *share[K]) (K, part, bool) { return e.key, part{e.node, e.born, e.inc, e.dec}, true },
		with:  func(e share[K], p part) share[K] { e.inc, e.dec = p.inc, p.dec; return e },
		moved: func(old []share[K], now share[K]) {
			if m.groups == nil {
				return
			}
			for _, e := range old {
				m.elementLeft(e)
			}
			m.addShare(now)
		},
	}
}

// Loose returns some of the dead writers whose shares stand beside each other under a key,
// in order. It returns at most most of them (at least 2), or none.
func (m *PNCounterMap[K]) Loose(dead func(NodeID) bool, most int) []NodeID {
	return m.shares().mergeableWriters(m.asSet(), dead, most)
}

// Shares returns the shares of these writers for comparison, and in Items how many of them
// Gather would end.
func (m *PNCounterMap[K]) Shares(of func(NodeID) bool) Garbage {
	return m.shares().digest(m.asSet(), of)
}

// Gather merges the shares of these writers, one per counter, and reports whether there
// were any. The content does not change, the digest does. Shares must have been equal at
// all replicas.
func (m *PNCounterMap[K]) Gather(of func(NodeID) bool) bool {
	return m.shares().gather(m.asSet(), of)
}

func (m *ORMap[K, V]) shares() *shares[leaf[V], string] {
	return &shares[leaf[V], string]{
		clean: &m.tidy,
		split: func(e *leaf[V]) (string, part, bool) {
			return e.path, part{e.node, e.born, e.inc, e.dec}, e.field == fieldCounter
		},
		with: func(e leaf[V], p part) leaf[V] { e.inc, e.dec = p.inc, p.dec; return e },
		moved: func(old []leaf[V], now leaf[V]) {
			if m.places == nil {
				return
			}
			for _, e := range old[1:] {
				m.elementLeft(e)
			}
			m.entered(now)
			if now != old[0] {
				m.elementLeft(old[0])
			}
		},
	}
}

// Loose returns some of the dead writers whose shares stand beside each other under a key,
// in order. It returns at most most of them (at least 2), or none.
func (m *ORMap[K, V]) Loose(dead func(NodeID) bool, most int) []NodeID {
	return m.shares().mergeableWriters(m.asSet(), dead, most)
}

// Shares returns the shares of these writers for comparison, and in Items how many of them
// Gather would end.
func (m *ORMap[K, V]) Shares(of func(NodeID) bool) Garbage { return m.shares().digest(m.asSet(), of) }

// Gather merges the shares of these writers, one per counter, and reports whether there
// were any. The content does not change, the digest does. Shares must have been equal at
// all replicas.
func (m *ORMap[K, V]) Gather(of func(NodeID) bool) bool { return m.shares().gather(m.asSet(), of) }
