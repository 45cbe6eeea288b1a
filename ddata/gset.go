package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// GSetKey returns the key of a set from which no element is ever removed.
func GSetKey[E comparable](name string) Key[GSet[E], *GSetTx[E]] {
	return Key[GSet[E], *GSetTx[E]]{name: name, typ: gSetType[E]{}}
}

// gSetType implements dataType.
type gSetType[E comparable] struct{}

// GSet is an immutable snapshot of a set, as Get and Subscribe return it. It is safe for
// concurrent readers.
type GSet[E comparable] struct {
	of  state[*crdt.GSet[string]]
	enc asString[E]
}

// GSetTx is a set within an Update.
type GSetTx[E comparable] struct {
	GSet[E]
	c changes[*crdt.GSet[string]]
}

func (k gSetType[E]) crdtKind() crdt.Kind { return crdt.KindGSet.Of(elementKind[E]()) }

func (k gSetType[E]) typedValue(v crdt.Value) (s GSet[E], err error) {
	if s.enc, err = stringly[E](); err != nil {
		return s, err
	}
	s.of.v, err = valueAs[crdt.GSet[string]](v, crdt.KindGSet.Of(s.enc.kind))
	return s, err
}

func (k gSetType[E]) newTx(_ *Data, v crdt.Value) (*GSetTx[E], func() (operation.Plan, error), error) {
	s, err := k.typedValue(v)
	t := &GSetTx[E]{GSet: s}
	return t, t.c.plan, err
}

// Contains reports whether e is an element.
func (s GSet[E]) Contains(e E) bool {
	return s.of.readValue() != nil && s.of.readValue().Contains(s.enc.encodeElement(e))
}

// Len returns the number of elements.
func (s GSet[E]) Len() int {
	if s.of.readValue() == nil {
		return 0
	}
	return s.of.readValue().Len()
}

// All yields the elements, in no particular order. It omits elements that E's codec cannot
// decode, for example those of another struct.
func (s GSet[E]) All() iter.Seq[E] { return elementsOf(s.enc, s.of.readValue()) }

// Add requests the addition of e.
func (t *GSetTx[E]) Add(e E) {
	str := t.enc.encodeElement(e)
	t.c.addStep(len(str)+elementOverheadBytes, func(s *crdt.GSet[string]) crdt.Value { return asValue(s.Add(str)) })
}
