package crdt

import (
	"iter"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
	"github.com/peerage-go/peerage/internal/crdt/shared"
)

// ORMultiMap is a map from keys to sets of values in which adding wins. Concurrent
// operations give:
//
//	Add(k, a) | Add(k, b)      k has a and b
//	Add(k, a) | Remove(k, a)   k has a
//	Add(k, a) | RemoveKey(k)   k has a, and nothing that RemoveKey had seen
//
// A key is there as long as it has a value. All keys share one causal context, so a
// value that was removed does not come back when its key is used again. The zero
// ORMultiMap is empty and ready to use, with DefaultCodec for keys and values. It
// is not safe for concurrent use, reading included.
//
// Invariant: if groups is not nil it has the elements of set, by key.
type ORMultiMap[K, V comparable] struct {
	set    ORSet[pair[K, V]]
	groups *shared.Keyed[K, *group[V]] // nil: not built yet
}

type pair[K, V comparable] struct {
	key K
	val V
}

// NewORMultiMap returns an empty map with codecs of the caller's.
func NewORMultiMap[K, V comparable](k Codec[K], v Codec[V]) *ORMultiMap[K, V] {
	m := &ORMultiMap[K, V]{}
	m.set.elem = elementWith[pair[K, V]](pairCodec[K, V]{keyWith(k), keyWith(v)})
	return m
}

// asSet returns the set that holds the value, and makes it ready for use.
func (m *ORMultiMap[K, V]) asSet() *ORSet[pair[K, V]] {
	if m.set.elem == nil {
		m.set.elem = elementWith[pair[K, V]](pairCodec[K, V]{keyOf[K](), keyOf[V]()})
	}
	return &m.set
}

// pairCodec writes a key and a value as an array of two.
type pairCodec[K, V comparable] struct {
	key *element[K]
	val *element[V]
}

func (c pairCodec[K, V]) Append(b []byte, e pair[K, V]) []byte {
	return c.val.codec.Append(c.key.codec.Append(canonical.AppendArrayLen(b, 2), e.key), e.val)
}

func (c pairCodec[K, V]) Decode(b []byte) (e pair[K, V], n int, err error) {
	r := &reader{canonical.Reader{B: b}}
	r.tuple(2)
	e.key = c.key.decodeElement(r)
	e.val = c.val.decodeElement(r)
	return e, len(b) - len(r.B), r.Err
}

func (c pairCodec[K, V]) elementKinds() uint8 { return packKinds(c.key.of, c.val.of) }

func (c pairCodec[K, V]) hashElement(e pair[K, V]) uint64 {
	k, _ := c.key.hashAndSize(e.key)
	v, _ := c.val.hashAndSize(e.val)
	return mix(k, v)
}

func (c pairCodec[K, V]) encodedSize(e pair[K, V]) int {
	_, k := c.key.hashAndSize(e.key)
	_, v := c.val.hashAndSize(e.val)
	return 1 + k + v
}

// group is the values of one key; a large one has an index.
type group[V comparable] struct {
	vals []V
	at   map[V]int // nil while there are few
}

const groupLinear = 32

func (g *group[V]) cloneGroup() *group[V] { return &group[V]{slices.Clone(g.vals), maps.Clone(g.at)} }

func (g *group[V]) indexOf(v V) int {
	if g.at == nil {
		return slices.Index(g.vals, v)
	}
	if i, ok := g.at[v]; ok {
		return i
	}
	return -1
}

func (g *group[V]) addValue(v V) {
	g.vals = append(g.vals, v)
	if g.at == nil && len(g.vals) > groupLinear {
		g.at = make(map[V]int, 2*groupLinear)
		for i, x := range g.vals {
			g.at[x] = i
		}
	}
	if g.at != nil {
		g.at[v] = len(g.vals) - 1
	}
}

func (g *group[V]) dropValue(v V) {
	i, last := g.indexOf(v), len(g.vals)-1
	g.vals[i] = g.vals[last]
	if g.at != nil {
		g.at[g.vals[i]] = i
		delete(g.at, v)
	}
	clear(g.vals[last:])
	g.vals = g.vals[:last]
}

func (m *ORMultiMap[K, V]) indexByKey() *shared.Keyed[K, *group[V]] {
	if m.groups == nil {
		m.groups = shared.NewKeyed[K, *group[V]]()
		for e := range m.set.All() {
			m.entered(e)
		}
	}
	return m.groups
}

func (m *ORMultiMap[K, V]) entered(e pair[K, V]) {
	g, ok := m.groups.EditContent(e.key, (*group[V]).cloneGroup)
	if !ok {
		g = &group[V]{}
		m.groups.PutContent(e.key, g)
	}
	g.addValue(e.val)
}

func (m *ORMultiMap[K, V]) elementLeft(e pair[K, V]) {
	g, _ := m.groups.EditContent(e.key, (*group[V]).cloneGroup)
	g.dropValue(e.val)
	if len(g.vals) == 0 {
		m.groups.DropKey(e.key)
	}
}

