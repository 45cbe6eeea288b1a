package ddata

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// PNCounterMapKey returns the key of a map of counters that can increase and decrease.
func PNCounterMapKey[K comparable](name string) Key[PNCounterMap[K], *PNCounterMapTx[K]] {
	return Key[PNCounterMap[K], *PNCounterMapTx[K]]{name: name, typ: pnCounterMapType[K]{}}
}

// pnCounterMapType implements dataType.
type pnCounterMapType[K comparable] struct{}

// PNCounterMap is an immutable snapshot of a map of counters, as Get and Subscribe return
// it. It is safe for concurrent readers.
type PNCounterMap[K comparable] struct {
	of   state[*crdt.PNCounterMap[string]]
	keys asString[K]
}

// PNCounterMapTx is a map of counters within an Update.
type PNCounterMapTx[K comparable] struct {
	PNCounterMap[K]
	d *Data
	c changes[*crdt.PNCounterMap[string]]
}

func (k pnCounterMapType[K]) crdtKind() crdt.Kind { return crdt.KindPNCounterMap.Of(elementKind[K]()) }

func (k pnCounterMapType[K]) typedValue(v crdt.Value) (m PNCounterMap[K], err error) {
	if m.keys, err = stringly[K](); err != nil {
		return m, err
	}
	m.of.v, err = valueAs[crdt.PNCounterMap[string]](v, crdt.KindPNCounterMap.Of(m.keys.kind))
	return m, err
}

func (k pnCounterMapType[K]) newTx(d *Data, v crdt.Value) (*PNCounterMapTx[K], func() (operation.Plan, error), error) {
	m, err := k.typedValue(v)
	t := &PNCounterMapTx[K]{PNCounterMap: m, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Count returns the count of k, and whether k has a counter.
func (m PNCounterMap[K]) Count(k K) (int64, bool) {
	if m.of.readValue() == nil {
		return 0, false
	}
	return m.of.readValue().Count(m.keys.encodeElement(k))
}

// Len returns the number of counters.
func (m PNCounterMap[K]) Len() int {
	if m.of.readValue() == nil {
		return 0
	}
	return m.of.readValue().Len()
}

// All yields the counters, in no particular order. It omits keys that K's codec cannot
// decode, for example those of another struct.
func (m PNCounterMap[K]) All() iter.Seq2[K, int64] {
	return func(yield func(K, int64) bool) {
		if m.of.readValue() == nil {
			return
		}
		for s, n := range m.of.readValue().All() {
			if k, err := m.keys.decodeElement(s); err == nil && !yield(k, n) {
				return
			}
		}
	}
}

// Add requests the addition of n, which may be negative, to the counter of k.
func (t *PNCounterMapTx[K]) Add(k K, n int64) {
	s, node := t.keys.encodeElement(k), crdt.NodeID(t.d.r.Self())
	t.c.addStep(len(s)+2*elementOverheadBytes, func(m *crdt.PNCounterMap[string]) crdt.Value { return asValue(m.Add(node, s, n)) })
}

// Remove requests the removal of the counter of k. Concurrent additions on other nodes
// start a new counter.
func (t *PNCounterMapTx[K]) Remove(k K) {
	s := t.keys.encodeElement(k)
	t.c.addStep(0, func(m *crdt.PNCounterMap[string]) crdt.Value { return asValue(m.Remove(s)) })
}
