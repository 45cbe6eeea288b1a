package crdt

import (
	"slices"
	"sort"

	"github.com/peerage-go/peerage/internal/crdt/dots"
)

// column is what a value holds of one writer: the dots it has seen and the live
// ones among them.
//
// Invariant: blocks are sorted by key, none is empty, live is the sum of their
// dots, and every live dot is in seen.
type column struct {
	node   NodeID
	used   bool // an unused column waits for the next writer
	seen   spans
	blocks []dots.Block
	live   int
}

// findBlock returns the index of the first block with that key or a higher one.
func (c *column) findBlock(key uint64) int {
	n := len(c.blocks)
	if n == 0 || c.blocks[n-1].Key < key {
		return n
	}
	// Sequence numbers are mostly dense: the block is at the index of its key.
	if i := key - c.blocks[0].Key; key >= c.blocks[0].Key && i < uint64(n) && c.blocks[i].Key == key {
		return int(i)
	}
	return sort.Search(n, func(i int) bool { return c.blocks[i].Key >= key })
}

func (c *column) slotOf(seq uint64) (slot uint32, ok bool) {
	key := seq >> dots.BlockBits
	i := c.findBlock(key)
	if i == len(c.blocks) || c.blocks[i].Key != key {
		return 0, false
	}
	return c.blocks[i].Get(seq & (dots.BlockLen - 1))
}

func (c *column) putSlot(seq uint64, slot uint32) {
	key := seq >> dots.BlockBits
	i := c.findBlock(key)
	if i == len(c.blocks) || c.blocks[i].Key != key {
		c.blocks = slices.Insert(c.blocks, i, dots.Block{Key: key})
	}
	c.blocks[i].Put(seq&(dots.BlockLen-1), slot)
	c.live++
}

func (c *column) dropSlot(seq uint64) {
	i := c.findBlock(seq >> dots.BlockBits)
	b := &c.blocks[i]
	if b.N == 1 {
		c.blocks = slices.Delete(c.blocks, i, i+1)
	} else {
		b.Drop(seq & (dots.BlockLen - 1))
	}
	c.live--
}

// addSeen adds from..to to what was seen and returns by how much the digest changes.
func (c *column) addSeen(from, to uint64) (sum uint64, changed bool) {
	var gone [4]span
	old := gone[:0]
	i := c.seen.after(from)
	for k := max(i-1, 0); k < len(c.seen) && c.seen[k].from <= to+1; k++ {
		old = append(old, c.seen[k])
	}
	first := max(i-1, 0)
	seen, i, j := c.seen.addRange(from, to)
	if i < 0 {
		return 0, false
	}
	c.seen = seen
	for k := i; k < j; k++ {
		sum -= spanHash(c.node, old[k-first].from, old[k-first].to)
	}
	return sum + spanHash(c.node, seen[i].from, seen[i].to), true
}

// seeAll adds t to what was seen and returns by how much the digest changes.
func (c *column) seeAll(t spans) (sum uint64, changed bool) {
	if len(t) == 1 {
		return c.addSeen(t[0].from, t[0].to)
	}
	if c.seen.covers(t) {
		return 0, false
	}
	sum -= c.seenHash()
	c.seen = c.seen.union(t)
	return sum + c.seenHash(), true
}

func (c *column) seenHash() (sum uint64) {
	for _, s := range c.seen {
		sum += spanHash(c.node, s.from, s.to)
	}
	return sum
}

// each calls f for every live dot, in order.
func (c *column) each(f func(seq uint64, slot uint32)) {
	for i := range c.blocks {
		b := &c.blocks[i]
		base := b.Key << dots.BlockBits
		b.Each(func(low uint64, slot uint32) { f(base+low, slot) })
	}
}

// runs returns the live dots as spans.
func (c *column) runs() spans {
	var s spans
	c.each(func(seq uint64, _ uint32) { s = s.push(span{seq, seq}) })
	return s
}

// shareColumn returns a copy, which has the blocks' contents in common until one of the two
// changes them.
func (c *column) shareColumn() column {
	d := *c
	d.seen = c.seen.clone()
	for i := range c.blocks {
		c.blocks[i].Shared = true
	}
	d.blocks = slices.Clone(c.blocks)
	return d
}

