package crdt

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// GSet is a set that only grows. Concurrent operations give:
//
//	Add(x) | Add(y)   both x and y
//
// It needs neither writers nor stamps. The zero GSet is empty and ready to use,
// with DefaultCodec. It is not safe for concurrent use.
//
// Invariant: the table has one entry per element, sum is the sum of their hashes,
// bytes that of their sizes.
type GSet[E comparable] struct {
	elem  *element[E]
	table table[E]
	list  []E
	sum   uint64
	bytes int
}

// NewGSet returns an empty set with a codec of the caller's.
func NewGSet[E comparable](c Codec[E]) *GSet[E] { return &GSet[E]{elem: keyWith(c)} }

func (s *GSet[E]) elementType() *element[E] {
	if s.elem == nil {
		s.elem = keyOf[E]()
	}
	return s.elem
}

// Add puts e in and returns the delta, or nil if it is there.
func (s *GSet[E]) Add(e E) *GSet[E] {
	if !s.insertElement(e) {
		return nil
	}
	d := &GSet[E]{elem: s.elem}
	d.insertElement(e)
	return d
}

// gsetLinear is how many elements are searched without a table.
const gsetLinear = 8

func (s *GSet[E]) insertElement(e E) bool {
	if s.Contains(e) {
		return false
	}
	s.list = append(s.list, e)
	switch n := len(s.list); {
	case n == gsetLinear+1:
		s.table.seed = maphash.MakeSeed()
		for i, x := range s.list {
			s.table.Put(s.table.hash(x), uint32(i))
		}
	case n > gsetLinear:
		s.table.Put(s.table.hash(e), uint32(n-1))
	}
	hash, size := s.elementType().hashAndSize(e)
	s.sum += mix(hash, hashIntKey)
	s.bytes += size
	return true
}

// Contains reports whether e is in the set.
func (s *GSet[E]) Contains(e E) bool {
	if len(s.list) <= gsetLinear {
		return slices.Contains(s.list, e)
	}
	h := s.table.hash(e)
	mask := uint64(s.table.Size - 1)
	for i := uint64(h) & mask; s.table.EntryAt(i) != 0; i = (i + 1) & mask {
		if x := s.table.EntryAt(i); uint32(x>>32) == h && s.list[uint32(x)-1] == e {
			return true
		}
	}
	return false
}

// Len returns the number of elements.
func (s *GSet[E]) Len() int { return len(s.list) }

// All yields the elements, in no particular order. The set must not be changed
// meanwhile.
func (s *GSet[E]) All() iter.Seq[E] { return slices.Values(s.list) }

// Elements returns a copy of the elements, in no particular order.
func (s *GSet[E]) Elements() []E { return slices.Clone(s.list) }

// Merge joins other into the set and reports whether that changed it. The elements
// that came are added to ch, if that is not nil. Other may be nil.
func (s *GSet[E]) Merge(other *GSet[E], ch *Changes[E]) (changed bool) {
	if other == nil || other == s {
		return false
	}
	for _, e := range other.list {
		if s.insertElement(e) {
			ch.recordAdded(e)
			changed = true
		}
	}
	return changed
}

// Kind implements Value.
func (s *GSet[E]) Kind() Kind {
	if s == nil {
		return KindGSet
	}
	return KindGSet.with(s.elementType().of)
}

// Join implements Value.
func (s *GSet[E]) Join(other Value) (bool, error) {
	o, ok := other.(*GSet[E])
	if !ok || o != nil && o.elementType().of != s.elementType().of {
		return false, mismatch(s, other)
	}
	return s.Merge(o, nil), nil
}

// Clone implements Value.
func (s *GSet[E]) Clone() Value {
	// Elements are only ever appended: the copy has those that are there, and no room.
	n := len(s.list)
	return &GSet[E]{elem: s.elem, table: s.table.shareAll(), list: s.list[:n:n], sum: s.sum, bytes: s.bytes}
}

// Digest implements Value.
func (s *GSet[E]) Digest() uint64 { return s.sum }

// Append implements Value: [kind, [element...]], the elements in the order of
// their encodings.
func (s *GSet[E]) Append(b []byte) []byte {
	b = canonical.AppendUint(canonical.AppendArrayLen(b, 2), uint64(s.Kind()))
	b = canonical.AppendArrayLen(b, len(s.list))
	all := make([]byte, 0, s.bytes)
	cuts := make([][]byte, len(s.list))
	for i, e := range s.list {
		n := len(all)
		all = s.elementType().codec.Append(all, e)
		cuts[i] = all[n:]
	}
	slices.SortFunc(cuts, bytes.Compare)
	for _, c := range cuts {
		b = append(b, c...)
	}
	return b
}

// Size implements Value.
func (s *GSet[E]) Size() int { return s.bytes + 7 }

// Decode replaces the set with an encoded one. On error it is left as it was. The
// set keeps its codec.
func (s *GSet[E]) Decode(b []byte) error {
	c := &GSet[E]{elem: s.elementType()}
	r := &reader{canonical.Reader{B: b}}
	r.tuple(2)
	readKind(r, c.Kind())
	for n := r.arrayLen("elements", 1); n > 0 && r.Err == nil; n-- {
		if e := c.elem.decodeElement(r); r.Err == nil && !c.insertElement(e) {
			r.Fail(ErrMalformed)
		}
	}
	if err := r.Done(); err != nil {
		return err
	}
	*s = *c
	return nil
}
