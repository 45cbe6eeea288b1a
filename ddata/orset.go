package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// ORSetKey returns the key of a set. An addition wins over a removal that did not see it.
func ORSetKey[E comparable](name string) Key[ORSet[E], *ORSetTx[E]] {
	return Key[ORSet[E], *ORSetTx[E]]{name: name, typ: orSetType[E]{}}
}

// orSetType implements dataType.
type orSetType[E comparable] struct{}

// ORSet is an immutable snapshot of a set, as Get and Subscribe return it. It is safe for
// concurrent readers.
type ORSet[E comparable] struct {
	of  state[*crdt.ORSet[string]]
	enc asString[E]
}

// ORSetTx is a set within an Update: it shows the set as it was, and collects the requested
// changes.
type ORSetTx[E comparable] struct {
	ORSet[E]
	d *Data
	c changes[*crdt.ORSet[string]]
}

func (k orSetType[E]) crdtKind() crdt.Kind { return crdt.KindORSet.Of(elementKind[E]()) }

func (k orSetType[E]) typedValue(v crdt.Value) (ORSet[E], error) {
	enc, err := stringly[E]()
	if err != nil {
		return ORSet[E]{}, err
	}
	of, err := valueAs[crdt.ORSet[string]](v, crdt.KindORSet.Of(enc.kind))
	return ORSet[E]{of: state[*crdt.ORSet[string]]{v: of}, enc: enc}, err
}

func (k orSetType[E]) newTx(d *Data, v crdt.Value) (*ORSetTx[E], func() (operation.Plan, error), error) {
	s, err := k.typedValue(v)
	t := &ORSetTx[E]{ORSet: s, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Contains reports whether e is an element.
func (s ORSet[E]) Contains(e E) bool {
	return s.of.readValue() != nil && s.of.readValue().Contains(s.enc.encodeElement(e))
}

// Len returns the number of elements.
func (s ORSet[E]) Len() int {
	if s.of.readValue() == nil {
		return 0
	}
	return s.of.readValue().Len()
}

// All yields the elements, in no particular order. It omits elements that E's codec cannot
// decode, for example those of another struct.
func (s ORSet[E]) All() iter.Seq[E] { return elementsOf(s.enc, s.of.readValue()) }

// Elements returns the elements in a new slice, which the caller owns.
func (s ORSet[E]) Elements() []E {
	out := make([]E, 0, s.Len())
	for e := range s.All() {
		out = append(out, e)
	}
	return out
}

// Add requests the addition of e. Adding an element again makes it win over concurrent
// removals on other nodes.
func (t *ORSetTx[E]) Add(e E) {
	str, node := t.enc.encodeElement(e), crdt.NodeID(t.d.r.Self())
	t.c.addStep(len(str)+elementOverheadBytes, func(s *crdt.ORSet[string]) crdt.Value { return asValue(s.Add(node, str)) })
}

// Remove requests the removal of e, as far as this node has seen e.
func (t *ORSetTx[E]) Remove(e E) {
	str := t.enc.encodeElement(e)
	t.c.addStep(0, func(s *crdt.ORSet[string]) crdt.Value { return asValue(s.Remove(str)) })
}

// Clear requests the removal of every element that this node has seen.
func (t *ORSetTx[E]) Clear() {
	t.c.addStep(0, func(s *crdt.ORSet[string]) crdt.Value { return asValue(s.Clear()) })
}
