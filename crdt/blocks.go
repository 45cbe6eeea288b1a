package crdt

import (
	"math/bits"
	"slices"
	"sort"
)

const (
	blockBits = 10
	blockLen  = 1 << blockBits
	// sparseMax is how many dots a block lists before it takes a bitmap, and
	// denseMin how few it keeps one for. The gap between them keeps a block from
	// changing its form at every operation.
	sparseMax = 48
	denseMin  = 24
)

// bitmap has one bit for each of the 1024 sequence numbers of a block.
type bitmap [blockLen / 64]uint64

func (m *bitmap) set(i uint64)      { m[i>>6] |= 1 << (i & 63) }
func (m *bitmap) clear(i uint64)    { m[i>>6] &^= 1 << (i & 63) }
func (m *bitmap) has(i uint64) bool { return m[i>>6]>>(i&63)&1 != 0 }

// fill sets the bits from..to.
func (m *bitmap) fill(from, to uint64) {
	for w := from >> 6; w <= to>>6; w++ {
		x := ^uint64(0)
		if w == from>>6 {
			x &= ^uint64(0) << (from & 63)
		}
		if w == to>>6 {
			x &= ^uint64(0) >> (63 - to&63)
		}
		m[w] |= x
	}
}

// block holds which of 1024 consecutive sequence numbers of one writer are live, and the
// slots of their payloads. Few live dots are a sorted list, many a bitmap with an array: a
// block with one remaining dot must not keep 4 KiB.
//
// Invariant: n dots are live, n > 0; exactly one of dense and sparse is in use, and is not
// written while it is shared.
type block struct {
	key    uint64 // sequence number >> 10
	dense  *dense
	sparse []entry
	n      int32
	shared bool // with a copy of the value
}

type dense struct {
	live bitmap
	slot [blockLen]uint32
}

type entry struct {
	low  uint32 // sequence number & 1023
	slot uint32
}

func (b *block) at(low uint64) int {
	return sort.Search(len(b.sparse), func(i int) bool { return uint64(b.sparse[i].low) >= low })
}

func (b *block) get(low uint64) (slot uint32, ok bool) {
	if b.dense != nil {
		return b.dense.slot[low], b.dense.live.has(low)
	}
	if i := b.at(low); i < len(b.sparse) && uint64(b.sparse[i].low) == low {
		return b.sparse[i].slot, true
	}
	return 0, false
}

// put adds a dot that is not live yet.
func (b *block) put(low uint64, slot uint32) {
	b.detachContents()
	b.n++
	if b.dense == nil && len(b.sparse) < sparseMax {
		e := entry{uint32(low), slot}
		if n := len(b.sparse); n == 0 || uint64(b.sparse[n-1].low) < low {
			b.sparse = append(b.sparse, e)
			return
		}
		b.sparse = slices.Insert(b.sparse, b.at(low), e)
		return
	}
	if b.dense == nil {
		b.dense = &dense{}
		for _, e := range b.sparse {
			b.dense.live.set(uint64(e.low))
			b.dense.slot[e.low] = e.slot
		}
		b.sparse = nil
	}
	b.dense.live.set(low)
	b.dense.slot[low] = slot
}

// drop takes out a dot that is live.
func (b *block) drop(low uint64) {
	b.detachContents()
	b.n--
	if b.dense == nil {
		i := b.at(low)
		b.sparse = slices.Delete(b.sparse, i, i+1)
		return
	}
	b.dense.live.clear(low)
	if b.n >= denseMin {
		return
	}
	b.sparse = make([]entry, 0, b.n)
	b.each(func(low uint64, slot uint32) { b.sparse = append(b.sparse, entry{uint32(low), slot}) })
	b.dense = nil
}

// live returns the live dots as a bitmap.
func (b *block) live() (m bitmap) {
	if b.dense != nil {
		return b.dense.live
	}
	for _, e := range b.sparse {
		m.set(uint64(e.low))
	}
	return m
}

// each calls f for every live dot, in order.
func (b *block) each(f func(low uint64, slot uint32)) {
	for _, e := range b.sparse {
		f(uint64(e.low), e.slot)
	}
	if b.dense == nil {
		return
	}
	for w, x := range b.dense.live {
		for ; x != 0; x &= x - 1 {
			low := uint64(w<<6 + bits.TrailingZeros64(x))
			f(low, b.dense.slot[low])
		}
	}
}

// detachContents makes the contents the block's alone, so that they may be changed.
func (b *block) detachContents() {
	if !b.shared {
		return
	}
	b.shared = false
	b.sparse = slices.Clone(b.sparse)
	if b.dense != nil {
		d := *b.dense
		b.dense = &d
	}
}

// sameLive reports whether a and b have the same dots live.
func sameLive(a, b *block) bool {
	if a.n != b.n {
		return false
	}
	if a.dense != nil && a.dense == b.dense {
		return true
	}
	if a.dense != nil && b.dense != nil {
		return a.dense.live == b.dense.live
	}
	return a.live() == b.live()
}
