package crdt

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"
)

// LWWMap is a map of which each entry is a register with a Stamp; the newest
// stamp wins. Concurrent operations give:
//
//	Set(k, a, 5) | Set(k, b, 7)    k = b
//	Set(k, a, 5) | Delete(k, 7)    k is gone
//	Set(k, a, 7) | Delete(k, 5)    k = a
//	Set(k, a, 7) | Set(k, b, 7)    a writer's mistake; the same side wins everywhere
//
// Delete leaves a tombstone with its stamp, so that an older write which comes
// later cannot bring the entry back; Prune ends tombstones. A delta holds the
// changed entries only. The zero LWWMap is empty and ready to use, with
// DefaultCodec for keys and values. It is not safe for concurrent use.
type LWWMap[K comparable, V any] struct {
	types *lwwTypes[K, V]
	full  *lwwMap[K, V] // nil: the map is empty, or the one entry
	one   lwwEntry[K, V]
}

type lwwTypes[K comparable, V any] struct {
	key *element[K]
	val *element[V]
}

// lwwEntry is used if its stamp is not zero.
type lwwEntry[K comparable, V any] struct {
	key   K
	val   V
	stamp Stamp
	dead  bool
}

// lwwMap is a map with its index.
//
// Invariant: the table has one entry per used slot; dead of them are tombstones;
// sum is the sum of the entries' hashes, tombs that of the tombstones alone, bytes
// the sum of their sizes.
type lwwMap[K comparable, V any] struct {
	types *lwwTypes[K, V]
	table table[K]
	pages [][]lwwEntry[K, V]
	slots int
	free  []uint32
	dead  int
	sum   uint64
	tombs uint64
	bytes int
	slab  []LWWMap[K, V]
	batch int // length of the last slab
	// forgotten is the greatest stamp of a tombstone that was dropped here.
	forgotten Stamp
}

// NewLWWMap returns an empty map with codecs of the caller's.
func NewLWWMap[K comparable, V any](k Codec[K], v Codec[V]) *LWWMap[K, V] {
	return &LWWMap[K, V]{types: &lwwTypes[K, V]{keyWith(k), elementWith(v)}}
}

func newLWWMap[K comparable, V any](t *lwwTypes[K, V]) *lwwMap[K, V] {
	f := &lwwMap[K, V]{types: t}
	f.table.seed = maphash.MakeSeed()
	return f
}

func (m *LWWMap[K, V]) elements() *lwwTypes[K, V] {
	if m.types == nil {
		m.types = &lwwTypes[K, V]{keyOf[K](), elementOf[V]()}
	}
	return m.types
}

func (m *LWWMap[K, V]) grown() *lwwMap[K, V] {
	if m.full == nil {
		m.full = newLWWMap(m.elements())
		if m.one.stamp != (Stamp{}) {
			m.full.apply(&m.one, nil)
			m.one = lwwEntry[K, V]{}
		}
	}
	return m.full
}

// indexed returns the indexed form and leaves the map as it is.
func (m *LWWMap[K, V]) indexed() *lwwMap[K, V] {
	if m.full != nil {
		return m.full
	}
	c := LWWMap[K, V]{types: m.types, one: m.one}
	return c.grown()
}

// Set gives k the value v under a stamp and returns the delta, or nil if the entry
// has that stamp or a newer one: then nothing changes. The zero Stamp is never
// newer. V is copied if it holds memory that the caller could change.
func (m *LWWMap[K, V]) Set(k K, v V, stamp Stamp) *LWWMap[K, V] {
	return m.write(lwwEntry[K, V]{key: k, val: v, stamp: stamp})
}

// Delete ends the entry of k under a stamp and returns the delta, or nil if the
// entry has that stamp or a newer one.
func (m *LWWMap[K, V]) Delete(k K, stamp Stamp) *LWWMap[K, V] {
	return m.write(lwwEntry[K, V]{key: k, stamp: stamp, dead: true})
}

