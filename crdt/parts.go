package crdt

import (
	"iter"
	"slices"
)

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
			hash, _ := c.measure(&c.slotAt(at).val)
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
				out.addSeen(out.column(node), from, to)
			}
		})
		col.each(func(seq uint64, at uint32) {
			if wants(seq >> grain) {
				orsetHooks[E]{out, nil}.arrived(out.insertDot(out.column(node), seq, f.slotAt(at).val))
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

// Grain returns a constant. The parts of a GSet divide its elements by their hashes, and do
// not depend on the grain.
func (s *GSet[E]) Grain() uint8 { return grainMin }

// PartSums returns hashes of the value's n parts: parts with equal hashes are equal. It
// returns nil if the value is too large to be divided so finely.
func (s *GSet[E]) PartSums(n int, _ uint8) []uint64 {
	if n < 1 {
		return nil
	}
	sums := make([]uint64, n)
	for _, e := range s.list {
		hash, _ := s.elementType().hashAndSize(e)
		sums[partOf(0, hash, n)] += mix(hash, hashIntKey)
	}
	return sums
}

// Part returns the content of the parts for which want is true, out of len(want), as a value
// that shares no memory with this one.
func (s *GSet[E]) Part(want []bool, _ uint8) Value {
	part := &GSet[E]{elem: s.elementType()}
	for _, e := range s.list {
		if hash, _ := s.elem.hashAndSize(e); wanted(want, partOf(0, hash, len(want))) {
			part.insertElement(e)
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
	t := m.elementTypes()
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
	t := m.elementTypes()
	part := newLWWMap(t)
	for e := range m.entries() {
		if key, _ := t.key.hashAndSize(e.key); wanted(want, partOf(0, key, len(want))) {
			part.apply(e, nil)
		}
	}
	return &LWWMap[K, V]{types: t, full: part}
}

// A value of any size travels in chunks: small values of the same type whose join
// is the whole. Each chunk's context covers exactly the dots that are in it, so
// chunks may be lost, doubled, reordered and mixed with other deltas, and a
// transfer may break off after any of them: what came is right as far as it goes,
// and nothing is claimed that did not come.

// splitter is a Value that can be cut. All types of this package are.
type splitter interface {
	splitParts(bytesMax int) iter.Seq[Value]
}

// Split yields values whose join equals v, each encoded in at most bytesMax bytes,
// or holding a single element that needs more. It yields at least one value. V
// must not be changed meanwhile; the parts share no memory with it.
func Split(v Value, bytesMax int) iter.Seq[Value] {
	if s, ok := v.(splitter); ok {
		return s.splitParts(bytesMax)
	}
	return func(yield func(Value) bool) { yield(v.Clone()) }
}

// Chunks yields the encodings of the parts of v, see Split. Each can be decoded and
// joined by itself, in any order.
func Chunks(v Value, bytesMax int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for part := range Split(v, bytesMax) {
			if !yield(part.Append(nil)) {
				return
			}
		}
	}
}

const (
	// splitHead bounds the bytes around the columns of a chunk, splitNode those of
	// one writer, splitSpan those of one interval of context, splitRun those of
	// one run of live dots.
	splitHead = 40
	splitNode = 9 + 4
	splitSpan = 2 * 7
	splitRun  = 2 * 7
)

// orsetParts builds the parts of a set, one after the other.
type orsetParts[E comparable] struct {
	s     *orset[E]
	part  *orset[E]
	size  int
	max   int
	yield func(*ORSet[E]) bool
	sent  int
	done  bool
}

func (p *orsetParts[E]) beginPart() {
	if p.part == nil {
		p.part = newORSet(p.s.elem)
		p.size = splitHead
	}
}

func (p *orsetParts[E]) yieldPart() {
	if p.part != nil && !p.done {
		p.done = !p.yield(&ORSet[E]{elem: p.s.elem, full: p.part})
		p.sent++
	}
	p.part = nil
}

// span sends one interval of one writer's context with the live dots in it, cut
// where a part is full.
func (p *orsetParts[E]) span(node NodeID, x span, seqs []uint64, slots []uint32) {
	from := x.from
	if p.size+splitNode+splitSpan > p.max {
		p.yieldPart()
	}
	for i, seq := range seqs {
		e := p.s.slotAt(slots[i]).val
		_, size := p.s.elem.hashAndSize(e)
		size += splitRun
		if p.part != nil && p.part.live > 0 && p.size+splitNode+splitSpan+size > p.max {
			p.addSeen(node, from, seq-1)
			from = seq
			p.yieldPart()
		}
		if p.done {
			return
		}
		p.beginPart()
		ci := p.part.column(node)
		p.part.addSeen(ci, seq, seq)
		orsetHooks[E]{p.part, nil}.arrived(p.part.insertDot(ci, seq, e))
		p.size += size
	}
	p.addSeen(node, from, x.to)
}

func (p *orsetParts[E]) addSeen(node NodeID, from, to uint64) {
	if to < from || p.done {
		return
	}
	p.beginPart()
	p.part.addSeen(p.part.column(node), from, to)
	p.size += splitNode + splitSpan
}

func (s *ORSet[E]) parts(bytesMax int, yield func(*ORSet[E]) bool) {
	f := s.indexed()
	p := &orsetParts[E]{s: f, max: bytesMax, yield: yield}
	for _, i := range f.order() {
		col := &f.columns[i]
		seqs, slots := make([]uint64, 0, col.live), make([]uint32, 0, col.live)
		col.each(func(seq uint64, at uint32) { seqs, slots = append(seqs, seq), append(slots, at) })
		for _, x := range col.seen {
			n, _ := slices.BinarySearch(seqs, x.to+1)
			p.span(col.node, x, seqs[:n], slots[:n])
			seqs, slots = seqs[n:], slots[n:]
		}
	}
	if p.sent == 0 {
		p.beginPart()
	}
	p.yieldPart()
}

func (s *ORSet[E]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		s.parts(bytesMax, func(x *ORSet[E]) bool { return yield(x) })
	}
}

func (f *Flag) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		f.asSet().parts(bytesMax, func(x *ORSet[unit]) bool { return yield(&Flag{*x}) })
	}
}

func (r *MVRegister[V]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		r.set.parts(bytesMax, func(x *ORSet[V]) bool { return yield(&MVRegister[V]{*x}) })
	}
}

