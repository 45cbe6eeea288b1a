package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// ORMultiMapKey returns the key of a map from keys to sets of values. An addition wins over
// a removal that did not see it.
func ORMultiMapKey[K, V comparable](name string) Key[ORMultiMap[K, V], *ORMultiMapTx[K, V]] {
	return Key[ORMultiMap[K, V], *ORMultiMapTx[K, V]]{name: name, typ: orMultiMapType[K, V]{}}
}

// orMultiMapType implements dataType.
type orMultiMapType[K, V comparable] struct{}

// ORMultiMap is an immutable snapshot of an ORMultiMapKey, as Get and Subscribe return it. It is
// safe for concurrent readers.
type ORMultiMap[K, V comparable] struct {
	mapping[K, V]
	of state[*crdt.ORMultiMap[string, string]]
}

// ORMultiMapTx is an ORMultiMap within an Update: it shows the map as it was, and collects
// the requested changes.
type ORMultiMapTx[K, V comparable] struct {
	ORMultiMap[K, V]
	d *Data
	c changes[*crdt.ORMultiMap[string, string]]
}

func (k orMultiMapType[K, V]) crdtKind() crdt.Kind {
	return crdt.KindORMultiMap.Of(elementKind[K](), elementKind[V]())
}

func (k orMultiMapType[K, V]) typedValue(v crdt.Value) (m ORMultiMap[K, V], err error) {
	if m.mapping, err = mappingOf[K, V](); err != nil {
		return m, err
	}
	m.of.v, err = valueAs[crdt.ORMultiMap[string, string]](v, crdt.KindORMultiMap.Of(m.keys.kind, m.vals.kind))
	return m, err
}

func (k orMultiMapType[K, V]) newTx(d *Data, v crdt.Value) (*ORMultiMapTx[K, V], func() (operation.Plan, error), error) {
	m, err := k.typedValue(v)
	t := &ORMultiMapTx[K, V]{ORMultiMap: m, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Values returns the values of k, in no particular order.
func (m ORMultiMap[K, V]) Values(k K) []V {
	if m.of.readValue() == nil {
		return nil
	}
	var out []V
	for _, s := range m.of.readValue().Values(m.keys.encodeElement(k)) {
		if v, err := m.vals.decodeElement(s); err == nil {
			out = append(out, v)
		}
	}
	return out
}

// Contains reports whether v is one of the values of k.
func (m ORMultiMap[K, V]) Contains(k K, v V) bool {
	return m.of.readValue() != nil && m.of.readValue().Contains(m.keys.encodeElement(k), m.vals.encodeElement(v))
}

// Len returns the number of pairs.
func (m ORMultiMap[K, V]) Len() int {
	if m.of.readValue() == nil {
		return 0
	}
	return m.of.readValue().Len()
}

// All yields the pairs, in no particular order. It omits pairs that the codecs of K and V
// cannot decode, for example those of another struct.
func (m ORMultiMap[K, V]) All() iter.Seq2[K, V] { return pairsOf(m.mapping, m.of.readValue()) }

// Add requests that v be among the values of k.
func (t *ORMultiMapTx[K, V]) Add(k K, v V) {
	ks, vs, node := t.keys.encodeElement(k), t.vals.encodeElement(v), crdt.NodeID(t.d.r.Self())
	t.c.addStep(len(ks)+len(vs)+elementOverheadBytes, func(m *crdt.ORMultiMap[string, string]) crdt.Value {
		return asValue(m.Add(node, ks, vs))
	})
}

// Remove requests the removal of v from the values of k, as far as this node has seen v
// there.
func (t *ORMultiMapTx[K, V]) Remove(k K, v V) {
	ks, vs := t.keys.encodeElement(k), t.vals.encodeElement(v)
	t.c.addStep(0, func(m *crdt.ORMultiMap[string, string]) crdt.Value { return asValue(m.Remove(ks, vs)) })
}

// RemoveKey requests the removal of all values of k that this node has seen.
func (t *ORMultiMapTx[K, V]) RemoveKey(k K) {
	ks := t.keys.encodeElement(k)
	t.c.addStep(0, func(m *crdt.ORMultiMap[string, string]) crdt.Value { return asValue(m.RemoveKey(ks)) })
}
