package crdt

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
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
			g.addItem(tallyHash(x))
		}
	}
	for _, f := range c.folds {
		if slices.Contains(gone, f.dead) {
			g.addItem(f.hash())
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
	c.dropFolded(dead)
	return true
}

func (c *GCounter) dropFolded(dead func(NodeID) bool) {
	gone := c.whole(dead)
	for _, n := range gone {
		c.dropNode(n)
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

func (c *GCounter) copy() GCounter { return GCounter{c.cloneTally(), slices.Clone(c.folds)} }

// Digest implements Value.
func (c *GCounter) Digest() uint64 { return c.sum }

// Append implements Value: [kind, [node...], [count...], [dead, heir, n, ...]].
func (c *GCounter) Append(b []byte) []byte {
	b = c.append(canonical.AppendUint(canonical.AppendArrayLen(b, 4), uint64(KindGCounter)))
	b = canonical.AppendArrayLen(b, 3*len(c.folds))
	for _, f := range c.folds {
		b = canonical.AppendUint(canonical.AppendUint(canonical.AppendUint(b, uint64(f.dead)), uint64(f.heir)), f.n)
	}
	return b
}

// Size implements Value.
func (c *GCounter) Size() int { return c.size() + 1 + 27*len(c.folds) }

// Decode replaces c with an encoded counter. On error it is left as it was.
func (c *GCounter) Decode(b []byte) error {
	r := &reader{canonical.Reader{B: b}}
	var d GCounter
	d.decodeFrom(r)
	if err := r.Done(); err != nil {
		return err
	}
	*c = d
	return nil
}

func (c *GCounter) decodeFrom(r *reader) {
	r.tuple(4)
	readKind(r, KindGCounter)
	c.tally = readTally(r)
	n := r.arrayLen("folds", 1)
	if n%3 != 0 {
		r.Fail(ErrMalformed)
	}
	for ; n > 0 && r.Err == nil; n -= 3 {
		f := fold{NodeID(r.Uint()), NodeID(r.Uint()), r.Uint()}
		sound := f.n > 0 && f.dead != f.heir && c.get(f.dead) > 0 && c.get(f.heir) > 0
		if last := len(c.folds) - 1; r.Err == nil && (!sound || last >= 0 && !c.folds[last].before(f)) {
			r.Fail(ErrMalformed)
		}
		if r.Err == nil {
			c.record(f)
		}
	}
}

func (f fold) before(g fold) bool { return f.dead < g.dead || f.dead == g.dead && f.heir < g.heir }

// PNCounter counts up and down. Concurrent operations give:
//
//	Add(2) | Add(-3)   1 less
//
// The zero PNCounter is 0 and ready to use. It is not safe for concurrent use.
type PNCounter struct{ up, down GCounter }

// Add counts n, up or down, as a change made by node, and returns the delta, or
// nil if n is 0. Only the incarnation node itself may call it.
func (c *PNCounter) Add(node NodeID, n int64) *PNCounter {
	d := &PNCounter{}
	var part *GCounter
	if n >= 0 {
		part = c.up.Add(node, uint64(n))
	} else {
		part = c.down.Add(node, uint64(-n))
	}
	if part == nil {
		return nil
	}
	if n >= 0 {
		d.up = *part
	} else {
		d.down = *part
	}
	return d
}

// Count returns the count over all writers, modulo 2^64.
func (c *PNCounter) Count() int64 { return int64(c.up.Count() - c.down.Count()) }

// Merge joins other into c and reports whether that changed it. Other may be nil.
func (c *PNCounter) Merge(other *PNCounter) bool {
	if other == nil {
		return false
	}
	up := c.up.Merge(&other.up)
	return c.down.Merge(&other.down) || up
}

// Fold moves the share of a dead writer to heir, as a change made by heir, and returns the
// delta, or nil if there is nothing to move. The content does not change. Only the
// incarnation heir itself may call it.
func (c *PNCounter) Fold(dead, heir NodeID) Value {
	up, down := c.up.fold(dead, heir), c.down.fold(dead, heir)
	if up == nil && down == nil {
		return nil
	}
	d := &PNCounter{}
	d.up.Merge(up)
	d.down.Merge(down)
	return d
}

// Writers returns, in order, the writers that have an entry, dead or not.
func (c *PNCounter) Writers() []NodeID {
	out := append(c.up.Writers(), c.down.Writers()...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (c *PNCounter) Garbage(dead func(NodeID) bool) Garbage {
	g, h := c.up.Garbage(dead), c.down.Garbage(dead)
	return Garbage{Digest: g.Digest + h.Digest*hashKey0, Items: g.Items + h.Items}
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (c *PNCounter) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || c.Garbage(dead) != agreed {
		return false
	}
	c.up.dropFolded(dead)
	c.down.dropFolded(dead)
	return true
}

// Kind implements Value.
func (c *PNCounter) Kind() Kind { return KindPNCounter }

// Join implements Value.
func (c *PNCounter) Join(other Value) (bool, error) {
	o, ok := other.(*PNCounter)
	if !ok {
		return false, mismatch(c, other)
	}
	return c.Merge(o), nil
}

// Clone implements Value.
func (c *PNCounter) Clone() Value { return &PNCounter{c.up.copy(), c.down.copy()} }

// Digest implements Value.
func (c *PNCounter) Digest() uint64 { return c.up.sum + c.down.sum*hashKey0 }

// Append implements Value: the two counters, one after the other.
func (c *PNCounter) Append(b []byte) []byte {
	b = canonical.AppendUint(canonical.AppendArrayLen(b, 3), uint64(KindPNCounter))
	return c.down.Append(c.up.Append(b))
}

// Size implements Value.
func (c *PNCounter) Size() int { return 2 + c.up.Size() + c.down.Size() }

// Decode replaces c with an encoded counter. On error it is left as it was.
func (c *PNCounter) Decode(b []byte) error {
	r := &reader{canonical.Reader{B: b}}
	r.tuple(3)
	readKind(r, KindPNCounter)
	var d PNCounter
	d.up.decodeFrom(r)
	d.down.decodeFrom(r)
	if err := r.Done(); err != nil {
		return err
	}
	*c = d
	return nil
}

// tally holds a number per writer that only grows.
//
// Invariant: sorted by node, no number is 0, sum is the sum of tallyHash.
type tally struct {
	items []count
	sum   uint64
}

type count struct {
	node NodeID
	n    uint64
}

func tallyHash(c count) uint64 { return mix(uint64(c.node), c.n) }

func (t *tally) findNode(n NodeID) (int, bool) {
	return slices.BinarySearchFunc(t.items, n, func(c count, n NodeID) int { return cmp.Compare(c.node, n) })
}

func (t *tally) get(n NodeID) uint64 {
	if i, ok := t.findNode(n); ok {
		return t.items[i].n
	}
	return 0
}

// raiseTo sets the number of a writer, unless it is that high already.
func (t *tally) raiseTo(n NodeID, to uint64) bool {
	i, ok := t.findNode(n)
	switch {
	case to == 0 || ok && t.items[i].n >= to:
		return false
	case ok:
		t.sum -= tallyHash(t.items[i])
		t.items[i].n = to
	default:
		t.items = slices.Insert(t.items, i, count{n, to})
	}
	t.sum += tallyHash(t.items[i])
	return true
}

func (t *tally) dropNode(n NodeID) bool {
	i, ok := t.findNode(n)
	if ok {
		t.sum -= tallyHash(t.items[i])
		t.items = slices.Delete(t.items, i, i+1)
	}
	return ok
}

func (t *tally) joinTally(o *tally) (changed bool) {
	for _, c := range o.items {
		changed = t.raiseTo(c.node, c.n) || changed
	}
	return changed
}

func (t *tally) cloneTally() tally { return tally{slices.Clone(t.items), t.sum} }

// append writes the writers, then their numbers.
func (t *tally) append(b []byte) []byte {
	b = canonical.AppendArrayLen(b, len(t.items))
	for _, c := range t.items {
		b = canonical.AppendUint(b, uint64(c.node))
	}
	b = canonical.AppendArrayLen(b, len(t.items))
	for _, c := range t.items {
		b = canonical.AppendUint(b, c.n)
	}
	return b
}

func (t *tally) size() (n int) {
	n = 6
	for _, c := range t.items {
		n += canonical.UintSize(uint64(c.node)) + canonical.UintSize(c.n)
	}
	return n
}

func readTally(r *reader) (t tally) {
	nodes := readNodes(r)
	if n := r.arrayLen("counts", 1); n != len(nodes) {
		r.Fail(ErrMalformed)
		return t
	}
	t.items = make([]count, 0, len(nodes))
	for _, node := range nodes {
		c := count{node, r.Uint()}
		if c.n == 0 {
			r.Fail(ErrMalformed)
		}
		t.items = append(t.items, c)
		t.sum += tallyHash(c)
	}
	return t
}
