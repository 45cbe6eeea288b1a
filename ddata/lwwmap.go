package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// LWWMapKey returns the key of a map. For each entry, the last write wins.
func LWWMapKey[K comparable, V any](name string) Key[LWWMap[K, V], *LWWMapTx[K, V]] {
	return Key[LWWMap[K, V], *LWWMapTx[K, V]]{name: name, typ: lwwMapType[K, V]{}}
}

// lwwMapType implements dataType.
type lwwMapType[K comparable, V any] struct{}

// LWWMap is an immutable snapshot of a map, as Get and Subscribe return it. It is safe for
// concurrent readers.
type LWWMap[K comparable, V any] struct {
	mapping[K, V]
	of state[*crdt.LWWMap[string, string]]
}

// LWWMapTx is a map within an Update: it shows the map as it was, and collects the
// requested changes. All entries changed in one transaction travel in one write, whose size
// does not depend on the size of the map.
type LWWMapTx[K comparable, V any] struct {
	LWWMap[K, V]
	d *Data
	c changes[*crdt.LWWMap[string, string]]
}

func (k lwwMapType[K, V]) crdtKind() crdt.Kind {
	return crdt.KindLWWMap.Of(elementKind[K](), elementKind[V]())
}

func (k lwwMapType[K, V]) typedValue(v crdt.Value) (m LWWMap[K, V], err error) {
	if m.mapping, err = mappingOf[K, V](); err != nil {
		return m, err
	}
	m.of.v, err = valueAs[crdt.LWWMap[string, string]](v, crdt.KindLWWMap.Of(m.keys.kind, m.vals.kind))
	return m, err
}

func (k lwwMapType[K, V]) newTx(d *Data, v crdt.Value) (*LWWMapTx[K, V], func() (operation.Plan, error), error) {
	m, err := k.typedValue(v)
	t := &LWWMapTx[K, V]{LWWMap: m, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Get returns the value of k.
func (m LWWMap[K, V]) Get(k K) (v V, ok bool) {
	if m.of.readValue() == nil {
		return v, false
	}
	str, ok := m.of.readValue().Get(m.keys.encodeElement(k))
	if !ok {
		return v, false
	}
	v, err := m.vals.decodeElement(str)
	return v, err == nil
}

// Stamp returns the stamp of the entry of k, also if the entry was deleted. A SetAt must
// exceed it to win.
func (m LWWMap[K, V]) Stamp(k K) (crdt.Stamp, bool) {
	if m.of.readValue() == nil {
		return crdt.Stamp{}, false
	}
	return m.of.readValue().Stamp(m.keys.encodeElement(k))
}

// Len returns the number of entries.
func (m LWWMap[K, V]) Len() int {
	if m.of.readValue() == nil {
		return 0
	}
	return m.of.readValue().Len()
}

// All yields the entries, in no particular order. It omits entries that the codecs of K and
// V cannot decode, for example those of another struct.
func (m LWWMap[K, V]) All() iter.Seq2[K, V] { return pairsOf(m.mapping, m.of.readValue()) }

// Set requests that k have the value v. The write wins over everything that this node has
// seen, including deletions that this node has forgotten, or that all members forgot before
// this node joined. Above level Local, it also wins over everything that was acknowledged
// at that level before Update began. Writes that overlap in time are ordered by the nodes'
// hybrid logical clocks.
func (t *LWWMapTx[K, V]) Set(k K, v V) {
	ks, vs := t.keys.encodeElement(k), t.vals.encodeElement(v)
	t.c.addStampedStep(t.d, ks, len(ks)+len(vs)+elementOverheadBytes, func(m *crdt.LWWMap[string, string], at crdt.Stamp) crdt.Value {
		return asValue(m.Set(ks, vs, at))
	})
}

// Delete requests the deletion of the entry of k. It wins as Set does.
func (t *LWWMapTx[K, V]) Delete(k K) {
	ks := t.keys.encodeElement(k)
	t.c.addStampedStep(t.d, ks, elementOverheadBytes, func(m *crdt.LWWMap[string, string], at crdt.Stamp) crdt.Value { return asValue(m.Delete(ks, at)) })
}

// SetAt requests that k have the value v, under the caller's stamp. It is for data that is
// ordered without a clock, for example by an elected writer (term, seq).
//
// The update fails with replicator.ErrStale if the entry has a newer stamp, here or at a
// replica that the write reaches, or the same stamp with another value. With the same stamp
// and value it succeeds. It fails with replicator.ErrAhead if at.Time, read as a time of
// a crdt.HLC, is more than a minute in the future: small numbers never are, nanoseconds
// always are.
func (t *LWWMapTx[K, V]) SetAt(k K, v V, at crdt.Stamp) {
	t.setAt(k, v, at, false)
}

// OfferAt is like SetAt, but where a newer stamp exists it does nothing and does not fail.
func (t *LWWMapTx[K, V]) OfferAt(k K, v V, at crdt.Stamp) {
	t.setAt(k, v, at, true)
}

func (t *LWWMapTx[K, V]) setAt(k K, v V, at crdt.Stamp, yield bool) {
	ks, vs := t.keys.encodeElement(k), t.vals.encodeElement(v)
	f := operation.Fixed{Entry: ks, Stamp: at, Value: vs, Yield: yield}
	t.c.addFixedStep(f, len(ks)+len(vs)+elementOverheadBytes, func(m *crdt.LWWMap[string, string]) crdt.Value {
		return asValue(m.Set(ks, vs, at))
	})
}

// DeleteAt requests the deletion of the entry of k, under the caller's stamp. It fails as
// SetAt does.
func (t *LWWMapTx[K, V]) DeleteAt(k K, at crdt.Stamp) {
	ks := t.keys.encodeElement(k)
	t.c.addFixedStep(operation.Fixed{Entry: ks, Stamp: at, Delete: true}, elementOverheadBytes, func(m *crdt.LWWMap[string, string]) crdt.Value { return asValue(m.Delete(ks, at)) })
}
