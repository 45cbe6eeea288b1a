package crdt

import "slices"

// ORMap is a map whose entries are CRDTs themselves: under each key there may be a
// register, a set, a counter, a flag, and further keys. At names the place.
// Concurrent operations give, besides the results of the nested types:
//
//	change under k | change under k   both changes
//	change under k | Remove(k)        k is there, with that change and nothing that
//	                                  the remove had seen
//	Set(k, ...) | Increment(k)        k has a register and a counter: values of
//	                                  different types under one key do not mix
//
// All of a map, at any depth, shares one causal context, so a key that was removed
// and is used again starts from nothing: no stale replica brings old content back.
// A key is there as long as something is under it. Counters are as in
// PNCounterMap. The zero ORMap is empty and ready to use, with DefaultCodec for
// keys and values. It is not safe for concurrent use, reading included.
//
// Invariant: if places is not nil it has the leaves of set, by place.
type ORMap[K, V comparable] struct {
	set    ORSet[leaf[V]]
	keys   *element[K]
	places *keyed[K, *branch[K, V]] // nil: not built yet
	tidy   uint64                   // see shares
}

// PlaceDepthMax is the greatest number of keys in the path of a place.
const PlaceDepthMax = depthMax

// leaf is one fact under a place.
type leaf[V comparable] struct {
	path     string // the keys, encoded as an array
	field    field
	val      V      // of a register or an element
	node     NodeID // of a counter's share, see share
	born     uint64
	inc, dec uint64
}

// field is the part of a place to which a leaf belongs.
type field uint8

const (
	fieldRegister field = iota + 1
	fieldElement
	fieldFlag
	fieldCounter
)

// NewORMap returns an empty map with codecs of the caller's.
func NewORMap[K, V comparable](k Codec[K], v Codec[V]) *ORMap[K, V] {
	m := &ORMap[K, V]{}
	m.use(keyWith(k), keyWith(v))
	return m
}

func (m *ORMap[K, V]) use(k *element[K], v *element[V]) {
	m.keys = k
	m.set.elem = elementWith[leaf[V]](leafCodec[K, V]{k, v})
}

// asSet returns the set that holds the value, and makes it ready for use.
func (m *ORMap[K, V]) asSet() *ORSet[leaf[V]] {
	if m.set.elem == nil {
		m.use(keyOf[K](), keyOf[V]())
	}
	return &m.set
}

func (m *ORMap[K, V]) wrap(d *ORSet[leaf[V]]) *ORMap[K, V] {
	if d == nil {
		return nil
	}
	return &ORMap[K, V]{set: *d, keys: m.keys}
}

// At names the place under these keys: the first is a key of the map, the next one
// of the map under it, and so on. There is no place without a key or with more than
// PlaceDepthMax: there nothing is found, and changes do nothing and return nil.
func (m *ORMap[K, V]) At(path ...K) Place[K, V] {
	return Place[K, V]{m, slices.Clone(path)}
}

// Remove takes out all that is under k and returns the delta, or nil if there is
// nothing.
func (m *ORMap[K, V]) Remove(k K) *ORMap[K, V] { return m.At(k).Remove() }

// Contains reports whether anything is under k.
func (m *ORMap[K, V]) Contains(k K) bool { return m.At(k).Exists() }

// Keys returns the keys, in no particular order.
func (m *ORMap[K, V]) Keys() []K { return m.index().keys() }

// Len returns the number of keys.
func (m *ORMap[K, V]) Len() int { return m.index().len }

// write puts new leaves in place of old ones and returns the delta.
func (m *ORMap[K, V]) write(node NodeID, now leaf[V], old ...leaf[V]) *ORMap[K, V] {
	m.index()
	d := m.asSet().replace(node, now, old...)
	for _, e := range old {
		if e != now {
			m.elementLeft(e)
		}
	}
	m.entered(now)
	return m.wrap(d)
}

func (m *ORMap[K, V]) erase(old ...leaf[V]) *ORMap[K, V] {
	m.index()
	d := m.asSet().erase(old...)
	if d != nil {
		for _, e := range old {
			m.elementLeft(e)
		}
	}
	return m.wrap(d)
}

// Merge joins other into the map and reports whether that changed anything. It adds
// the keys with changes to ch, if ch is not nil: Added for new keys, Removed for deleted
// keys, Updated for all other changed keys. Other may be nil.
func (m *ORMap[K, V]) Merge(other *ORMap[K, V], ch *Changes[K]) bool {
	if other == nil || other == m {
		return false
	}
	if m.places == nil && ch == nil {
		return m.asSet().Merge(other.asSet(), nil)
	}
	m.index()
	var c Changes[leaf[V]]
	changed := m.asSet().Merge(other.asSet(), &c)
	t := tracker[K]{has: func(k K) bool { _, ok := m.places.getContent(k); return ok }}
	for _, e := range c.Added {
		t.before(m.pathOf(e.path)[0])
		m.entered(e)
	}
	for _, e := range c.Removed {
		t.before(m.pathOf(e.path)[0])
		m.elementLeft(e)
	}
	t.report(ch)
	return changed
}

// Context returns a copy of the causal context.
func (m *ORMap[K, V]) Context() *Context { return m.asSet().Context() }

// Kind implements Value.
func (m *ORMap[K, V]) Kind() Kind {
	if m == nil {
		return KindORMap
	}
	return m.asSet().kindAs(KindORMap)
}

// Join implements Value.
func (m *ORMap[K, V]) Join(other Value) (bool, error) {
	o, ok := other.(*ORMap[K, V])
	if !ok || o != nil && !m.asSet().fits(o.asSet()) {
		return false, mismatch(m, other)
	}
	if o == nil {
		return false, nil
	}
	return m.set.joinWith(&o.set, func() bool { return m.Merge(o, nil) })
}

// Clone implements Value.
func (m *ORMap[K, V]) Clone() Value {
	c := &ORMap[K, V]{set: m.asSet().copy(), keys: m.keys}
	if m.set.full != nil {
		c.places = m.index().shareIndex()
	}
	return c
}

// Digest implements Value.
func (m *ORMap[K, V]) Digest() uint64 { return m.asSet().Digest() }

// Append implements Value.
func (m *ORMap[K, V]) Append(b []byte) []byte { return m.asSet().appendAs(b, m.Kind()) }

// Size implements Value.
func (m *ORMap[K, V]) Size() int { return m.asSet().Size() }

// Decode replaces the map with an encoded one. On error it is left as it was. The
// map keeps its codecs.
func (m *ORMap[K, V]) Decode(b []byte) error {
	err := m.asSet().decodeAs(b, m.Kind())
	if err == nil {
		m.places = nil
	}
	return err
}
