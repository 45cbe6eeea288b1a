package crdt

import (
	"maps"
	"slices"
)

// Counters in a map have a share per writer, and the shares of dead writers stay as long as
// their keys: a map that outlives a thousand restarts has a thousand shares under a key
// that each life has counted at. They can be merged in place: one share takes the counts
// of the rest, under its own dot, and the dots of the rest end. All replicas do that at the
// same point of their history or none does; the dot then has the same new payload
// everywhere, and a remove that has seen the shares before ends what came of them.
//
// Like pruning it takes two steps, under the same conditions (prune.go). The difference:
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
			f.erase(e, &ORSet[E]{})
		}
		orsetHooks[E]{f, nil}.arrived(f.insert(f.column(first.Node), first.Seq, now))
		x.moved(old, now)
		changed = true
	}
	s.compact()
	return changed
}

// dots returns the dots of an element that is there.
func (f *orset[E]) dots(e E) []Dot {
	at, _ := f.find(f.table.hash(e), e)
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
