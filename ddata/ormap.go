package ddata

import (
	"slices"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/operation"
)

// ORMapKey returns the key of a map that holds, under each path of keys, a register, a set,
// a counter, a flag, and further keys. Removed content never comes back. A change that a
// removal had not seen stays.
func ORMapKey[K, V comparable](name string) Key[ORMap[K, V], *ORMapTx[K, V]] {
	return Key[ORMap[K, V], *ORMapTx[K, V]]{name: name, typ: orMapType[K, V]{}}
}

// orMapType implements dataType.
type orMapType[K, V comparable] struct{}

// ORMap is an immutable snapshot of an ORMapKey, as Get and Subscribe return it. It is safe
// for concurrent readers.
type ORMap[K, V comparable] struct {
	mapping[K, V]
	of state[*crdt.ORMap[string, string]]
}

// ORMapTx is an ORMap within an Update: it shows the map as it was, and collects the
// requested changes.
type ORMapTx[K, V comparable] struct {
	ORMap[K, V]
	d *Data
	c changes[*crdt.ORMap[string, string]]
}

// ORMapPlace is the content under a path of keys. Only At makes one.
type ORMapPlace[K, V comparable] struct {
	m  ORMap[K, V]
	at place
}

// ORMapPlaceTx is a place within an Update.
type ORMapPlaceTx[K, V comparable] struct {
	ORMapPlace[K, V]
	t    *ORMapTx[K, V]
	path []string
}

func (k orMapType[K, V]) crdtKind() crdt.Kind {
	return crdt.KindORMap.Of(elementKind[K](), elementKind[V]())
}

func (k orMapType[K, V]) typedValue(v crdt.Value) (m ORMap[K, V], err error) {
	if m.mapping, err = mappingOf[K, V](); err != nil {
		return m, err
	}
	if m.of.v, err = valueAs[crdt.ORMap[string, string]](v, crdt.KindORMap.Of(m.keys.kind, m.vals.kind)); err == nil {
		// Build the index now: concurrent readers must not build it later.
		m.of.v.Len()
	}
	return m, err
}

func (k orMapType[K, V]) newTx(d *Data, v crdt.Value) (*ORMapTx[K, V], func() (operation.Plan, error), error) {
	m, err := k.typedValue(v)
	t := &ORMapTx[K, V]{ORMap: m, d: d}
	t.of.looked = &t.c.looked
	return t, t.c.plan, err
}

// Len returns the number of keys.
func (m ORMap[K, V]) Len() int {
	if m.of.readValue() == nil {
		return 0
	}
	return m.of.readValue().Len()
}

// Keys returns the keys, in no particular order.
func (m ORMap[K, V]) Keys() []K {
	if m.of.readValue() == nil {
		return nil
	}
	return decodeAll(m.keys, m.of.readValue().Keys())
}

// At returns the content under a path of keys. The first key is one of the map, the next
// one a key of the map under it.
func (m ORMap[K, V]) At(path ...K) ORMapPlace[K, V] {
	if m.of.v == nil {
		var err error
		if m, err = (orMapType[K, V]{}).typedValue(nil); err != nil {
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

// Remove requests the removal of everything under k that this node has seen.
func (t *ORMapTx[K, V]) Remove(k K) { t.At(k).Remove() }

// readPlace returns the place for reading, and notes the read.
func (p ORMapPlace[K, V]) readPlace() place {
	p.m.of.noteRead()
	return p.at
}

// Values returns the values of the register here: none, one, or all that were set
// concurrently.
func (p ORMapPlace[K, V]) Values() []V { return decodeAll(p.m.vals, p.readPlace().Values()) }

// Elements returns the elements of the set here, in no particular order.
func (p ORMapPlace[K, V]) Elements() []V { return decodeAll(p.m.vals, p.readPlace().Elements()) }

// Has reports whether v is in the set here.
func (p ORMapPlace[K, V]) Has(v V) bool { return p.readPlace().Has(p.m.vals.encodeElement(v)) }

// Count returns the count of the counter here.
func (p ORMapPlace[K, V]) Count() int64 { return p.readPlace().Count() }

// Enabled reports whether the flag here is on.
func (p ORMapPlace[K, V]) Enabled() bool { return p.readPlace().Enabled() }

// Exists reports whether there is content here or under longer paths.
func (p ORMapPlace[K, V]) Exists() bool { return p.readPlace().Exists() }

// Keys returns the keys of the map here, in no particular order.
func (p ORMapPlace[K, V]) Keys() []K { return decodeAll(p.m.keys, p.readPlace().Keys()) }

// place is a place in the value to which an update is applied.
type place = crdt.Place[string, string]

// addChange requests one change here.
func (p ORMapPlaceTx[K, V]) addChange(bytes int, f func(place) *crdt.ORMap[string, string]) {
	if bytes > 0 {
		bytes += elementOverheadBytes
		for _, k := range p.path {
			bytes += len(k) + 1
		}
	}
	path := slices.Clone(p.path)
	p.t.c.addStep(bytes, func(m *crdt.ORMap[string, string]) crdt.Value { return asValue(f(m.At(path...))) })
}

func (p ORMapPlaceTx[K, V]) self() crdt.NodeID { return crdt.NodeID(p.t.d.r.Self()) }

// Set requests that the register here hold v.
func (p ORMapPlaceTx[K, V]) Set(v V) {
	s := p.m.vals.encodeElement(v)
	p.addChange(len(s)+1, func(at place) *crdt.ORMap[string, string] { return at.Set(p.self(), s) })
}

// Unset requests the removal of the register's values that this node has seen.
func (p ORMapPlaceTx[K, V]) Unset() { p.addChange(0, place.Unset) }

// Add requests that v be in the set here.
func (p ORMapPlaceTx[K, V]) Add(v V) {
	s := p.m.vals.encodeElement(v)
	p.addChange(len(s)+1, func(at place) *crdt.ORMap[string, string] { return at.Add(p.self(), s) })
}

// Discard requests the removal of v from the set here, as far as this node has seen v.
func (p ORMapPlaceTx[K, V]) Discard(v V) {
	s := p.m.vals.encodeElement(v)
	p.addChange(0, func(at place) *crdt.ORMap[string, string] { return at.Discard(s) })
}

// Increment requests the addition of n, which may be negative, to the counter here.
func (p ORMapPlaceTx[K, V]) Increment(n int64) {
	p.addChange(elementOverheadBytes, func(at place) *crdt.ORMap[string, string] { return at.Increment(p.self(), n) })
}

// Enable requests that the flag here be on.
func (p ORMapPlaceTx[K, V]) Enable() {
	p.addChange(1, func(at place) *crdt.ORMap[string, string] { return at.Enable(p.self()) })
}

// Disable requests that the flag here be off. It undoes only the enablings that this node
// has seen.
func (p ORMapPlaceTx[K, V]) Disable() { p.addChange(0, place.Disable) }

// Remove requests the removal of everything here and under longer paths that this node has
// seen.
func (p ORMapPlaceTx[K, V]) Remove() { p.addChange(0, place.Remove) }

func encodeAll[E any](a asString[E], es []E) []string {
	out := make([]string, len(es))
	for i, e := range es {
		out[i] = a.encodeElement(e)
	}
	return out
}

// decodeAll decodes strs. It omits strings that do not decode to an E, written by other
// code.
func decodeAll[E any](a asString[E], strs []string) []E {
	var out []E
	for _, s := range strs {
		if e, err := a.decodeElement(s); err == nil {
			out = append(out, e)
		}
	}
	return out
}