func (m *LWWMap[K, V]) write(e lwwEntry[K, V]) *LWWMap[K, V] {
	f := m.grown()
	h := f.table.hash(e.key)
	at, ok := f.find(h, e.key)
	var stands Stamp
	if ok {
		stands = f.at(at).stamp
	}
	if e.stamp.Compare(stands) <= 0 {
		return nil
	}
	d := f.delta()
	d.one = e
	if !e.dead {
		d.one.val, e.val = f.types.val.own(e.val), f.types.val.own(e.val)
	}
	f.put(h, at, ok, e)
	return d
}

// Get returns the value of k. It must not be changed if it holds memory.
func (m *LWWMap[K, V]) Get(k K) (v V, ok bool) {
	if e := m.entry(k); e != nil && !e.dead {
		return e.val, true
	}
	return v, false
}

// Stamp returns the stamp of the entry of k, also if that is a tombstone.
func (m *LWWMap[K, V]) Stamp(k K) (s Stamp, ok bool) {
	if e := m.entry(k); e != nil {
		return e.stamp, true
	}
	return s, false
}

// Forgotten returns the greatest stamp among the tombstones that this replica has
// dropped, the zero Stamp if it has dropped none. It is not part of the value. A write to
// a key without an entry that is to win over deletions which were seen here must be
// above it: another replica may still hold the tombstone.
func (m *LWWMap[K, V]) Forgotten() Stamp {
	if m.full == nil {
		return Stamp{}
	}
	return m.full.forgotten
}

func (m *LWWMap[K, V]) entry(k K) *lwwEntry[K, V] {
	if m.full == nil {
		if m.one.stamp != (Stamp{}) && m.one.key == k {
			return &m.one
		}
		return nil
	}
	if at, ok := m.full.find(m.full.table.hash(k), k); ok {
		return m.full.at(at)
	}
	return nil
}

// Len returns the number of entries, not counting tombstones.
func (m *LWWMap[K, V]) Len() int {
	if m.full != nil {
		return m.full.table.n - m.full.dead
	}
	if m.one.stamp != (Stamp{}) && !m.one.dead {
		return 1
	}
	return 0
}

// Tombstones returns the number of deleted entries that are still remembered.
func (m *LWWMap[K, V]) Tombstones() int {
	if m.full != nil {
		return m.full.dead
	}
	if m.one.dead {
		return 1
	}
	return 0
}

// All yields the entries, in no particular order. The map must not be changed
// meanwhile.
func (m *LWWMap[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for e := range m.entries() {
			if !e.dead && !yield(e.key, e.val) {
				return
			}
		}
	}
}

// Deleted yields the keys of deleted entries that are still remembered, with the
// stamps of their ends, in no particular order. The map must not be changed meanwhile.
func (m *LWWMap[K, V]) Deleted() iter.Seq2[K, Stamp] {
	return func(yield func(K, Stamp) bool) {
		for e := range m.entries() {
			if e.dead && !yield(e.key, e.stamp) {
				return
			}
		}
	}
}

// entries yields all entries, tombstones too.
func (m *LWWMap[K, V]) entries() iter.Seq[*lwwEntry[K, V]] {
	return func(yield func(*lwwEntry[K, V]) bool) {
		if m.full == nil {
			if m.one.stamp != (Stamp{}) {
				yield(&m.one)
			}
			return
		}
		for _, p := range m.full.pages {
			for i := range p {
				if p[i].stamp != (Stamp{}) && !yield(&p[i]) {
					return
				}
			}
		}
	}
}

// Newest returns the greatest stamp in the map, or the zero Stamp. It looks at
// every entry.
func (m *LWWMap[K, V]) Newest() (s Stamp) {
	for e := range m.entries() {
		if e.stamp.Compare(s) > 0 {
			s = e.stamp
		}
	}
	return s
}

