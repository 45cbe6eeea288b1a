package crdt

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

// grow returns the branch under k and makes it if need be.
func (b *branch[K, V]) grow(k K) *branch[K, V] {
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

// prune takes the branch out if it is empty, and then those above.
func (b *branch[K, V]) prune() {
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

func (m *ORMap[K, V]) index() *keyed[K, *branch[K, V]] {
	if m.places == nil {
		m.asSet()
		m.places = newKeyed[K, *branch[K, V]]()
		for e := range m.set.All() {
			m.entered(e)
		}
	}
	return m.places
}

// editBranch returns the branch under a key of the map for writing, nil if there is none.
func (m *ORMap[K, V]) editBranch(k K) *branch[K, V] {
	b, _ := m.places.editContent(k, func(b *branch[K, V]) *branch[K, V] { return b.cloneBranch(nil) })
	return b
}

func (m *ORMap[K, V]) pathOf(path string) []K {
	r := &reader{b: []byte(path)}
	out := make([]K, r.arrayLen("path", 1))
	for i := range out {
		out[i] = m.keys.read(r)
	}
	return out
}

// entered puts a leaf into the index, unless it is there.
func (m *ORMap[K, V]) entered(e leaf[V]) {
	path := m.pathOf(e.path)
	b := m.editBranch(path[0])
	if b == nil {
		b = &branch[K, V]{key: path[0]}
		m.places.putContent(path[0], b)
	}
	for _, k := range path[1:] {
		b = b.grow(k)
	}
	if g := &b.groups[e.field]; g.find(e) < 0 {
		g.add(e)
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
	b.groups[e.field].drop(e)
	b.leaves--
	b.prune()
	if top.leaves == 0 && len(top.list) == 0 {
		m.places.dropKey(path[0])
	}
}

// leafCodec writes [path, field, ...]: a value for registers and elements, nothing
// for flags, node, born, inc and dec for counters.
type leafCodec[K, V comparable] struct {
	key *element[K]
	val *element[V]
}

func (c leafCodec[K, V]) elements() uint8 { return packKinds(c.key.of, c.val.of) }

var leafLen = [...]int{fieldRegister: 3, fieldElement: 3, fieldFlag: 2, fieldCounter: 6}

func (c leafCodec[K, V]) Append(b []byte, e leaf[V]) []byte {
	b = append(appendArrayLen(b, leafLen[e.field]), e.path...)
	b = appendUint(b, uint64(e.field))
	switch e.field {
	case fieldRegister, fieldElement:
		b = c.val.codec.Append(b, e.val)
	case fieldCounter:
		b = appendUint(appendUint(b, uint64(e.node)), e.born)
		b = appendUint(appendUint(b, e.inc), e.dec)
	}
	return b
}

func (c leafCodec[K, V]) Decode(b []byte) (e leaf[V], n int, err error) {
	r := &reader{b: b}
	size := r.arrayLen("leaf", 1)
	e.path = c.readPath(r)
	f := r.uint()
	if r.err == nil && (f == 0 || f >= uint64(len(leafLen)) || leafLen[f] != size) {
		r.fail(ErrMalformed)
	}
	switch e.field = field(f); {
	case r.err != nil:
	case e.field == fieldRegister || e.field == fieldElement:
		e.val = c.val.read(r)
	case e.field == fieldCounter:
		e.node, e.born, e.inc, e.dec = NodeID(r.uint()), r.uint(), r.uint(), r.uint()
	}
	return e, len(b) - len(r.b), r.err
}

// readPath reads a path and returns it in its canonical form.
func (c leafCodec[K, V]) readPath(r *reader) string {
	n := r.arrayLen("path", 1)
	if r.err == nil && (n == 0 || n > PlaceDepthMax) {
		r.fail(&LimitError{Field: "path", Declared: uint64(n), Max: PlaceDepthMax})
	}
	if r.err != nil {
		return ""
	}
	path := appendArrayLen(nil, n)
	for range n {
		if k := c.key.read(r); r.err == nil {
			path = c.key.codec.Append(path, k)
		}
	}
	return string(path)
}
