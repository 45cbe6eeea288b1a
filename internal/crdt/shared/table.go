package shared

// Table finds the slot of an element by its hash: open addressing, linear probing, and
// deletion that shifts back, so it never holds tombstones. An entry has 32 bits of
// the element's hash and the slot plus one; the elements themselves stay in the
// pages, which saves the 24 bytes per element that a Go map would copy.
//
// Invariant: size is 0 or a power of two, and at most 13/16 of it are in use; the leaves
// of entries have one length.
type Table struct {
	entries Leaves[uint64]
	Size    int
	N       int
}

const (
	tableMin = 8
	// tableLen is the length of the leaves of a large table.
	tableBits = 9
	tableLen  = 1 << tableBits
)

// EntryAt returns entry i, 0 if it is free.
func (t *Table) EntryAt(i uint64) uint64 { return t.entries.List[i>>tableBits][i&(tableLen-1)] }

func (t *Table) setEntry(i, x uint64) {
	t.entries.DetachLeaf(int(i >> tableBits))[i&(tableLen-1)] = x
}

// Put enters an element that is not in the table.
func (t *Table) Put(hash, slot uint32) {
	if 16*t.N >= 13*t.Size {
		t.grow(max(tableMin, 2*t.Size))
	}
	t.place(uint64(hash)<<32 | uint64(slot) + 1)
	t.N++
}

func (t *Table) place(x uint64) {
	mask := uint64(t.Size - 1)
	i := x >> 32 & mask
	for t.EntryAt(i) != 0 {
		i = (i + 1) & mask
	}
	t.setEntry(i, x)
}

func (t *Table) grow(size int) {
	old := t.entries.List
	t.entries, t.Size = Leaves[uint64]{List: make([][]uint64, max(size/tableLen, 1))}, size
	for i := range t.entries.List {
		t.entries.List[i] = make([]uint64, min(size, tableLen))
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
func (t *Table) index(hash, slot uint32) int {
	if t.Size == 0 {
		return -1
	}
	mask := uint64(t.Size - 1)
	want := uint64(hash)<<32 | uint64(slot) + 1
	for i := uint64(hash) & mask; t.EntryAt(i) != 0; i = (i + 1) & mask {
		if t.EntryAt(i) == want {
			return int(i)
		}
	}
	return -1
}

// Drop takes out the entry of a slot.
func (t *Table) Drop(hash, slot uint32) {
	at := t.index(hash, slot)
	if at < 0 {
		return
	}
	hole, mask := uint64(at), uint64(t.Size-1)
	for i := (hole + 1) & mask; t.EntryAt(i) != 0; i = (i + 1) & mask {
		home := t.EntryAt(i) >> 32 & mask
		if (i-home)&mask >= (i-hole)&mask {
			t.setEntry(hole, t.EntryAt(i))
			hole = i
		}
	}
	t.setEntry(hole, 0)
	t.N--
}

// Move gives an entry another slot.
func (t *Table) Move(hash, from, to uint32) {
	if i := t.index(hash, from); i >= 0 {
		t.setEntry(uint64(i), uint64(hash)<<32|uint64(to)+1)
	}
}

// ShareTable returns a copy, which has the leaves in common until one of the two changes them.
func (t *Table) ShareTable() Table {
	c := *t
	c.entries = t.entries.ShareAll()
	return c
}
