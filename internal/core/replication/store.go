package replication

import (
	"math/bits"
	"slices"
	"sort"
	"strings"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/zeebo/xxh3"
)

// bucketCount is the fan-out of the digest tree's only inner level. With n keys
// a difference costs 8 bytes per bucket, once, and about n/256 key digests.
const bucketCount = 256

// item is the stored state of one key.
type item struct {
	key string
	// gen is the generation, which grows with each deletion of the key. A higher generation
	// replaces a lower one whole, unless it is open (isOpen); within one, values join.
	gen uint64
	// era is that of the value's stamps, 0 without a value (clocks.go).
	era uint8
	// value is nil for a key that has been deleted.
	value crdt.Value
	hash  uint64 // of the key
	// print is the item's part of its bucket's sum, which replicas compare.
	print uint64
	bytes int
	// marked is the step in which the item was last reported as changed.
	marked uint64
	// changedAt is when it was last reported as changed.
	changedAt clock.Instant
	// version grows with every change of the item, written with those made here; pins
	// counts the snapshots that hold the value (update.go).
	version, written uint64
	pins             *pins
	// tomb: counted among the deleted keys. listed: the index counts it among the live ones.
	tomb, listed bool
	// kept is set on a durable key, deletions counts the deletions under it: its own, or
	// those of entries of its map.
	kept      bool
	deletions int
}

// kind returns the value's data type, 0 for a deleted key.
func (it *item) kind() crdt.Kind {
	if it.value == nil {
		return 0
	}
	return it.value.Kind()
}

type bucket struct {
	items map[string]*item
	sum   uint64
	// suspect is set if it may hold state that can be forgotten (prune.go).
	suspect bool
}

// store holds the keys and the sums of their fingerprints. The zero store is
// empty.
//
// Invariant: sum of a bucket is the sum of its items' prints, root that of all
// buckets' sums; bytes is the sum of the items' bytes, and keys counts the items.
type store struct {
	buckets [bucketCount]bucket
	root    uint64
	bytes   int
	keys    int
	// kept tells durable keys. deletions counts the deletions under them.
	kept      func(key string) bool
	deletions int
	// suspects counts the buckets that are suspect, tombs the deleted keys.
	suspects int
	tombs    int
	index    keyIndex
	// changes numbers the changes of all items.
	changes uint64
}

func bucketOf(hash uint64) int { return int(hash >> 56) }

// keyCostBytes is about the memory of a key without its name and value.
const keyCostBytes = 128

func (s *store) itemOf(key string) *item { return s.buckets[bucketOf(xxh3.HashString(key))].items[key] }

// value returns the live value of key, or nil.
func (s *store) value(key string) crdt.Value {
	if it := s.itemOf(key); it != nil {
		return it.value
	}
	return nil
}

// print returns the fingerprint of key, 0 if it does not exist.
func (s *store) print(key string) uint64 {
	if it := s.itemOf(key); it != nil {
		return it.print
	}
	return 0
}

// obtain returns the item of key, a new one if there is none.
func (s *store) obtain(key string) *item {
	h := xxh3.HashString(key)
	b := &s.buckets[bucketOf(h)]
	if it := b.items[key]; it != nil {
		return it
	}
	if b.items == nil {
		b.items = map[string]*item{}
	}
	it := &item{key: strings.Clone(key), hash: h, kept: s.kept != nil && s.kept(key)}
	b.items[it.key] = it
	s.keys++
	s.bytes += len(key) + keyCostBytes
	return it
}

// suspect marks a bucket for the next round of pruning.
func (s *store) suspect(b *bucket) {
	if !b.suspect {
		b.suspect = true
		s.suspects++
	}
}

// suspectAll marks all buckets that are not empty.
func (s *store) suspectAll() {
	for i := range s.buckets {
		if b := &s.buckets[i]; len(b.items) > 0 {
			s.suspect(b)
		}
	}
}

// removeItem removes an item, as if its key had never existed.
func (s *store) removeItem(it *item) {
	b := &s.buckets[bucketOf(it.hash)]
	b.sum -= it.print
	s.root -= it.print
	s.keys--
	s.bytes -= len(it.key) + keyCostBytes + it.bytes
	if it.tomb {
		s.tombs--
	}
	s.deletions -= it.deletions
	delete(b.items, it.key)
	s.updateIndex(it, false)
}

