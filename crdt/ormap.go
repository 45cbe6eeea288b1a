package crdt

import (
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
	"github.com/peerage-go/peerage/internal/crdt/shared"
)

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
	places *shared.Keyed[K, *branch[K, V]] // nil: not built yet
	tidy   uint64                          // see shares
}

// PlaceDepthMax is the greatest number of keys in the path of a place.
const PlaceDepthMax = canonical.DepthMax

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
func (m *ORMap[K, V]) Keys() []K { return m.indexByKey().Keys() }

// Len returns the number of keys.
func (m *ORMap[K, V]) Len() int { return m.indexByKey().Len }

// replaceLeaves puts new leaves in place of old ones and returns the delta.
func (m *ORMap[K, V]) replaceLeaves(node NodeID, now leaf[V], old ...leaf[V]) *ORMap[K, V] {
	m.indexByKey()
	d := m.asSet().replaceElements(node, now, old...)
	for _, e := range old {
		if e != now {
			m.elementLeft(e)
		}
	}
	m.entered(now)
	return m.wrap(d)
}

func (m *ORMap[K, V]) eraseLeaves(old ...leaf[V]) *ORMap[K, V] {
	m.indexByKey()
	d := m.asSet().eraseElements(old...)
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
	m.indexByKey()
	var c Changes[leaf[V]]
	changed := m.asSet().Merge(other.asSet(), &c)
	t := tracker[K]{has: func(k K) bool { _, ok := m.places.GetContent(k); return ok }}
	for _, e := range c.Added {
		t.before(m.pathOf(e.path)[0])
		m.entered(e)
	}
	for _, e := range c.Removed {
		t.before(m.pathOf(e.path)[0])
		m.elementLeft(e)
	}
	t.reportChanges(ch)
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
		c.places = m.indexByKey().ShareIndex()
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

// branch is the index of what is at a place and further down.
//
// Invariant: no branch is empty; list has the kids, each at its pos.
type branch[K, V comparable] struct {
	up     *branch[K, V]
	key    K
	pos    int
	kids   map[K]*branch[K, V]
	list   []*branch[K, V]
	groups [fieldCounter + 1]group[leaf[V]]
	leaves int
}

func (b *branch[K, V]) keys() []K {
	out := make([]K, len(b.list))
	for i, k := range b.list {
		out[i] = k.key
	}
	return out
}

// all appends the leaves here and further down.
func (b *branch[K, V]) all(out []leaf[V]) []leaf[V] {
	for i := range b.groups {
		out = append(out, b.groups[i].vals...)
	}
	for _, k := range b.list {
		out = k.all(out)
	}
	return out
}

// ensureChild returns the branch under k and makes it if need be.
func (b *branch[K, V]) ensureChild(k K) *branch[K, V] {
	if kid := b.kids[k]; kid != nil {
		return kid
	}
	kid := &branch[K, V]{up: b, key: k, pos: len(b.list)}
	if b.kids == nil {
		b.kids = make(map[K]*branch[K, V])
	}
	b.kids[k] = kid
	b.list = append(b.list, kid)
	return kid
}

// cloneBranch returns a copy under the branch up.
func (b *branch[K, V]) cloneBranch(up *branch[K, V]) *branch[K, V] {
	c := &branch[K, V]{up: up, key: b.key, pos: b.pos, leaves: b.leaves}
	for i := range b.groups {
		c.groups[i] = *b.groups[i].cloneGroup()
	}
	if b.kids != nil {
		c.kids, c.list = make(map[K]*branch[K, V], len(b.list)), make([]*branch[K, V], len(b.list))
	}
	for i, kid := range b.list {
		c.list[i] = kid.cloneBranch(c)
		c.kids[kid.key] = c.list[i]
	}
	return c
}

// removeEmpty takes the branch out if it is empty, and then those above.
func (b *branch[K, V]) removeEmpty() {
	for b.up != nil && b.leaves == 0 && len(b.list) == 0 {
		up, last := b.up, len(b.up.list)-1
		up.list[b.pos] = up.list[last]
		up.list[b.pos].pos = b.pos
		up.list[last] = nil
		up.list = up.list[:last]
		delete(up.kids, b.key)
		b = up
	}
}

func (m *ORMap[K, V]) indexByKey() *shared.Keyed[K, *branch[K, V]] {
	if m.places == nil {
		m.asSet()
		m.places = shared.NewKeyed[K, *branch[K, V]]()
		for e := range m.set.All() {
			m.entered(e)
		}
	}
	return m.places
}

// editBranch returns the branch under a key of the map for writing, nil if there is none.
func (m *ORMap[K, V]) editBranch(k K) *branch[K, V] {
	b, _ := m.places.EditContent(k, func(b *branch[K, V]) *branch[K, V] { return b.cloneBranch(nil) })
	return b
}

func (m *ORMap[K, V]) pathOf(path string) []K {
	r := &reader{canonical.Reader{B: []byte(path)}}
	out := make([]K, r.arrayLen("path", 1))
	for i := range out {
		out[i] = m.keys.decodeElement(r)
	}
	return out
}

// entered puts a leaf into the index, unless it is there.
func (m *ORMap[K, V]) entered(e leaf[V]) {
	path := m.pathOf(e.path)
	b := m.editBranch(path[0])
	if b == nil {
		b = &branch[K, V]{key: path[0]}
		m.places.PutContent(path[0], b)
	}
	for _, k := range path[1:] {
		b = b.ensureChild(k)
	}
	if g := &b.groups[e.field]; g.indexOf(e) < 0 {
		g.addValue(e)
		b.leaves++
	}
}

// elementLeft takes a leaf out of the index.
func (m *ORMap[K, V]) elementLeft(e leaf[V]) {
	path := m.pathOf(e.path)
	top := m.editBranch(path[0])
	b := top
	for _, k := range path[1:] {
		b = b.kids[k]
	}
	b.groups[e.field].dropValue(e)
	b.leaves--
	b.removeEmpty()
	if top.leaves == 0 && len(top.list) == 0 {
		m.places.DropKey(path[0])
	}
}

// leafCodec writes [path, field, ...]: a value for registers and elements, nothing
// for flags, node, born, inc and dec for counters.
type leafCodec[K, V comparable] struct {
	key *element[K]
	val *element[V]
}

func (c leafCodec[K, V]) elementKinds() uint8 { return packKinds(c.key.of, c.val.of) }

var leafLen = [...]int{fieldRegister: 3, fieldElement: 3, fieldFlag: 2, fieldCounter: 6}

func (c leafCodec[K, V]) Append(b []byte, e leaf[V]) []byte {
	b = append(canonical.AppendArrayLen(b, leafLen[e.field]), e.path...)
	b = canonical.AppendUint(b, uint64(e.field))
	switch e.field {
	case fieldRegister, fieldElement:
		b = c.val.codec.Append(b, e.val)
	case fieldCounter:
		b = canonical.AppendUint(canonical.AppendUint(b, uint64(e.node)), e.born)
		b = canonical.AppendUint(canonical.AppendUint(b, e.inc), e.dec)
	}
	return b
}

func (c leafCodec[K, V]) Decode(b []byte) (e leaf[V], n int, err error) {
	r := &reader{canonical.Reader{B: b}}
	size := r.arrayLen("leaf", 1)
	e.path = c.readPath(r)
	f := r.Uint()
	if r.Err == nil && (f == 0 || f >= uint64(len(leafLen)) || leafLen[f] != size) {
		r.Fail(ErrMalformed)
	}
	switch e.field = field(f); {
	case r.Err != nil:
	case e.field == fieldRegister || e.field == fieldElement:
		e.val = c.val.decodeElement(r)
	case e.field == fieldCounter:
		e.node, e.born, e.inc, e.dec = NodeID(r.Uint()), r.Uint(), r.Uint(), r.Uint()
	}
	return e, len(b) - len(r.B), r.Err
}

// readPath reads a path and returns it in its canonical form.
func (c leafCodec[K, V]) readPath(r *reader) string {
	n := r.arrayLen("path", 1)
	if r.Err == nil && (n == 0 || n > PlaceDepthMax) {
		r.Fail(&LimitError{Field: "path", Declared: uint64(n), Max: PlaceDepthMax})
	}
	if r.Err != nil {
		return ""
	}
	path := canonical.AppendArrayLen(nil, n)
	for range n {
		if k := c.key.decodeElement(r); r.Err == nil {
			path = c.key.codec.Append(path, k)
		}
	}
	return string(path)
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *ORMap[K, V]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }
