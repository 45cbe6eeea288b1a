package crdt

import (
	"hash/maphash"
	"slices"
)

// orset is a set with all its indexes.
//
// Invariant: the table has one entry per element, naming one of its slots; if the
// element has further dots, extra lists their slots under the first.
type orset[E comparable] struct {
	causal[E]
	elem  *element[E]
	table table[E]
	extra map[uint32][]uint32
	slab  []ORSet[E]
	batch int // length of the last slab
}

// slabMax is the number of deltas that a busy value allocates together.
const slabMax = 31

func newORSet[E comparable](el *element[E]) *orset[E] {
	f := &orset[E]{elem: el}
	f.table.seed = maphash.MakeSeed()
	f.measure = func(e *E) (uint64, int) { return f.elem.hashAndSize(*e) }
	return f
}

// eraseElement takes e out and adds that to d, which it makes if need be.
func (f *orset[E]) eraseElement(e E, d *ORSet[E]) *ORSet[E] {
	h := f.table.hash(e)
	at, ok := f.findSlot(h, e)
	if !ok {
		return d
	}
	if d == nil {
		d = f.delta()
	}
	d.one.addGone(f.dot(at))
	f.eraseExtra(at, d)
	f.table.Drop(h, at)
	f.removeDot(at)
	return d
}

// eraseExtra ends all dots of an element but the one in its first slot.
func (f *orset[E]) eraseExtra(first uint32, d *ORSet[E]) {
	if f.extra == nil {
		return
	}
	for _, x := range f.extra[first] {
		d.one.addGone(f.dot(x))
		f.removeDot(x)
	}
	delete(f.extra, first)
}

// delta returns an empty set for the delta of one operation. Deltas are allocated
// by the slab, of which the size follows the number of operations.
func (f *orset[E]) delta() *ORSet[E] {
	if len(f.slab) == 0 {
		f.batch = min(2*f.batch+1, slabMax)
		f.slab = make([]ORSet[E], f.batch)
	}
	d := &f.slab[0]
	f.slab = f.slab[1:]
	d.elem = f.elem
	return d
}

// findSlot returns the first slot of e.
func (f *orset[E]) findSlot(hash uint32, e E) (uint32, bool) {
	t := &f.table
	if t.Size == 0 {
		return 0, false
	}
	mask := uint64(t.Size - 1)
	for i := uint64(hash) & mask; ; i = (i + 1) & mask {
		x := t.EntryAt(i)
		if x == 0 {
			return 0, false
		}
		if uint32(x>>32) == hash && f.slotAt(uint32(x)-1).val == e {
			return uint32(x) - 1, true
		}
	}
}

// applyOne joins the delta of one operation.
func (f *orset[E]) applyOne(o *oneDot[E], ch *Changes[E]) (changed bool) {
	if f.applyAgain(o) {
		return true
	}
	h := orsetHooks[E]{f, ch}
	if o.dot.Seq != 0 {
		ci := f.column(o.dot.Node)
		if f.addSeen(ci, o.dot.Seq, o.dot.Seq) {
			changed = true
			h.arrived(f.insertDot(ci, o.dot.Seq, o.elem))
		} else if at, ok := f.columns[ci].slotOf(o.dot.Seq); ok && f.loses(at, &o.elem) {
			changed = true
			f.settleClash(ci, o.dot.Seq, o.elem, h)
		}
	}
	if o.gone.Seq != 0 {
		changed = f.dropDot(o.gone, h) || changed
	}
	for _, d := range o.rest() {
		changed = f.dropDot(d, h) || changed
	}
	return changed
}

// applyAgain joins the delta of an add of what is here, in its place and without
// the index, if it replaces the one dot that the element has here by a new one. It
// reports whether that is so.
func (f *orset[E]) applyAgain(o *oneDot[E]) bool {
	if o.dot.Seq == 0 || o.gone.Seq == 0 || o.more != nil || len(f.extra) > 0 {
		return false
	}
	ci, old := f.lookup(o.dot.Node), f.lookup(o.gone.Node)
	if ci < 0 || old < 0 || f.columns[ci].seen.has(o.dot.Seq) {
		return false
	}
	at, ok := f.columns[old].slotOf(o.gone.Seq)
	if !ok || f.slotAt(at).val != o.elem {
		return false
	}
	f.addSeen(ci, o.dot.Seq, o.dot.Seq)
	f.redot(at, ci, o.dot.Seq)
	return true
}

// dropDot joins the news that a dot is gone.
func (f *orset[E]) dropDot(d Dot, h orsetHooks[E]) bool {
	ci := f.column(d.Node)
	if f.addSeen(ci, d.Seq, d.Seq) {
		return true
	}
	at, ok := f.columns[ci].slotOf(d.Seq)
	if !ok {
		return false
	}
	h.leaving(at)
	f.removeDot(at)
	return true
}

// orsetHooks keep the index of elements in step with the live dots.
type orsetHooks[E comparable] struct {
	f  *orset[E]
	ch *Changes[E]
}

func (h orsetHooks[E]) arrived(at uint32) {
	f, e := h.f, h.f.slotAt(at).val
	hash := f.table.hash(e)
	first, ok := f.findSlot(hash, e)
	if !ok {
		f.table.Put(hash, at)
		h.ch.recordAdded(e)
		return
	}
	if f.extra == nil {
		f.extra = make(map[uint32][]uint32)
	}
	f.extra[first] = append(f.extra[first], at)
}

func (h orsetHooks[E]) leaving(at uint32) {
	f, e := h.f, h.f.slotAt(at).val
	hash := f.table.hash(e)
	first, _ := f.findSlot(hash, e)
	rest := f.extra[first]
	if len(rest) == 0 {
		f.table.Drop(hash, at)
		h.ch.recordRemoved(e)
		return
	}
	delete(f.extra, first)
	if first == at {
		first, rest = rest[0], rest[1:]
		f.table.Move(hash, at, first)
	} else {
		i := slices.Index(rest, at)
		rest = slices.Delete(rest, i, i+1)
	}
	if len(rest) > 0 {
		f.extra[first] = rest
	}
}

// eachElement yields each element once, by slot.
func (f *orset[E]) eachElement(yield func(E) bool) {
	var doubles map[uint32]bool
	for _, rest := range f.extra { // order-free: builds a set
		for _, x := range rest {
			if doubles == nil {
				doubles = make(map[uint32]bool)
			}
			doubles[x] = true
		}
	}
	for i, p := range f.pages.List {
		for k := range p {
			if p[k].dot == 0 || doubles[uint32(i<<pageBits+k)] {
				continue
			}
			if !yield(p[k].val) {
				return
			}
		}
	}
}