// updateSums updates the sums after a change of it.
func (s *store) updateSums(it *item) {
	if tomb := it.value == nil; tomb != it.tomb {
		it.tomb = tomb
		if s.tombs++; !tomb {
			s.tombs -= 2
		}
	}
	s.updateIndex(it, it.value != nil)
	if it.kept {
		s.deletions -= it.deletions
		it.deletions = it.countDeletions()
		s.deletions += it.deletions
	}
	s.changes++
	it.version = s.changes
	var size int
	print := fingerprint(it.hash, it.gen, 0, 0)
	if it.value != nil {
		size = it.value.Size()
		print = fingerprint(it.hash, it.gen+uint64(it.era)<<56, it.value.Kind(), it.value.Digest())
	}
	b := &s.buckets[bucketOf(it.hash)]
	s.suspect(b)
	b.sum += print - it.print
	s.root += print - it.print
	s.bytes += size - it.bytes
	it.print, it.bytes = print, size
}

// countDeletions counts the deletion of a key, or those of entries of its map.
func (it *item) countDeletions() int {
	if it.value == nil {
		return 1
	}
	if m, ok := it.value.(*entryMap); ok {
		return m.Tombstones()
	}
	return 0
}

// eachDeletion calls f with each deletion under durable keys, in no particular order, and
// with its fingerprint. Entry is "" for the deletion of a key.
func (s *store) eachDeletion(f func(it *item, entry string, print uint64)) {
	for i := range s.buckets {
		for _, it := range s.buckets[i].items { // order-free: callers sort
			switch {
			case it.deletions == 0:
			case it.value == nil:
				f(it, "", it.print)
			default:
				for entry, at := range it.value.(*entryMap).Deleted() {
					f(it, entry, entryPrint(it, entry, at))
				}
			}
		}
	}
}

// fingerprint mixes all properties that distinguish one state of a key from another. It
// is never 0, which stands for a key that does not exist.
func fingerprint(key, gen uint64, kind crdt.Kind, digest uint64) uint64 {
	hi, lo := bits.Mul64(key^0x9e3779b97f4a7c15, digest^bits.RotateLeft64(gen+1, 17)^uint64(kind)<<48^0xd6e8feb86659fd93)
	h := hi ^ lo ^ bits.RotateLeft64(digest, 29) + gen*0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return max(h^h>>29, 1)
}

// A deletion opens an even generation. An odd one is open: keys are created in it because the
// cluster has forgotten deletions up to the generation before (retention), and no deletion of
// the key itself is known. The key may have a value in a lower generation that its creator has
// not met, so values of lower generations join those of an open one.

// isOpen reports whether values of lower generations join those of gen.
func isOpen(gen uint64) bool { return gen%2 == 1 }

// deletedFrom returns the generation that a deletion opens in one.
func deletedFrom(gen uint64) uint64 { return (gen | 1) + 1 }

// createdAbove returns the generation in which a key is created, if the deletions of all keys
// were forgotten up to a generation.
func createdAbove(forgotten uint64) uint64 {
	if forgotten == 0 {
		return 0
	}
	return forgotten | 1
}

// joinsAcross reports whether two values of different generations join.
func joinsAcross(a, b uint64) bool { return a != b && isOpen(max(a, b)) }

// absorb merges another replica's state of a key and reports whether that changed it
// here. States replace each other in the same order at every replica, so all reach the
// same outcome: generation first, then data type (if two nodes create one key with two
// types, or element types, the lower number stands), then the era, to which a state of a
// lower one is lifted (clocks.go), then the join.
func (s *store) absorb(it *item, gen uint64, era uint8, v crdt.Value) (changed bool) {
	raised := false
	if it.value != nil && v != nil && joinsAcross(it.gen, gen) {
		raised = gen > it.gen
		it.gen = max(it.gen, gen)
		gen = it.gen
	}
	if absorbSame(it, gen, era, v) || raised {
		s.updateSums(it)
		return true
	}
	return false
}

// absorbSame does the work of absorb for states whose generations replace each other or are the
// same. The caller updates the sums.
func absorbSame(it *item, gen uint64, era uint8, v crdt.Value) (changed bool) {
	switch {
	case gen < it.gen:
		return false
	case gen > it.gen:
		it.gen, it.era = gen, era
		it.replaceValue(v)
		changed = true
	case v == nil:
		changed = it.print == 0
	case it.value == nil:
		it.era = era
		it.replaceValue(v)
		changed = true
	case it.value.Kind() != v.Kind():
		if changed = v.Kind() < it.value.Kind(); changed {
			it.era = era
			it.replaceValue(v)
		}
	default:
		raised := it.raiseEra(era)
		it.copyIfPinned()
		// The kinds are equal, so the join cannot fail.
		changed, _ = it.value.Join(lifted(v, era, it.era))
		changed = changed || raised
	}
	return changed
}

