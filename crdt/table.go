package crdt

import "hash/maphash"

// table finds the slot of an element: open addressing, linear probing, and
// deletion that shifts back, so it never holds tombstones. An entry has 32 bits of
// the element's hash and the slot plus one; the elements themselves stay in the
// pages, which saves the 24 bytes per element that a Go map would copy.
//
// Invariant: size is 0 or a power of two, and at most 13/16 of it are in use; the leaves
// of entries have one length.
type table[E comparable] struct {
	entries leaves[uint64]
	size    int
	n       int
	seed    maphash.Seed
}

const (
	tableMin = 8
	// tableLen is the length of the leaves of a large table.
	tableBits = 9
	tableLen  = 1 << tableBits
)

func (t *table[E]) hash(e E) uint32 { return uint32(maphash.Comparable(t.seed, e) >> 32) }

func (t *table[E]) entryAt(i uint64) uint64 { return t.entries.list[i>>tableBits][i&(tableLen-1)] }

func (t *table[E]) setEntry(i, x uint64) {
	t.entries.detachLeaf(int(i >> tableBits))[i&(tableLen-1)] = x
}

// put enters an element that is not in the table.
func (t *table[E]) put(hash, slot uint32) {
	if 16*t.n >= 13*t.size {
		t.grow(max(tableMin, 2*t.size))
	}
	t.place(uint64(hash)<<32 | uint64(slot) + 1)
	t.n++
}

func (t *table[E]) place(x uint64) {
	mask := uint64(t.size - 1)
	i := x >> 32 & mask
	for t.entryAt(i) != 0 {
		i = (i + 1) & mask
	}
	t.setEntry(i, x)
}

func (t *table[E]) grow(size int) {
	old := t.entries.list
	t.entries, t.size = leaves[uint64]{list: make([][]uint64, max(size/tableLen, 1))}, size
	for i := range t.entries.list {
		t.entries.list[i] = make([]uint64, min(size, tableLen))
	}
	for _, leaf := range old {
		for _, x := range leaf {
			if x != 0 {
				t.place(x)
			}
		}
	}
}

// index returns where the entry of a slot stands, or -1.
func (t *table[E]) index(hash, slot uint32) int {
	if t.size == 0 {
		return -1
	}
	mask := uint64(t.size - 1)
	want := uint64(hash)<<32 | uint64(slot) + 1
	for i := uint64(hash) & mask; t.entryAt(i) != 0; i = (i + 1) & mask {
		if t.entryAt(i) == want {
			return int(i)
		}
	}
	return -1
}

// drop takes out the entry of a slot.
func (t *table[E]) drop(hash, slot uint32) {
	at := t.index(hash, slot)
	if at < 0 {
		return
	}
	hole, mask := uint64(at), uint64(t.size-1)
	for i := (hole + 1) & mask; t.entryAt(i) != 0; i = (i + 1) & mask {
		home := t.entryAt(i) >> 32 & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.setEntry(hole, t.entryAt(i))
			hole = i
		}
	}
	t.setEntry(hole, 0)
	t.n--
}

// move gives an entry another slot.
func (t *table[E]) move(hash, from, to uint32) {
	if i := t.index(hash, from); i >= 0 {
		t.setEntry(uint64(i), uint64(hash)<<32|uint64(to)+1)
	}
}

// shareTable returns a copy, which has the leaves in common until one of the two changes them.
func (t *table[E]) shareTable() table[E] {
	c := *t
	c.entries = t.entries.shareAll()
	return c
}
