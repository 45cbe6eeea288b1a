package ddata

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/replicator"
)

// ORMapKey names a map with more under each key than one value: a register, a set,
// a counter, a flag, and further keys. What was removed never comes back, and a
// change that a removal had not seen stays.
type ORMapKey[K, V comparable] string

// ORMap is a state of such a map, as Get and Subscribe give it. It never changes
// and is safe for concurrent readers.
type ORMap[K, V comparable] struct {
	mapping[K, V]
	of state[*crdt.ORMap[string, string]]
}

// ORMapTx is such a map in an Update.
type ORMapTx[K, V comparable] struct {
	ORMap[K, V]
	d *Data
	c changes[*crdt.ORMap[string, string]]
}

// ORMapPlace is what stands under a path of keys. Only At makes one.
type ORMapPlace[K, V comparable] struct {
	m  ORMap[K, V]
	at place
}

// ORMapPlaceTx is a place in an Update.
type ORMapPlaceTx[K, V comparable] struct {
	ORMapPlace[K, V]
	t    *ORMapTx[K, V]
	path []string
}

// Name implements Key.
func (k ORMapKey[K, V]) Name() string { return string(k) }

func (k ORMapKey[K, V]) kind() crdt.Kind {
	return crdt.KindORMap.Of(elementKind[K](), elementKind[V]())
}

func (k ORMapKey[K, V]) value(v crdt.Value) (m ORMap[K, V], err error) {
	if m.mapping, err = mappingOf[K, V](); err != nil {
		return m, err
	}
	if m.of.v, err = valueAs[crdt.ORMap[string, string]](v, crdt.KindORMap.Of(m.keys.kind, m.vals.kind)); err == nil {
		// The index is built by the first reader: not later by several at once.
		m.of.v.Len()
	}
	return m, err
}

func (k ORMapKey[K, V]) tx(d *Data, v crdt.Value) (*ORMapTx[K, V], func() (replicator.Plan, error), error) {
	m, err := k.value(v)
	t := &ORMapTx[K, V]{ORMap: m, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Len returns the number of keys.
func (m ORMap[K, V]) Len() int {
	if m.of.get() == nil {
		return 0
	}
	return m.of.get().Len()
}

// Keys returns the keys, in no particular order.
func (m ORMap[K, V]) Keys() []K {
	if m.of.get() == nil {
		return nil
	}
	return decodeAll(m.keys, m.of.get().Keys())
}

// At returns what stands under a path of keys: the first is one of the map, the
// next one of the map under it.
func (m ORMap[K, V]) At(path ...K) ORMapPlace[K, V] {
	if m.of.v == nil {
		var err error
		if m, err = ORMapKey[K, V]("").value(nil); err != nil {
			// No value can be written with such types, so there is none.
			return ORMapPlace[K, V]{at: (&crdt.ORMap[string, string]{}).At()}
		}
	}
	return ORMapPlace[K, V]{m, m.of.v.At(encodeAll(m.keys, path)...)}
}

// At returns a place to change.
func (t *ORMapTx[K, V]) At(path ...K) ORMapPlaceTx[K, V] {
	return ORMapPlaceTx[K, V]{t.ORMap.At(path...), t, encodeAll(t.keys, path)}
}

// Remove asks for all that is under k to be removed, as far as it has been seen
// here.
func (t *ORMapTx[K, V]) Remove(k K) { t.At(k).Remove() }

// look returns the place for reading.
func (p ORMapPlace[K, V]) look() place {
	p.m.of.look()
	return p.at
}

// Values returns the values of the register here: none, one, or those that were
// set at the same time.
func (p ORMapPlace[K, V]) Values() []V { return decodeAll(p.m.vals, p.look().Values()) }

// Elements returns the elements of the set here, in no particular order.
func (p ORMapPlace[K, V]) Elements() []V { return decodeAll(p.m.vals, p.look().Elements()) }

// Has reports whether v is in the set here.
func (p ORMapPlace[K, V]) Has(v V) bool { return p.look().Has(p.m.vals.encode(v)) }

// Count returns the count of the counter here.
func (p ORMapPlace[K, V]) Count() int64 { return p.look().Count() }

// Enabled reports whether the flag here is on.
func (p ORMapPlace[K, V]) Enabled() bool { return p.look().Enabled() }

// Exists reports whether anything is here or further down.
func (p ORMapPlace[K, V]) Exists() bool { return p.look().Exists() }

// Keys returns the keys of the map here, in no particular order.
func (p ORMapPlace[K, V]) Keys() []K { return decodeAll(p.m.keys, p.look().Keys()) }

// place is a place in the value that an update is applied to.
type place = crdt.Place[string, string]

// do asks for one change here.
func (p ORMapPlaceTx[K, V]) do(bytes int, f func(place) *crdt.ORMap[string, string]) {
	if bytes > 0 {
		bytes += elementOverheadBytes
		for _, k := range p.path {
			bytes += len(k) + 1
		}
	}
	path := slices.Clone(p.path)
	p.t.c.add(bytes, func(m *crdt.ORMap[string, string]) crdt.Value { return delta(f(m.At(path...))) })
}

func (p ORMapPlaceTx[K, V]) self() crdt.NodeID { return crdt.NodeID(p.t.d.r.Self()) }

// Set asks for the register here to hold v.
func (p ORMapPlaceTx[K, V]) Set(v V) {
	s := p.m.vals.encode(v)
	p.do(len(s)+1, func(at place) *crdt.ORMap[string, string] { return at.Set(p.self(), s) })
}

// Unset asks for the values of the register seen here to be removed.
func (p ORMapPlaceTx[K, V]) Unset() { p.do(0, place.Unset) }

// Add asks for v to be in the set here.
func (p ORMapPlaceTx[K, V]) Add(v V) {
	s := p.m.vals.encode(v)
	p.do(len(s)+1, func(at place) *crdt.ORMap[string, string] { return at.Add(p.self(), s) })
}

// Discard asks for v to be removed from the set here, as far as it has been seen.
func (p ORMapPlaceTx[K, V]) Discard(v V) {
	s := p.m.vals.encode(v)
	p.do(0, func(at place) *crdt.ORMap[string, string] { return at.Discard(s) })
}

// Increment asks for n, which may be negative, to be counted here.
func (p ORMapPlaceTx[K, V]) Increment(n int64) {
	p.do(elementOverheadBytes, func(at place) *crdt.ORMap[string, string] { return at.Increment(p.self(), n) })
}

// Enable asks for the flag here to be on.
func (p ORMapPlaceTx[K, V]) Enable() {
	p.do(1, func(at place) *crdt.ORMap[string, string] { return at.Enable(p.self()) })
}

// Disable asks for the flag here to be off, as far as it has been seen on.
func (p ORMapPlaceTx[K, V]) Disable() { p.do(0, place.Disable) }

// Remove asks for all that is here and further down to be removed, as far as it
// has been seen.
func (p ORMapPlaceTx[K, V]) Remove() { p.do(0, place.Remove) }

func encodeAll[E any](a asString[E], es []E) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = a.encode(e)
	}
	return out
}

// decodeAll leaves out what is not an E, written by somebody else.
func decodeAll[E any](a asString[E], strs []string) []E {
	var out []E
	for _, s := range strs {
		if e, err := a.decode(s); err == nil {
			out = append(out, e)
		}
	}
	return out
}