func (m *ORMultiMap[K, V]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		m.asSet().parts(bytesMax, func(x *ORSet[pair[K, V]]) bool { return yield(&ORMultiMap[K, V]{set: *x}) })
	}
}

func (m *PNCounterMap[K]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		m.asSet().parts(bytesMax, func(x *ORSet[share[K]]) bool { return yield(&PNCounterMap[K]{set: *x}) })
	}
}

func (m *ORMap[K, V]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		m.asSet().parts(bytesMax, func(x *ORSet[leaf[V]]) bool { return yield(m.wrap(x)) })
	}
}

func (s *GSet[E]) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		part := &GSet[E]{elem: s.elementType()}
		for _, e := range s.list {
			if _, n := s.elem.hashAndSize(e); len(part.list) > 0 && part.Size()+n > bytesMax {
				if !yield(part) {
					return
				}
				part = &GSet[E]{elem: s.elem}
			}
			part.insertElement(e)
		}
		yield(part)
	}
}

func (m *LWWMap[K, V]) splitParts(bytesMax int) iter.Seq[Value] {
	const entryMax = 9 + 3*10 // the stamp, and its node in the table
	return func(yield func(Value) bool) {
		t := m.elementTypes()
		part, size := newLWWMap(t), splitHead
		for e := range m.entries() {
			_, n := t.key.hashAndSize(e.key)
			if !e.dead {
				_, v := t.val.hashAndSize(e.val)
				n += v
			}
			if n += entryMax; part.table.N > 0 && size+n > bytesMax {
				if !yield(&LWWMap[K, V]{types: t, full: part}) {
					return
				}
				part, size = newLWWMap(t), splitHead
			}
			part.apply(e, nil)
			size += n
		}
		yield(&LWWMap[K, V]{types: t, full: part})
	}
}

func (v *VersionVector) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		per := max(1, (bytesMax-splitHead)/18)
		for items := range slices.Chunk(v.items, per) {
			part := &VersionVector{}
			for _, c := range items {
				part.raiseTo(c.node, c.n)
			}
			if !yield(part) {
				return
			}
		}
		if len(v.items) == 0 {
			yield(&VersionVector{})
		}
	}
}

func (c *GCounter) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for part := range c.parts(bytesMax) {
			if !yield(part) {
				return
			}
		}
	}
}

// parts keeps each entry together with the folds into it.
func (c *GCounter) parts(bytesMax int) iter.Seq[*GCounter] {
	return func(yield func(*GCounter) bool) {
		part := &GCounter{}
		for _, x := range c.items {
			e := c.entry(x.node)
			if len(part.items) > 0 && splitHead+part.Size()+e.Size() > bytesMax {
				if !yield(part) {
					return
				}
				part = &GCounter{}
			}
			part.Merge(e)
		}
		yield(part)
	}
}

func (c *PNCounter) splitParts(bytesMax int) iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for part := range c.up.parts(bytesMax - splitHead) {
			if !yield(&PNCounter{up: *part}) {
				return
			}
		}
		for part := range c.down.parts(bytesMax - splitHead) {
			if len(part.items) > 0 && !yield(&PNCounter{down: *part}) {
				return
			}
		}
	}
}