// diff compares the column with another value's column of the same writer by
// the join formula, live' = (A and B) or (A minus seenB) or (B minus seenA), and
// calls gone for each dot that A loses, come for each that it gains. It looks only
// at blocks that B has seen anything of.
func (c *column) diff(o *column, gone, come func(seq uint64)) {
	i, j, next := 0, 0, uint64(0)
	for _, s := range o.seen {
		lo, hi := max(s.from>>dots.BlockBits, next), s.to>>dots.BlockBits
		next = hi + 1
		i = max(i, c.findBlock(lo))
		for {
			key, a, b := hi+1, (*dots.Block)(nil), (*dots.Block)(nil)
			if i < len(c.blocks) {
				key = min(key, c.blocks[i].Key)
			}
			if j < len(o.blocks) {
				key = min(key, o.blocks[j].Key)
			}
			if key > hi {
				break
			}
			if i < len(c.blocks) && c.blocks[i].Key == key {
				a = &c.blocks[i]
				i++
			}
			if j < len(o.blocks) && o.blocks[j].Key == key {
				b = &o.blocks[j]
				j++
			}
			if a == nil || b == nil || !dots.SameLive(a, b) {
				diffBlock(key, c.seen, o.seen, a, b, gone, come)
			}
		}
	}
}

// seqMax is the highest sequence number a writer may use, and seqWireMax the
// highest one taken from the wire. The distance between them keeps a hostile or
// damaged encoding from using up a writer's numbers.
const (
	seqMax     = 1<<44 - 1
	seqWireMax = 1<<43 - 1
)

// span is a run of sequence numbers, both ends included.
type span struct{ from, to uint64 }

// spans is a set of sequence numbers, exact whatever its gaps.
//
// Invariant: sorted, from >= 1, and any two spans have a gap between them, so
// that equal sets are equal slices.
type spans []span

// after returns the index of the first span that ends at q or later.
func (s spans) after(q uint64) int {
	if n := len(s); n == 0 || s[n-1].to < q {
		return n
	}
	return sort.Search(len(s), func(i int) bool { return s[i].to >= q })
}

func (s spans) has(q uint64) bool {
	n := len(s)
	if n == 0 {
		return false
	}
	if s[n-1].from <= q {
		return q <= s[n-1].to
	}
	i := s.after(q)
	return s[i].from <= q
}

// covers reports whether all of t is in s.
func (s spans) covers(t spans) bool {
	for _, x := range t {
		i := s.after(x.from)
		if i == len(s) || s[i].from > x.from || s[i].to < x.to {
			return false
		}
	}
	return true
}

// max returns the highest number in s, or 0.
func (s spans) max() uint64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].to
}

// addRange puts from..to into s. It returns the new set and the half-open range
// [i,j) of old spans that the one span at index i of the new set replaces; i is -1
// if nothing changed.
func (s spans) addRange(from, to uint64) (out spans, i, j int) {
	n := len(s)
	if n > 0 && s[n-1].to+1 == from {
		i, j = n-1, n
		return s.replaceSpans(i, j, span{s[i].from, to}), i, j
	}
	i = s.after(from)
	if i < n && s[i].from <= from && to <= s[i].to {
		return s, -1, -1
	}
	if i > 0 && s[i-1].to+1 == from {
		i--
	}
	j = i
	x := span{from, to}
	for j < n && s[j].from <= to+1 {
		x.from, x.to = min(x.from, s[j].from), max(x.to, s[j].to)
		j++
	}
	return s.replaceSpans(i, j, x), i, j
}

func (s spans) replaceSpans(i, j int, x span) spans {
	switch {
	case j > i:
		s[i] = x
		return append(s[:i+1], s[j:]...)
	case i == len(s):
		return append(s, x)
	}
	s = append(s, span{})
	copy(s[i+1:], s[i:])
	s[i] = x
	return s
}

// union returns the set of what is in s or t, in memory of its own.
func (s spans) union(t spans) spans {
	out := make(spans, 0, len(s)+len(t))
	for len(s) > 0 || len(t) > 0 {
		if len(t) == 0 || len(s) > 0 && s[0].from <= t[0].from {
			out, s = out.push(s[0]), s[1:]
		} else {
			out, t = out.push(t[0]), t[1:]
		}
	}
	return out
}

// push adds a span that starts no earlier than the last one.
func (s spans) push(x span) spans {
	if n := len(s); n > 0 && s[n-1].to+1 >= x.from {
		s[n-1].to = max(s[n-1].to, x.to)
		return s
	}
	return append(s, x)
}

// count returns how many numbers are in s.
func (s spans) count() (n uint64) {
	for _, x := range s {
		n += x.to - x.from + 1
	}
	return n
}

// mask returns the numbers key*1024 .. key*1024+1023 of s as a bitmap.
func (s spans) mask(key uint64) (m dots.Bitmap) {
	lo := key << dots.BlockBits
	hi := lo + dots.BlockLen - 1
	for i := s.after(lo); i < len(s) && s[i].from <= hi; i++ {
		m.Fill(max(s[i].from, lo)-lo, min(s[i].to, hi)-lo)
	}
	return m
}

func (s spans) clone() spans { return append(spans(nil), s...) }
