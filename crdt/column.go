package crdt

import (
	"slices"
	"sort"
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
	blocks []block
	live   int
}

// find returns the index of the first block with that key or a higher one.
func (c *column) find(key uint64) int {
	n := len(c.blocks)
	if n == 0 || c.blocks[n-1].key < key {
		return n
	}
	// Sequence numbers are mostly dense: the block is at the index of its key.
	if i := key - c.blocks[0].key; key >= c.blocks[0].key && i < uint64(n) && c.blocks[i].key == key {
		return int(i)
	}
	return sort.Search(n, func(i int) bool { return c.blocks[i].key >= key })
}

func (c *column) get(seq uint64) (slot uint32, ok bool) {
	key := seq >> blockBits
	i := c.find(key)
	if i == len(c.blocks) || c.blocks[i].key != key {
		return 0, false
	}
	return c.blocks[i].get(seq & (blockLen - 1))
}

func (c *column) put(seq uint64, slot uint32) {
	key := seq >> blockBits
	i := c.find(key)
	if i == len(c.blocks) || c.blocks[i].key != key {
		c.blocks = slices.Insert(c.blocks, i, block{key: key})
	}
	c.blocks[i].put(seq&(blockLen-1), slot)
	c.live++
}

func (c *column) drop(seq uint64) {
	i := c.find(seq >> blockBits)
	b := &c.blocks[i]
	if b.n == 1 {
		c.blocks = slices.Delete(c.blocks, i, i+1)
	} else {
		b.drop(seq & (blockLen - 1))
	}
	c.live--
}

// see adds from..to to what was seen and returns by how much the digest changes.
func (c *column) see(from, to uint64) (sum uint64, changed bool) {
	var gone [4]span
	old := gone[:0]
	i := c.seen.after(from)
	for k := max(i-1, 0); k < len(c.seen) && c.seen[k].from <= to+1; k++ {
		old = append(old, c.seen[k])
	}
	first := max(i-1, 0)
	seen, i, j := c.seen.add(from, to)
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
		return c.see(t[0].from, t[0].to)
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
		base := b.key << blockBits
		b.each(func(low uint64, slot uint32) { f(base+low, slot) })
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
		c.blocks[i].shared = true
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
		lo, hi := max(s.from>>blockBits, next), s.to>>blockBits
		next = hi + 1
		i = max(i, c.find(lo))
		for {
			key, a, b := hi+1, (*block)(nil), (*block)(nil)
			if i < len(c.blocks) {
				key = min(key, c.blocks[i].key)
			}
			if j < len(o.blocks) {
				key = min(key, o.blocks[j].key)
			}
			if key > hi {
				break
			}
			if i < len(c.blocks) && c.blocks[i].key == key {
				a = &c.blocks[i]
				i++
			}
			if j < len(o.blocks) && o.blocks[j].key == key {
				b = &o.blocks[j]
				j++
			}
			if a == nil || b == nil || !sameLive(a, b) {
				diffBlock(key, c.seen, o.seen, a, b, gone, come)
			}
		}
	}
}