// Merge joins other into the map and reports whether that changed anything. What
// it changed is added to ch, if that is not nil. Other may be nil.
func (m *LWWMap[K, V]) Merge(other *LWWMap[K, V], ch *Changes[K]) (changed bool) {
	if other == nil || other == m {
		return false
	}
	f := m.grown()
	if other.full != nil && f.sameAs(other.full) {
		return false
	}
	for e := range other.entries() {
		changed = f.apply(e, ch) || changed
	}
	return changed
}

// sameAs reports whether two maps hold the same entries, by their digests and counts.
// Replicas that compare digests rest on the same: one unequal pair in 2^64 is taken for
// equal, see SaltedDigest.
func (f *lwwMap[K, V]) sameAs(o *lwwMap[K, V]) bool {
	return f.sum == o.sum && f.tombs == o.tombs && f.table.n == o.table.n && f.dead == o.dead && f.bytes == o.bytes
}

// DropTombstones forgets the tombstones for which seen returns true and returns
// how many. The caller vouches that every replica has them and that nothing older
// is on its way: otherwise a deleted entry comes back.
func (m *LWWMap[K, V]) DropTombstones(seen func(K, Stamp) bool) (dropped int) {
	f := m.grown()
	for s := range uint32(f.slots) {
		e := f.at(s)
		if !e.dead || !seen(e.key, e.stamp) {
			continue
		}
		if e.stamp.Compare(f.forgotten) > 0 {
			f.forgotten = e.stamp
		}
		f.account(e, -1)
		f.table.drop(f.table.hash(e.key), s)
		*e = lwwEntry[K, V]{}
		f.free = append(f.free, s)
		dropped++
	}
	if f.slots > 2*pageLen && f.table.n*4 < f.slots {
		g := newLWWMap(f.types)
		g.forgotten = f.forgotten
		for e := range m.entries() {
			g.apply(e, nil)
		}
		m.full = g
	}
	return dropped
}

func (f *lwwMap[K, V]) at(s uint32) *lwwEntry[K, V] {
	return &f.pages[s>>pageBits][s&(pageLen-1)]
}

func (f *lwwMap[K, V]) find(hash uint32, k K) (uint32, bool) {
	t := &f.table
	if len(t.entries) == 0 {
		return 0, false
	}
	mask := uint64(len(t.entries) - 1)
	for i := uint64(hash) & mask; ; i = (i + 1) & mask {
		x := t.entries[i]
		if x == 0 {
			return 0, false
		}
		if uint32(x>>32) == hash && f.at(uint32(x)-1).key == k {
			return uint32(x) - 1, true
		}
	}
}

func (f *lwwMap[K, V]) delta() *LWWMap[K, V] {
	if len(f.slab) == 0 {
		f.batch = min(2*f.batch+1, slabMax)
		f.slab = make([]LWWMap[K, V], f.batch)
	}
	d := &f.slab[0]
	f.slab = f.slab[1:]
	d.types = f.types
	return d
}

// apply joins one entry.
func (f *lwwMap[K, V]) apply(e *lwwEntry[K, V], ch *Changes[K]) bool {
	h := f.table.hash(e.key)
	at, ok := f.find(h, e.key)
	alive := false
	if ok {
		old := f.at(at)
		alive = !old.dead
		if c := e.stamp.Compare(old.stamp); c < 0 || c == 0 && !f.winsTie(e, old) {
			return false
		}
	}
	c := *e
	if !c.dead {
		c.val = f.types.val.own(c.val)
	}
	f.put(h, at, ok, c)
	switch {
	case !c.dead && alive:
		ch.update(c.key)
	case !c.dead:
		ch.add(c.key)
	case alive:
		ch.remove(c.key)
	}
	return true
}

// winsTie decides between two entries with one stamp, which no correct writer
// makes: the tombstone wins, then the greater encoding.
func (f *lwwMap[K, V]) winsTie(e, old *lwwEntry[K, V]) bool {
	if e.dead || old.dead {
		return e.dead && !old.dead
	}
	if h, _ := f.types.val.measure(e.val); h == first(f.types.val.measure(old.val)) {
		return false // the same entry again
	}
	c := f.types.val.codec
	return bytes.Compare(c.Append(nil, e.val), c.Append(nil, old.val)) > 0
}

