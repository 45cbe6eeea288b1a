package crdt

import "hash/maphash"

// table finds the slot of an element: open addressing, linear probing, and
// deletion that shifts back, so it never holds tombstones. An entry has 32 bits of
// the element's hash and the slot plus one; the elements themselves stay in the
// pages, which saves the 24 bytes per element that a Go map would copy.
//
// Invariant: len(entries) is 0 or a power of two, and at most 13/16 are in use.
type table[E comparable] struct {
	entries []uint64
	n       int
	seed    maphash.Seed
}

const tableMin = 8

func (t *table[E]) hash(e E) uint32 { return uint32(maphash.Comparable(t.seed, e) >> 32) }

// put enters an element that is not in the table.
func (t *table[E]) put(hash, slot uint32) {
	if 16*t.n >= 13*len(t.entries) {
		t.grow(max(tableMin, 2*len(t.entries)))
	}
	t.place(uint64(hash)<<32 | uint64(slot) + 1)
	t.n++
}

func (t *table[E]) place(x uint64) {
	mask := uint64(len(t.entries) - 1)
	i := x >> 32 & mask
	for t.entries[i] != 0 {
		i = (i + 1) & mask
	}
	t.entries[i] = x
}

func (t *table[E]) grow(size int) {
	old := t.entries
	t.entries = make([]uint64, size)
	for _, x := range old {
		if x != 0 {
			t.place(x)
		}
	}
}

// index returns where the entry of a slot stands, or -1.
func (t *table[E]) index(hash, slot uint32) int {
	if len(t.entries) == 0 {
		return -1
	}
	mask := uint64(len(t.entries) - 1)
	want := uint64(hash)<<32 | uint64(slot) + 1
	for i := uint64(hash) & mask; t.entries[i] != 0; i = (i + 1) & mask {
		if t.entries[i] == want {
			return int(i)
		}
	}
	return -1
}

// drop takes out the entry of a slot.
func (t *table[E]) drop(hash, slot uint32) {
	hole := t.index(hash, slot)
	if hole < 0 {
		return
	}
	mask := len(t.entries) - 1
	for i := (hole + 1) & mask; t.entries[i] != 0; i = (i + 1) & mask {
		home := int(t.entries[i]>>32) & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.entries[hole] = t.entries[i]
			hole = i
		}
	}
	t.entries[hole] = 0
	t.n--
}

// move gives an entry another slot.
func (t *table[E]) move(hash, from, to uint32) {
	if i := t.index(hash, from); i >= 0 {
		t.entries[i] = uint64(hash)<<32 | uint64(to) + 1
	}
}

func (t *table[E]) clone() table[E] {
	c := *t
	c.entries = append([]uint64(nil), t.entries...)
	return c
}