// sums returns the sums of all buckets.
func (s *store) sums() []uint64 {
	out := make([]uint64, bucketCount)
	for i := range s.buckets {
		out[i] = s.buckets[i].sum
	}
	return out
}

// sortedItems returns the items of a bucket in the order of their keys.
func (b *bucket) sortedItems() []*item {
	out := make([]*item, 0, len(b.items))
	for _, it := range b.items {
		out = append(out, it)
	}
	slices.SortFunc(out, func(a, b *item) int { return strings.Compare(a.key, b.key) })
	return out
}

// keyIndex has the names of the live keys in order. It costs nothing until names are
// requested. From then on it notes the keys that were added and removed, and merges them
// at the next request. The zero keyIndex is ready to use.
//
// Invariant: if built, names less those in moved are the live keys that are not in moved.
type keyIndex struct {
	built bool
	names []string
	moved map[string]struct{}
}

// note notes a key that was added or removed.
func (x *keyIndex) note(key string) {
	if !x.built {
		return
	}
	if x.moved == nil {
		x.moved = map[string]struct{}{}
	}
	if x.moved[key] = struct{}{}; len(x.moved) > len(x.names)/2+1024 {
		*x = keyIndex{} // names are no longer requested, or building it anew is cheaper
	}
}

// takeIn merges moved into names; live reports whether a key exists.
func (x *keyIndex) takeIn(live func(string) bool) {
	if len(x.moved) == 0 {
		return
	}
	moved := make([]string, 0, len(x.moved))
	for k := range x.moved { // order-free: sorted below
		moved = append(moved, k)
	}
	slices.Sort(moved)
	if x.moved = nil; len(moved) <= insertMax {
		for _, k := range moved {
			at, found := slices.BinarySearch(x.names, k)
			switch there := live(k); {
			case there && !found:
				x.names = slices.Insert(x.names, at, k)
			case found && !there:
				x.names = slices.Delete(x.names, at, at+1)
			}
		}
		return
	}
	out, rest := make([]string, 0, len(x.names)+len(moved)), x.names
	for _, k := range moved {
		at, found := slices.BinarySearch(rest, k)
		out, rest = append(out, rest[:at]...), rest[at:]
		if found {
			rest = rest[1:]
		}
		if live(k) {
			out = append(out, k)
		}
	}
	x.names = append(out, rest...)
}

// insertMax is up to how many names are moved one by one, which copies only the names
// behind them.
const insertMax = 16

// under returns the names that begin with prefix, sorted.
func (x *keyIndex) under(prefix string) []string {
	from := sort.SearchStrings(x.names, prefix)
	n := sort.Search(len(x.names)-from, func(i int) bool { return !strings.HasPrefix(x.names[from+i], prefix) })
	if n == 0 {
		return nil
	}
	return slices.Clone(x.names[from : from+n])
}

// updateIndex updates the index after a change of it, or before its removal.
func (s *store) updateIndex(it *item, live bool) {
	if live != it.listed {
		it.listed = live
		s.index.note(it.key)
	}
}

// liveNames returns the names of the live keys that begin with prefix, sorted.
func (s *store) liveNames(prefix string) []string {
	if !s.index.built {
		s.index = keyIndex{built: true}
		for i := range s.buckets {
			for key, it := range s.buckets[i].items { // order-free: sorted below
				if it.value != nil {
					s.index.names = append(s.index.names, key)
				}
			}
		}
		slices.Sort(s.index.names)
	}
	s.index.takeIn(func(key string) bool { return s.value(key) != nil })
	return s.index.under(prefix)
}

// assertAbove asserts that a key never returns to an earlier generation or era: replicas
// that go back would not converge.
func (it *item) assertAbove(gen uint64, era uint8) {
	if it.gen < gen || it.gen == gen && it.era < era {
		assert.Broken("G8", "key %q goes back from generation %d, era %d to %d, %d", it.key, gen, era, it.gen, it.era)
	}
}