func first(hash uint64, _ int) uint64 { return hash }

// put stores e, in slot at if the key has one.
func (f *lwwMap[K, V]) put(h, at uint32, ok bool, e lwwEntry[K, V]) {
	key, size := f.types.key.measure(e.key)
	switch {
	case ok:
		f.accountFor(f.at(at), key, size, -1)
	case len(f.free) > 0:
		at = f.free[len(f.free)-1]
		f.free = f.free[:len(f.free)-1]
		f.table.put(h, at)
	default:
		at = f.newSlot()
		f.table.put(h, at)
	}
	x := f.at(at)
	*x = e
	f.accountFor(x, key, size, 1)
}

func (f *lwwMap[K, V]) newSlot() uint32 {
	if f.slots&(pageLen-1) == 0 {
		var p []lwwEntry[K, V]
		if len(f.pages) > 0 {
			p = make([]lwwEntry[K, V], 0, pageLen)
		}
		f.pages = append(f.pages, p)
	}
	p := &f.pages[f.slots>>pageBits]
	*p = append(*p, lwwEntry[K, V]{})
	f.slots++
	return uint32(f.slots - 1)
}

// account adds an entry to the sums, or takes it away.
func (f *lwwMap[K, V]) account(e *lwwEntry[K, V], sign int) {
	hash, size := f.types.key.measure(e.key)
	f.accountFor(e, hash, size, sign)
}

// accountFor is account for a key that was measured before.
func (f *lwwMap[K, V]) accountFor(e *lwwEntry[K, V], hash uint64, size, sign int) {
	if e.dead {
		hash = mix(hash, stampHash(e.stamp))
		f.dead += sign
		f.tombs += hash * uint64(sign)
	} else {
		h, n := f.types.val.measure(e.val)
		hash, size = mix(mix(hash, h), stampHash(e.stamp)), size+n
	}
	f.sum += hash * uint64(sign)
	f.bytes += sign * size
}

// Kind implements Value.
func (m *LWWMap[K, V]) Kind() Kind {
	if m == nil {
		return KindLWWMap
	}
	return KindLWWMap.with(m.elements().kinds())
}

func (t *lwwTypes[K, V]) kinds() uint8 { return packKinds(t.key.of, t.val.of) }

// Join implements Value.
func (m *LWWMap[K, V]) Join(other Value) (bool, error) {
	o, ok := other.(*LWWMap[K, V])
	if !ok || o != nil && o.elements().kinds() != m.elements().kinds() {
		return false, mismatch(m, other)
	}
	return m.Merge(o, nil), nil
}

// Clone implements Value.
func (m *LWWMap[K, V]) Clone() Value {
	c := &LWWMap[K, V]{types: m.elements(), one: m.one}
	if m.full == nil {
		c.one.val = c.types.val.own(c.one.val)
		return c
	}
	f := newLWWMap(m.types)
	*f = *m.full
	f.slab = nil
	f.table = m.full.table.clone()
	f.free = slices.Clone(m.full.free)
	f.pages = make([][]lwwEntry[K, V], len(m.full.pages))
	for i, p := range m.full.pages {
		f.pages[i] = append(make([]lwwEntry[K, V], 0, max(len(p), min(i, 1)*pageLen)), p...)
	}
	c.full = f
	if f.types.val.copies != nil {
		for e := range c.entries() {
			e.val = f.types.val.own(e.val)
		}
	}
	return c
}

// Digest implements Value.
func (m *LWWMap[K, V]) Digest() uint64 { return m.indexed().sum }

// Size implements Value.
func (m *LWWMap[K, V]) Size() int {
	f := m.indexed()
	return 32 + f.bytes + 4*f.table.n
}
