package crdt

import (
	"bytes"
	"hash/maphash"
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/shared"
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
	full  *lwwMap[K, V] // nil: the map is empty, or has the one entry and has forgotten nothing
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
	pages shared.Leaves[lwwEntry[K, V]]
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

func (m *LWWMap[K, V]) elementTypes() *lwwTypes[K, V] {
	if m.types == nil {
		m.types = &lwwTypes[K, V]{keyOf[K](), elementOf[V]()}
	}
	return m.types
}

func (m *LWWMap[K, V]) grown() *lwwMap[K, V] {
	if m.full == nil {
		m.full = newLWWMap(m.elementTypes())
		if m.one.stamp != (Stamp{}) {
			m.full.apply(&m.one, nil)
			m.one = lwwEntry[K, V]{}
		}
	}
	return m.full
}

// Set gives k the value v under a stamp and returns the delta, or nil if the entry
// has that stamp or a newer one: then nothing changes. The zero Stamp is never
// newer. V is copied if it holds memory that the caller could change.
func (m *LWWMap[K, V]) Set(k K, v V, stamp Stamp) *LWWMap[K, V] {
	return m.writeEntry(lwwEntry[K, V]{key: k, val: v, stamp: stamp})
}

// Delete ends the entry of k under a stamp and returns the delta, or nil if the
// entry has that stamp or a newer one.
func (m *LWWMap[K, V]) Delete(k K, stamp Stamp) *LWWMap[K, V] {
	return m.writeEntry(lwwEntry[K, V]{key: k, stamp: stamp, dead: true})
}

func (m *LWWMap[K, V]) writeEntry(e lwwEntry[K, V]) *LWWMap[K, V] {
	if m.small(&e) {
		if e.stamp.Compare(m.one.stamp) <= 0 {
			return nil
		}
		m.one = m.elementTypes().ownEntry(e)
		return &LWWMap[K, V]{types: m.types, one: m.types.ownEntry(e)}
	}
	f := m.grown()
	h := f.table.hash(e.key)
	at, ok := f.findSlot(h, e.key)
	var stands Stamp
	if ok {
		stands = f.entryAt(at).stamp
	}
	if e.stamp.Compare(stands) <= 0 {
		return nil
	}
	d := f.delta()
	d.one = f.types.ownEntry(e)
	f.storeEntry(h, at, ok, f.types.ownEntry(e))
	return d
}

// small reports whether the map needs no index, also with e in it.
func (m *LWWMap[K, V]) small(e *lwwEntry[K, V]) bool {
	return m.full == nil && (m.one.stamp == (Stamp{}) || m.one.key == e.key)
}

// ownEntry returns e with a value that no caller can change.
func (t *lwwTypes[K, V]) ownEntry(e lwwEntry[K, V]) lwwEntry[K, V] {
	if !e.dead {
		e.val = t.val.ownedCopy(e.val)
	}
	return e
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
	if at, ok := m.full.findSlot(m.full.table.hash(k), k); ok {
		return m.full.entryAt(at)
	}
	return nil
}

// Len returns the number of entries, not counting tombstones.
func (m *LWWMap[K, V]) Len() int {
	if m.full != nil {
		return m.full.table.N - m.full.dead
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
		for _, p := range m.full.pages.List {
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

// Merge joins other into the map and reports whether that changed anything. It
// adds its changes to ch, if ch is not nil. Other may be nil.
func (m *LWWMap[K, V]) Merge(other *LWWMap[K, V], ch *Changes[K]) (changed bool) {
	if other == nil || other == m {
		return false
	}
	if other.full == nil && (other.one.stamp == (Stamp{}) || m.small(&other.one)) {
		return m.mergeSmall(&other.one, ch)
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

// mergeSmall joins e, if there is one, to a map that stays small.
func (m *LWWMap[K, V]) mergeSmall(e *lwwEntry[K, V], ch *Changes[K]) bool {
	alive := m.one.stamp != (Stamp{}) && !m.one.dead
	if c := e.stamp.Compare(m.one.stamp); c < 0 || c == 0 && (e.stamp == (Stamp{}) || !m.elementTypes().winsTie(e, &m.one)) {
		return false
	}
	m.one = m.elementTypes().ownEntry(*e)
	e.noteChange(alive, ch)
	return true
}

// noteChange adds to ch the effect of e on an entry that was alive, or was not.
func (e *lwwEntry[K, V]) noteChange(alive bool, ch *Changes[K]) {
	switch {
	case !e.dead && alive:
		ch.recordUpdated(e.key)
	case !e.dead:
		ch.recordAdded(e.key)
	case alive:
		ch.recordRemoved(e.key)
	}
}

// sameAs reports whether two maps hold the same entries, by their digests and counts.
// Replicas that compare digests rest on the same: one unequal pair in 2^64 is taken for
// equal, see SaltedDigest.
func (f *lwwMap[K, V]) sameAs(o *lwwMap[K, V]) bool {
	return f.sum == o.sum && f.tombs == o.tombs && f.table.N == o.table.N && f.dead == o.dead && f.bytes == o.bytes
}

// DropTombstones forgets the tombstones for which seen returns true and returns
// how many. The caller vouches that every replica has them and that nothing older
// is on its way: otherwise a deleted entry comes back.
func (m *LWWMap[K, V]) DropTombstones(seen func(K, Stamp) bool) (dropped int) {
	f := m.grown()
	for s := range uint32(f.slots) {
		e := f.entryAt(s)
		if !e.dead || !seen(e.key, e.stamp) {
			continue
		}
		if e.stamp.Compare(f.forgotten) > 0 {
			f.forgotten = e.stamp
		}
		f.account(e, -1)
		f.table.Drop(f.table.hash(e.key), s)
		*f.editEntry(s) = lwwEntry[K, V]{}
		f.free = append(f.free, s)
		dropped++
	}
	if f.slots > 2*pageLen && f.table.N*4 < f.slots {
		g := newLWWMap(f.types)
		g.forgotten = f.forgotten
		for e := range m.entries() {
			g.apply(e, nil)
		}
		m.full = g
	}
	return dropped
}

// entryAt returns slot s for reading.
func (f *lwwMap[K, V]) entryAt(s uint32) *lwwEntry[K, V] {
	return &f.pages.List[s>>pageBits][s&(pageLen-1)]
}

// editEntry returns slot s for writing.
func (f *lwwMap[K, V]) editEntry(s uint32) *lwwEntry[K, V] {
	return &f.pages.DetachLeaf(int(s >> pageBits))[s&(pageLen-1)]
}

func (f *lwwMap[K, V]) findSlot(hash uint32, k K) (uint32, bool) {
	t := &f.table
	if t.Size == 0 {
		return 0, false
	}
	mask := uint64(t.Size - 1)
	for i := uint64(hash) & mask; ; i = (i + 1) & mask {
		x := t.EntryAt(i)
		if x == 0 {
			return 0, false
		}
		if uint32(x>>32) == hash && f.entryAt(uint32(x)-1).key == k {
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
	at, ok := f.findSlot(h, e.key)
	alive := false
	if ok {
		old := f.entryAt(at)
		alive = !old.dead
		if c := e.stamp.Compare(old.stamp); c < 0 || c == 0 && !f.types.winsTie(e, old) {
			return false
		}
	}
	f.storeEntry(h, at, ok, f.types.ownEntry(*e))
	e.noteChange(alive, ch)
	return true
}

// winsTie decides between two entries with one stamp, which no correct writer
// makes: the tombstone wins, then the greater encoding.
func (t *lwwTypes[K, V]) winsTie(e, old *lwwEntry[K, V]) bool {
	if e.dead || old.dead {
		return e.dead && !old.dead
	}
	if h, _ := t.val.hashAndSize(e.val); h == first(t.val.hashAndSize(old.val)) {
		return false // the same entry again
	}
	c := t.val.codec
	return bytes.Compare(c.Append(nil, e.val), c.Append(nil, old.val)) > 0
}

func first(hash uint64, _ int) uint64 { return hash }

// storeEntry stores e, in slot at if the key has one.
func (f *lwwMap[K, V]) storeEntry(h, at uint32, ok bool, e lwwEntry[K, V]) {
	key, size := f.types.key.hashAndSize(e.key)
	switch {
	case ok:
		f.accountFor(f.entryAt(at), key, size, -1)
	case len(f.free) > 0:
		at = f.free[len(f.free)-1]
		f.free = f.free[:len(f.free)-1]
		f.table.Put(h, at)
	default:
		at = uint32(f.slots)
		f.pages.AppendElement(lwwEntry[K, V]{}, pageLen)
		f.slots++
		f.table.Put(h, at)
	}
	x := f.editEntry(at)
	*x = e
	f.accountFor(x, key, size, 1)
}

// account adds an entry to the sums, or takes it away.
func (f *lwwMap[K, V]) account(e *lwwEntry[K, V], sign int) {
	hash, size := f.types.key.hashAndSize(e.key)
	f.accountFor(e, hash, size, sign)
}

// accountFor is account for a key that was measured before.
func (f *lwwMap[K, V]) accountFor(e *lwwEntry[K, V], hash uint64, size, sign int) {
	hash, size = f.types.weigh(e, hash, size)
	if e.dead {
		f.dead += sign
		f.tombs += hash * uint64(sign)
	}
	f.sum += hash * uint64(sign)
	f.bytes += sign * size
}

// weigh returns hash and size of an entry, given those of its key.
func (t *lwwTypes[K, V]) weigh(e *lwwEntry[K, V], hash uint64, size int) (uint64, int) {
	if e.dead {
		return mix(hash, stampHash(e.stamp)), size
	}
	h, n := t.val.hashAndSize(e.val)
	return mix(mix(hash, h), stampHash(e.stamp)), size + n
}

// weighSmall returns hash and size of the one entry of a small map, 0 if there is none.
func (m *LWWMap[K, V]) weighSmall() (hash uint64, size int) {
	if m.one.stamp == (Stamp{}) {
		return 0, 0
	}
	t := m.elementTypes()
	hash, size = t.key.hashAndSize(m.one.key)
	return t.weigh(&m.one, hash, size)
}

// Kind implements Value.
func (m *LWWMap[K, V]) Kind() Kind {
	if m == nil {
		return KindLWWMap
	}
	return KindLWWMap.with(m.elementTypes().kinds())
}

func (t *lwwTypes[K, V]) kinds() uint8 { return packKinds(t.key.of, t.val.of) }

// Join implements Value.
func (m *LWWMap[K, V]) Join(other Value) (bool, error) {
	o, ok := other.(*LWWMap[K, V])
	if !ok || o != nil && o.elementTypes().kinds() != m.elementTypes().kinds() {
		return false, mismatch(m, other)
	}
	return m.Merge(o, nil), nil
}

// Clone implements Value.
func (m *LWWMap[K, V]) Clone() Value {
	c := &LWWMap[K, V]{types: m.elementTypes(), one: m.one}
	if m.full == nil {
		return c
	}
	f := *m.full
	f.slab = nil
	f.table = m.full.table.shareAll()
	f.free = slices.Clone(m.full.free)
	f.pages = m.full.pages.ShareAll()
	c.full = &f
	return c
}

// Digest implements Value.
func (m *LWWMap[K, V]) Digest() uint64 {
	if m.full == nil {
		return first(m.weighSmall())
	}
	return m.full.sum
}

// Size implements Value.
func (m *LWWMap[K, V]) Size() int {
	if m.full == nil {
		_, size := m.weighSmall()
		return 32 + size + 4*(m.Len()+m.Tombstones())
	}
	return 32 + m.full.bytes + 4*m.full.table.N
}
