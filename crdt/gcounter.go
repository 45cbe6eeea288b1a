package crdt

import (
	"cmp"
	"slices"
)

// GCounter counts up. Concurrent operations give:
//
//	Add(2) | Add(3)   5 more
//
// Each writer has an entry of its own, of which the greatest wins, so nothing is
// counted twice however often a delta arrives. The zero GCounter is 0 and ready to
// use. It is not safe for concurrent use.
//
// A dead writer's entry is folded into that of a live one, the heir, before it can
// be pruned. The fold is recorded: the heir's entry grows by the count of the dead entry,
// and a record holds how much of the dead entry now counts elsewhere. The
// count is the sum of the entries less the sum of the records, so it is right in
// every state: with the fold or without it, with two concurrent heirs, and when more
// of the dead writer's counts turn up later. A delta that carries an entry always
// carries everything that its records connect it with: a dead writer's entry never
// travels without all of its records and their heirs' entries. A replica that has
// pruned the dead writer can then receive such a delta and still count right.
//
// Invariant: records are sorted by dead, then heir, and both have entries; sum is the sum of the hashes
// of entries and records.
type GCounter struct {
	tally
	folds []fold
}

// fold is the part of the dead writer's entry that is in the heir's entry.
type fold struct {
	dead, heir NodeID
	n          uint64
}

func (f fold) hash() uint64 { return mix(mix(uint64(f.dead), uint64(f.heir))^hashSpanKey, f.n) }

// Add counts n more, as a change made by node, and returns the delta, or nil if n
// is 0. Only the incarnation node itself may call it. A writer's count stays at its
// maximum instead of turning over.
func (c *GCounter) Add(node NodeID, n uint64) *GCounter {
	to := c.get(node) + n
	if to < n {
		to = ^uint64(0)
	}
	if !c.raiseTo(node, to) {
		return nil
	}
	return c.entry(node)
}

// entry returns a writer's entry with everything that records connect it with.
func (c *GCounter) entry(node NodeID) *GCounter {
	d := &GCounter{}
	c.copyConnected(d, node)
	return d
}

// copyConnected copies the entry of node into d, and every entry and record that is
// reached from it through records, in either direction.
func (c *GCounter) copyConnected(d *GCounter, node NodeID) {
	if !d.raiseTo(node, c.get(node)) {
		return
	}
	for _, f := range c.folds {
		if f.heir == node || f.dead == node {
			d.record(f)
			c.copyConnected(d, f.dead)
			c.copyConnected(d, f.heir)
		}
	}
}

// Count returns the sum over all writers, modulo 2^64.
func (c *GCounter) Count() (sum uint64) {
	for _, x := range c.items {
		sum += x.n
	}
	for _, f := range c.folds {
		sum -= f.n
	}
	return sum
}

// record keeps the greatest amount for each pair of dead and heir.
func (c *GCounter) record(f fold) bool {
	i, ok := slices.BinarySearchFunc(c.folds, f, func(a, b fold) int {
		if a.dead != b.dead {
			return cmp.Compare(a.dead, b.dead)
		}
		return cmp.Compare(a.heir, b.heir)
	})
	switch {
	case ok && c.folds[i].n >= f.n:
		return false
	case ok:
		c.sum -= c.folds[i].hash()
		c.folds[i] = f
	default:
		c.folds = slices.Insert(c.folds, i, f)
	}
	c.sum += f.hash()
	return true
}

// folded returns how much of a writer's entry counts elsewhere.
func (c *GCounter) folded(dead NodeID) (n uint64) {
	for _, f := range c.folds {
		if f.dead == dead {
			n += f.n
		}
	}
	return n
}

// Fold moves the share of a dead writer to heir, as a change made by heir, and returns the
// delta, or nil if there is nothing to move. The content does not change. Only the
// incarnation heir itself may call it.
func (c *GCounter) Fold(dead, heir NodeID) Value {
	if d := c.fold(dead, heir); d != nil {
		return d
	}
	return nil
}

func (c *GCounter) fold(dead, heir NodeID) *GCounter {
	total, gone := c.get(dead), c.folded(dead)
	if dead == heir || total <= gone || c.get(heir)+(total-gone) < total-gone {
		return nil
	}
	rest := total - gone
	c.raiseTo(heir, c.get(heir)+rest)
	f := fold{dead, heir, rest}
	for _, x := range c.folds {
		if x.dead == dead && x.heir == heir {
			f.n += x.n
		}
	}
	c.record(f)
	return c.entry(heir)
}

