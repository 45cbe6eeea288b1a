package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// ORSetKey names a set of elements to add and remove. An addition wins over a
// removal that did not see it.
type ORSetKey[E comparable] string

// ORSet is a state of a set, as Get and Subscribe give it. It never changes and
// is safe for concurrent readers.
type ORSet[E comparable] struct {
	of  state[*crdt.ORSet[string]]
	enc asString[E]
}

// ORSetTx is a set in an Update: it shows the set as it was, and collects what
// shall change.
type ORSetTx[E comparable] struct {
	ORSet[E]
	d *Data
	c changes[*crdt.ORSet[string]]
}

// Name implements Key.
func (k ORSetKey[E]) Name() string { return string(k) }

func (k ORSetKey[E]) kind() crdt.Kind { return crdt.KindORSet.Of(elementKind[E]()) }

func (k ORSetKey[E]) value(v crdt.Value) (ORSet[E], error) {
	enc, err := stringly[E]()
	if err != nil {
		return ORSet[E]{}, err
	}
	of, err := valueAs[crdt.ORSet[string]](v, crdt.KindORSet.Of(enc.kind))
	return ORSet[E]{of: state[*crdt.ORSet[string]]{v: of}, enc: enc}, err
}

func (k ORSetKey[E]) tx(d *Data, v crdt.Value) (*ORSetTx[E], func() (replicator.Plan, error), error) {
	s, err := k.value(v)
	t := &ORSetTx[E]{ORSet: s, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Contains reports whether e is an element.
func (s ORSet[E]) Contains(e E) bool {
	return s.of.get() != nil && s.of.get().Contains(s.enc.encode(e))
}

// Len returns the number of elements.
func (s ORSet[E]) Len() int {
	if s.of.get() == nil {
		return 0
	}
	return s.of.get().Len()
}

// All yields the elements, in no particular order. Elements that E's codec
// cannot decode, such as those of another struct, are left out.
func (s ORSet[E]) All() iter.Seq[E] { return elementsOf(s.enc, s.of.get()) }

// Elements returns the elements in a slice of the caller's.
func (s ORSet[E]) Elements() []E {
	out := make([]E, 0, s.Len())
	for e := range s.All() {
		out = append(out, e)
	}
	return out
}

// Add asks for e to be added. Adding an element that is there makes it win over
// removals that run at the same time elsewhere.
func (t *ORSetTx[E]) Add(e E) {
	str, node := t.enc.encode(e), crdt.NodeID(t.d.r.Self())
	t.c.add(len(str)+elementOverheadBytes, func(s *crdt.ORSet[string]) crdt.Value { return delta(s.Add(node, str)) })
}

// Remove asks for e to be removed, as far as it has been seen here.
func (t *ORSetTx[E]) Remove(e E) {
	str := t.enc.encode(e)
	t.c.add(0, func(s *crdt.ORSet[string]) crdt.Value { return delta(s.Remove(str)) })
}

// Clear asks for every element seen here to be removed.
func (t *ORSetTx[E]) Clear() {
	t.c.add(0, func(s *crdt.ORSet[string]) crdt.Value { return delta(s.Clear()) })
}
