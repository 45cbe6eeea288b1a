package crdt

// Comparing large values
//
// Two replicas of a large value with few differences compare the sums of its parts, and
// exchange the parts that differ. A part is itself a small value: a replica that joins the
// other side's parts, of all parts whose sums differ, has joined the other side's value.
// For this, a part of a causal value is not a set of elements but a set of dots, seen and
// live: the context of a part then covers exactly its dots, including removals. (With sets
// of elements, a removal could not be distinguished from an element that has not arrived
// yet, without sending the whole context.)
//
// Dots come in runs, and so do differences, so 2^grain consecutive dots of a writer
// stand in one part. The grain grows with the number of operations a value has seen,
// which bounds what comparing costs; at 17 million it is still 64 dots.

const (
	grainMin = 6
	grainMax = 43
	// blocksMax bounds the blocks of a value at its own grain; at another replica's grain
	// the bound is four times that.
	blocksMax = 1 << 18
)

// partOf returns the part of n in which a block of dots stands, -1 if there are no parts.
func partOf(node NodeID, block uint64, n int) int {
	if n < 1 {
		return -1
	}
	return int(mix(uint64(node), block) % uint64(n))
}

// wanted reports whether part i is asked for.
func wanted(want []bool, i int) bool { return i >= 0 && want[i] }

// blocksAt counts the blocks that the context touches.
func (c *causal[P]) blocksAt(grain uint8) (n uint64) {
	for i := range c.columns {
		for _, s := range c.columns[i].seen {
			n += s.to>>grain - s.from>>grain + 1
		}
	}
	return n
}

func (c *causal[P]) grain() uint8 {
	g := uint8(grainMin)
	for g < grainMax && c.blocksAt(g) > blocksMax {
		g++
	}
	return g
}

// eachBlock calls f with each piece of the context that stands in one block.
func (c *column) eachBlock(grain uint8, f func(block, from, to uint64)) {
	for _, s := range c.seen {
		for b := s.from >> grain; b <= s.to>>grain; b++ {
			f(b, max(s.from, b<<grain), min(s.to, (b+1)<<grain-1))
		}
	}
}

func (c *causal[P]) partSums(n int, grain uint8) []uint64 {
	if n < 1 || grain < grainMin || grain > grainMax || c.blocksAt(grain) > 4*blocksMax {
		return nil
	}
	sums := make([]uint64, n)
	for i := range c.columns {
		col := &c.columns[i]
		col.eachBlock(grain, func(b, from, to uint64) { sums[partOf(col.node, b, n)] += spanHash(col.node, from, to) })
		col.each(func(seq uint64, at uint32) {
			hash, _ := c.measure(&c.at(at).val)
			sums[partOf(col.node, seq>>grain, n)] += dotHash(col.node, seq, hash)
		})
	}
	return sums
}

func (f *orset[E]) part(want []bool, grain uint8) *orset[E] {
	out := newORSet(f.elem)
	for _, i := range f.order() {
		col := &f.columns[i]
		node := col.node
		wants := func(block uint64) bool { return wanted(want, partOf(node, block, len(want))) }
		col.eachBlock(grain, func(b, from, to uint64) {
			if wants(b) {
				out.see(out.column(node), from, to)
			}
		})
		col.each(func(seq uint64, at uint32) {
			if wants(seq >> grain) {
				orsetHooks[E]{out, nil}.arrived(out.insert(out.column(node), seq, f.at(at).val))
			}
		})
	}
	return out
}

// Grain returns how finely to divide the value into parts. Both sides of a comparison must
// use the same grain.
func (s *ORSet[E]) Grain() uint8 { return s.indexed().grain() }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (s *ORSet[E]) PartSums(n int, grain uint8) []uint64 { return s.indexed().partSums(n, grain) }

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (s *ORSet[E]) Part(want []bool, grain uint8) Value { return s.cut(want, grain) }

func (s *ORSet[E]) cut(want []bool, grain uint8) *ORSet[E] {
	f := s.indexed()
	return &ORSet[E]{elem: f.elem, full: f.part(want, grain)}
}

// Grain returns how finely to divide the value into parts. Both sides of a comparison must
// use the same grain.
func (m *ORMultiMap[K, V]) Grain() uint8 { return m.asSet().Grain() }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (m *ORMultiMap[K, V]) PartSums(n int, grain uint8) []uint64 { return m.asSet().PartSums(n, grain) }

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (m *ORMultiMap[K, V]) Part(want []bool, grain uint8) Value {
	return &ORMultiMap[K, V]{set: *m.asSet().cut(want, grain)}
}

// Grain returns how finely to divide the value into parts. Both sides of a comparison must
// use the same grain.
func (m *PNCounterMap[K]) Grain() uint8 { return m.asSet().Grain() }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (m *PNCounterMap[K]) PartSums(n int, grain uint8) []uint64 { return m.asSet().PartSums(n, grain) }

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (m *PNCounterMap[K]) Part(want []bool, grain uint8) Value {
	return &PNCounterMap[K]{set: *m.asSet().cut(want, grain)}
}

// Grain returns how finely to divide the value into parts. Both sides of a comparison must
// use the same grain.
func (m *ORMap[K, V]) Grain() uint8 { return m.asSet().Grain() }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (m *ORMap[K, V]) PartSums(n int, grain uint8) []uint64 { return m.asSet().PartSums(n, grain) }

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (m *ORMap[K, V]) Part(want []bool, grain uint8) Value { return m.wrap(m.asSet().cut(want, grain)) }

// Grain returns a constant: the parts of a set that only grows go by its elements,
// whatever the grain.
func (s *GSet[E]) Grain() uint8 { return grainMin }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (s *GSet[E]) PartSums(n int, _ uint8) []uint64 {
	if n < 1 {
		return nil
	}
	sums := make([]uint64, n)
	for _, e := range s.list {
		hash, _ := s.element().hashAndSize(e)
		sums[partOf(0, hash, n)] += mix(hash, hashIntKey)
	}
	return sums
}

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (s *GSet[E]) Part(want []bool, _ uint8) Value {
	part := &GSet[E]{elem: s.element()}
	for _, e := range s.list {
		if hash, _ := s.elem.hashAndSize(e); wanted(want, partOf(0, hash, len(want))) {
			part.insert(e)
		}
	}
	return part
}

// Grain returns a constant: the parts of a map go by its keys, whatever the grain.
func (m *LWWMap[K, V]) Grain() uint8 { return grainMin }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (m *LWWMap[K, V]) PartSums(n int, _ uint8) []uint64 {
	if n < 1 {
		return nil
	}
	t := m.elements()
	sums := make([]uint64, n)
	for e := range m.entries() {
		key, _ := t.key.hashAndSize(e.key)
		hash := mix(key, stampHash(e.stamp))
		if !e.dead {
			v, _ := t.val.hashAndSize(e.val)
			hash = mix(mix(key, v), stampHash(e.stamp))
		}
		sums[partOf(0, key, n)] += hash
	}
	return sums
}

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (m *LWWMap[K, V]) Part(want []bool, _ uint8) Value {
	t := m.elements()
	part := newLWWMap(t)
	for e := range m.entries() {
		if key, _ := t.key.hashAndSize(e.key); wanted(want, partOf(0, key, len(want))) {
			part.apply(e, nil)
		}
	}
	return &LWWMap[K, V]{types: t, full: part}
}
