package crdt

import (
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// ORSet is a set in which adding wins. Concurrent operations give:
//
//	Add(x) | Add(x)      x is in the set
//	Add(x) | Remove(x)   x is in the set: a remove takes away only the adds it has seen
//	Remove(x) | Remove(x)  x is gone
//
// It keeps no tombstones: its size is that of its elements and one interval per
// writer. The zero ORSet is empty and ready to use, with DefaultCodec. It is not
// safe for concurrent use.
type ORSet[E comparable] struct {
	elem *element[E] // nil: the default, not looked up yet
	full *orset[E]   // nil: the set is empty, or one holds it
	one  oneDot[E]
}

// NewORSet returns an empty set with a codec of the caller's.
func NewORSet[E comparable](c Codec[E]) *ORSet[E] {
	return &ORSet[E]{elem: keyWith(c)}
}

// grown returns the indexed form and makes it if need be.
func (s *ORSet[E]) grown() *orset[E] {
	if s.full == nil {
		s.full = newORSet(s.elementType())
		s.full.applyOne(&s.one, nil)
		if node, low, top, ok := s.one.seenRun(); ok {
			s.full.addSeen(s.full.column(node), low, top)
		}
		s.one = oneDot[E]{}
	}
	return s.full
}

func (s *ORSet[E]) elementType() *element[E] {
	if s.elem == nil {
		s.elem = keyOf[E]()
	}
	return s.elem
}

// indexed returns the indexed form and leaves the set as it is.
func (s *ORSet[E]) indexed() *orset[E] {
	if s.full != nil {
		return s.full
	}
	c := ORSet[E]{elem: s.elem, one: s.one}
	return c.grown()
}

// Add puts e in, as a change made by node, and returns the delta. If e is there
// already it gets a new dot in place of its old ones, so that this add wins over
// removes that have not seen it. Only the incarnation node itself may call it.
func (s *ORSet[E]) Add(node NodeID, e E) *ORSet[E] {
	if d := s.addSmall(node, e); d != nil {
		return d
	}
	f := s.grown()
	ci, seq := f.next(node)
	d := f.delta()
	d.one.elem, d.one.dot = e, Dot{node, seq}
	h := f.table.hash(e)
	at, ok := f.findSlot(h, e)
	if !ok {
		f.table.Put(h, f.insertDot(ci, seq, e))
		return d
	}
	d.one.addGone(f.dot(at))
	f.redot(at, ci, seq)
	f.eraseExtra(at, d)
	return d
}

// Remove takes e out and returns the delta, or nil if e is not there.
func (s *ORSet[E]) Remove(e E) *ORSet[E] { return s.eraseElements(e) }

// replaceElements is Add that takes out old in the same step.
func (s *ORSet[E]) replaceElements(node NodeID, e E, old ...E) *ORSet[E] {
	if d := s.addSmall(node, e, old...); d != nil {
		return d
	}
	s.grown()
	d := s.Add(node, e)
	for _, x := range old {
		if x != e {
			s.full.eraseElement(x, d)
		}
	}
	s.compact()
	return d
}

// eraseElements takes out old and returns one delta, or nil if nothing was there.
func (s *ORSet[E]) eraseElements(old ...E) *ORSet[E] {
	d, ok := s.eraseSmall(old)
	if ok {
		return d
	}
	f := s.grown()
	for _, x := range old {
		d = f.eraseElement(x, d)
	}
	s.compact()
	return d
}

// Clear takes out every element that is there and returns the delta, or nil.
func (s *ORSet[E]) Clear() *ORSet[E] {
	if s.full == nil {
		return s.eraseElements(s.one.elem)
	}
	f := s.full
	if f.live == 0 {
		return nil
	}
	d := &ORSet[E]{elem: f.elem, full: newORSet(f.elem)}
	for _, i := range f.order() {
		col := &f.columns[i]
		if runs := col.runs(); len(runs) > 0 {
			sum, _ := d.full.columns[d.full.column(col.node)].seeAll(runs)
			d.full.sum += sum
		}
	}
	s.Merge(d, nil)
	return d
}

// Contains reports whether e is in the set.
func (s *ORSet[E]) Contains(e E) bool {
	if s.full == nil {
		return s.one.dot.Seq != 0 && s.one.elem == e
	}
	_, ok := s.full.findSlot(s.full.table.hash(e), e)
	return ok
}

// Len returns the number of elements.
func (s *ORSet[E]) Len() int {
	if s.full == nil {
		return int(min(s.one.dot.Seq, 1))
	}
	return s.full.table.N
}

// All yields the elements, in no particular order; the order depends on nothing but
// the operations so far. The set must not be changed meanwhile; Elements returns a
// copy that stands for itself.
func (s *ORSet[E]) All() iter.Seq[E] {
	return func(yield func(E) bool) {
		if s.full != nil {
			s.full.eachElement(yield)
		} else if s.one.dot.Seq != 0 {
			yield(s.one.elem)
		}
	}
}

// Elements returns the elements, in no particular order.
func (s *ORSet[E]) Elements() []E { return slices.AppendSeq(make([]E, 0, s.Len()), s.All()) }

// Merge joins other into the set and reports whether that changed anything, even
// the context alone. It adds its changes to ch, if ch is not nil. Other may be nil. It
// panics if the two have more than a million writers; Join fails then.
func (s *ORSet[E]) Merge(other *ORSet[E], ch *Changes[E]) bool {
	if other == nil || other == s || other.full == nil && other.one.empty() {
		return false
	}
	changed, ok := s.mergeSmall(other, ch)
	if ok {
		return changed
	}
	f := s.grown()
	if other.full == nil && other.one.low == 0 {
		changed = f.applyOne(&other.one, ch)
	} else {
		changed = f.causal.join(&other.indexed().causal, orsetHooks[E]{f, ch})
	}
	s.compact()
	return changed
}

// Context returns a copy of the causal context.
func (s *ORSet[E]) Context() *Context { return s.indexed().context() }

// compact gives memory back after many elements went.
func (s *ORSet[E]) compact() {
	if !s.full.wasteful() {
		return
	}
	f := newORSet(s.full.elem)
	f.join(&s.full.causal, orsetHooks[E]{f, nil})
	s.full = f
}

// Kind implements Value.
func (s *ORSet[E]) Kind() Kind { return s.kindAs(KindORSet) }

// kindAs returns the kind of one of the types that are made of a set.
func (s *ORSet[E]) kindAs(k Kind) Kind {
	if s == nil {
		return k
	}
	return k.with(s.elementType().of)
}

// Join implements Value.
func (s *ORSet[E]) Join(other Value) (bool, error) {
	o, ok := other.(*ORSet[E])
	if !ok || !s.fits(o) {
		return false, mismatch(s, other)
	}
	return s.joinWith(o, func() bool { return s.Merge(o, nil) })
}

// fits reports whether the elements of other are of the same kind.
func (s *ORSet[E]) fits(other *ORSet[E]) bool {
	return other == nil || s.elementType().of == other.elementType().of
}

// joinWith calls merge unless other would bring too many writers.
func (s *ORSet[E]) joinWith(other *ORSet[E], merge func() bool) (bool, error) {
	if s.full != nil && other != nil && other.full != nil {
		if err := s.full.room(&other.full.causal, nodesMax); err != nil {
			return false, err
		}
	}
	return merge(), nil
}

// Clone implements Value.
func (s *ORSet[E]) Clone() Value {
	c := s.copy()
	return &c
}

func (s *ORSet[E]) copy() ORSet[E] {
	if s.full == nil {
		return ORSet[E]{elem: s.elem, one: s.one.clone()}
	}
	f := newORSet(s.full.elem)
	s.full.copyInto(&f.causal)
	f.table = s.full.table.shareAll()
	if len(s.full.extra) > 0 {
		f.extra = make(map[uint32][]uint32, len(s.full.extra))
		for k, v := range s.full.extra { // order-free: copies a map
			f.extra[k] = slices.Clone(v)
		}
	}
	return ORSet[E]{elem: f.elem, full: f}
}

// Digest implements Value.
func (s *ORSet[E]) Digest() uint64 {
	if s.full == nil && s.one.more == nil {
		return s.smallSum()
	}
	return s.indexed().sum
}

// Append implements Value. An element with several dots is written once for each.
func (s *ORSet[E]) Append(b []byte) []byte { return s.appendAs(b, s.Kind()) }

// appendAs writes the set as a value of one of the types that are made of it.
func (s *ORSet[E]) appendAs(b []byte, k Kind) []byte {
	if s.full == nil && !s.one.empty() && s.one.more == nil && s.one.low == 0 {
		return s.appendOne(b, k)
	}
	f := s.indexed()
	b = slices.Grow(b, f.headSize()+f.bytes)
	order := f.order()
	b = f.appendHead(b, k, order, 1)
	b = canonical.AppendArrayLen(b, f.live)
	for _, i := range order {
		f.columns[i].each(func(_ uint64, at uint32) { b = f.elem.codec.Append(b, f.slotAt(at).val) })
	}
	return b
}

// Size implements Value.
func (s *ORSet[E]) Size() int {
	if s.full == nil {
		size := 0
		if s.one.dot.Seq != 0 {
			_, size = s.elementType().hashAndSize(s.one.elem)
		}
		return 48 + size + 16*len(s.one.rest())
	}
	return s.full.headSize() + s.full.bytes
}

// Decode replaces the set with an encoded one. On error it is left as it was. The
// set keeps its codec.
func (s *ORSet[E]) Decode(b []byte) error { return s.decodeAs(b, s.Kind()) }

func (s *ORSet[E]) decodeAs(b []byte, k Kind) error {
	if s.decodeOne(b, k) {
		return nil
	}
	f := newORSet(s.elementType())
	r := &reader{canonical.Reader{B: b}}
	live, n := f.readHead(r, k, 1)
	if got := r.arrayLen("elements", 1); r.Err == nil && got != n {
		r.Fail(ErrMalformed)
	}
	h := orsetHooks[E]{f, nil}
	eachRead(live, func(ci int, seq uint64) bool {
		e := f.elem.decodeElement(r)
		if r.Err == nil {
			h.arrived(f.insertDot(ci, seq, e))
		}
		return r.Err == nil
	})
	if err := r.Done(); err != nil {
		return err
	}
	s.full, s.one = f, oneDot[E]{}
	return nil
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (s *ORSet[E]) Claims() iter.Seq2[NodeID, uint64] {
	if s.full != nil {
		return s.full.claims
	}
	return s.one.claims
}