// Merge joins other into c and reports whether that changed it. Other may be nil.
func (c *GCounter) Merge(other *GCounter) bool {
	if other == nil || other == c {
		return false
	}
	changed := c.joinTally(&other.tally)
	for _, f := range other.folds {
		changed = c.record(f) || changed
	}
	return changed
}

// Writers returns, in order, the writers that have an entry, dead or not: their shares may
// have to be folded.
func (c *GCounter) Writers() []NodeID {
	out := make([]NodeID, len(c.items))
	for i, x := range c.items {
		out[i] = x.node
	}
	return out
}

// Garbage returns the garbage: the entries of dead writers that were folded whole,
// and the records of it.
func (c *GCounter) Garbage(dead func(NodeID) bool) (g Garbage) {
	gone := c.whole(dead)
	for _, x := range c.items {
		if slices.Contains(gone, x.node) {
			g.add(tallyHash(x))
		}
	}
	for _, f := range c.folds {
		if slices.Contains(gone, f.dead) {
			g.add(f.hash())
		}
	}
	return g
}

// whole returns the dead writers of which all counts elsewhere, once. One that has
// inherited from a writer that has to stay stays too: its entry stands on that
// record. So does one that several heirs have folded at the same time.
func (c *GCounter) whole(dead func(NodeID) bool) (gone []NodeID) {
	for _, x := range c.items {
		if dead(x.node) && c.folded(x.node) == x.n {
			gone = append(gone, x.node)
		}
	}
	for before := -1; before != len(gone); {
		before = len(gone)
		for _, f := range c.folds {
			if !slices.Contains(gone, f.dead) {
				gone = slices.DeleteFunc(gone, func(n NodeID) bool { return n == f.heir })
			}
		}
	}
	return gone
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (c *GCounter) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || c.Garbage(dead) != agreed {
		return false
	}
	c.prune(dead)
	return true
}

func (c *GCounter) prune(dead func(NodeID) bool) {
	gone := c.whole(dead)
	for _, n := range gone {
		c.drop(n)
	}
	c.folds = slices.DeleteFunc(c.folds, func(f fold) bool {
		if slices.Contains(gone, f.dead) {
			c.sum -= f.hash()
			return true
		}
		return false
	})
}

// Kind implements Value.
func (c *GCounter) Kind() Kind { return KindGCounter }

// Join implements Value.
func (c *GCounter) Join(other Value) (bool, error) {
	o, ok := other.(*GCounter)
	if !ok {
		return false, mismatch(c, other)
	}
	return c.Merge(o), nil
}

// Clone implements Value.
func (c *GCounter) Clone() Value {
	d := c.copy()
	return &d
}

func (c *GCounter) copy() GCounter { return GCounter{c.clone(), slices.Clone(c.folds)} }

// Digest implements Value.
func (c *GCounter) Digest() uint64 { return c.sum }

// Append implements Value: [kind, [node...], [count...], [dead, heir, n, ...]].
func (c *GCounter) Append(b []byte) []byte {
	b = c.append(appendUint(appendArrayLen(b, 4), uint64(KindGCounter)))
	b = appendArrayLen(b, 3*len(c.folds))
	for _, f := range c.folds {
		b = appendUint(appendUint(appendUint(b, uint64(f.dead)), uint64(f.heir)), f.n)
	}
	return b
}

// Size implements Value.
func (c *GCounter) Size() int { return c.size() + 1 + 27*len(c.folds) }

// Decode replaces c with an encoded counter. On error it is left as it was.
func (c *GCounter) Decode(b []byte) error {
	r := &reader{b: b}
	var d GCounter
	d.read(r)
	if err := r.done(); err != nil {
		return err
	}
	*c = d
	return nil
}

func (c *GCounter) read(r *reader) {
	r.tuple(4)
	readKind(r, KindGCounter)
	c.tally = readTally(r)
	n := r.arrayLen("folds", 1)
	if n%3 != 0 {
		r.fail(ErrMalformed)
	}
	for ; n > 0 && r.err == nil; n -= 3 {
		f := fold{NodeID(r.uint()), NodeID(r.uint()), r.uint()}
		sound := f.n > 0 && f.dead != f.heir && c.get(f.dead) > 0 && c.get(f.heir) > 0
		if last := len(c.folds) - 1; r.err == nil && (!sound || last >= 0 && !c.folds[last].before(f)) {
			r.fail(ErrMalformed)
		}
		if r.err == nil {
			c.record(f)
		}
	}
}

func (f fold) before(g fold) bool { return f.dead < g.dead || f.dead == g.dead && f.heir < g.heir }