// Add puts v under k, as a change made by node, and returns the delta. Only the
// incarnation node itself may call it.
func (m *ORMultiMap[K, V]) Add(node NodeID, k K, v V) *ORMultiMap[K, V] {
	if g, ok := m.indexByKey().GetContent(k); !ok || g.indexOf(v) < 0 {
		m.entered(pair[K, V]{k, v})
	}
	return &ORMultiMap[K, V]{set: *m.asSet().Add(node, pair[K, V]{k, v})}
}

// Remove takes v from k and returns the delta, or nil if it is not there.
func (m *ORMultiMap[K, V]) Remove(k K, v V) *ORMultiMap[K, V] {
	return m.erasePairs(pair[K, V]{k, v})
}

// RemoveKey takes out all values of k and returns the delta, or nil if there are
// none.
func (m *ORMultiMap[K, V]) RemoveKey(k K) *ORMultiMap[K, V] {
	var old []pair[K, V]
	for _, v := range m.Values(k) {
		old = append(old, pair[K, V]{k, v})
	}
	return m.erasePairs(old...)
}

func (m *ORMultiMap[K, V]) erasePairs(old ...pair[K, V]) *ORMultiMap[K, V] {
	m.indexByKey()
	d := m.asSet().eraseElements(old...)
	if d == nil {
		return nil
	}
	for _, e := range old {
		m.elementLeft(e)
	}
	return &ORMultiMap[K, V]{set: *d}
}

// Values returns a copy of the values of k, in no particular order.
func (m *ORMultiMap[K, V]) Values(k K) []V {
	if g, ok := m.indexByKey().GetContent(k); ok {
		return slices.Clone(g.vals)
	}
	return nil
}

// Contains reports whether v is under k.
func (m *ORMultiMap[K, V]) Contains(k K, v V) bool { return m.set.Contains(pair[K, V]{k, v}) }

// Keys returns the number of keys.
func (m *ORMultiMap[K, V]) Keys() int { return m.indexByKey().Len }

// Len returns the number of values under all keys.
func (m *ORMultiMap[K, V]) Len() int { return m.set.Len() }

// All yields each key with each of its values, in no particular order. The map
// must not be changed meanwhile.
func (m *ORMultiMap[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := range m.set.All() {
			if !yield(e.key, e.val) {
				return
			}
		}
	}
}

// Merge joins other into the map and reports whether that changed anything. It adds
// the keys of changed sets to ch, if ch is not nil: Added for new keys, Removed for deleted
// keys, Updated for all other changed keys. Other may be nil.
func (m *ORMultiMap[K, V]) Merge(other *ORMultiMap[K, V], ch *Changes[K]) bool {
	if other == nil || other == m {
		return false
	}
	if m.groups == nil && ch == nil {
		return m.asSet().Merge(other.asSet(), nil)
	}
	m.indexByKey()
	var c Changes[pair[K, V]]
	changed := m.asSet().Merge(other.asSet(), &c)
	t := tracker[K]{has: func(k K) bool { _, ok := m.groups.GetContent(k); return ok }}
	for _, e := range c.Added {
		t.before(e.key)
		m.entered(e)
	}
	for _, e := range c.Removed {
		t.before(e.key)
		m.elementLeft(e)
	}
	t.reportChanges(ch)
	return changed
}

// Context returns a copy of the causal context.
func (m *ORMultiMap[K, V]) Context() *Context { return m.asSet().Context() }

// Kind implements Value.
func (m *ORMultiMap[K, V]) Kind() Kind {
	if m == nil {
		return KindORMultiMap
	}
	return m.asSet().kindAs(KindORMultiMap)
}

// Join implements Value.
func (m *ORMultiMap[K, V]) Join(other Value) (bool, error) {
	o, ok := other.(*ORMultiMap[K, V])
	if !ok || o != nil && !m.asSet().fits(o.asSet()) {
		return false, mismatch(m, other)
	}
	if o == nil {
		return false, nil
	}
	return m.set.joinWith(&o.set, func() bool { return m.Merge(o, nil) })
}

// Clone implements Value.
func (m *ORMultiMap[K, V]) Clone() Value {
	c := &ORMultiMap[K, V]{set: m.asSet().copy()}
	if m.set.full != nil {
		c.groups = m.indexByKey().ShareIndex()
	}
	return c
}

// Digest implements Value.
func (m *ORMultiMap[K, V]) Digest() uint64 { return m.asSet().Digest() }

// Append implements Value.
func (m *ORMultiMap[K, V]) Append(b []byte) []byte { return m.asSet().appendAs(b, m.Kind()) }

// Size implements Value.
func (m *ORMultiMap[K, V]) Size() int { return m.asSet().Size() }

// Decode replaces the map with an encoded one. On error it is left as it was. The
// map keeps its codecs.
func (m *ORMultiMap[K, V]) Decode(b []byte) error {
	err := m.asSet().decodeAs(b, m.Kind())
	if err == nil {
		m.groups = nil
	}
	return err
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *ORMultiMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }
