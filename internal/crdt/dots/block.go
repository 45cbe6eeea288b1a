package dots

import (
	"math/bits"
	"slices"
	"sort"
)

const (
	// sparseMax is how many dots a block lists before it takes a bitmap, and
	// denseMin how few it keeps one for. The gap between them keeps a block from
	// changing its form at every operation.
	sparseMax = 48
	denseMin  = 24
)

// Block holds which of 1024 consecutive sequence numbers of one writer are live, and the
// slots of their payloads. Few live dots are a sorted list, many a bitmap with an array: a
// block with one remaining dot must not keep 4 KiB.
//
// Invariant: N dots are live, N > 0; exactly one of dense and sparse is in use, and is not
// written while it is shared.
type Block struct {
	Key    uint64 // sequence number >> 10
	dense  *dense
	sparse []entry
	N      int32
	Shared bool // with a copy of the value
}

type dense struct {
	live Bitmap
	slot [BlockLen]uint32
}

type entry struct {
	low  uint32 // sequence number & 1023
	slot uint32
}

func (b *Block) at(low uint64) int {
	return sort.Search(len(b.sparse), func(i int) bool { return uint64(b.sparse[i].low) >= low })
}

// Get returns the slot of a dot; ok is false if the dot is not live.
func (b *Block) Get(low uint64) (slot uint32, ok bool) {
	if b.dense != nil {
		return b.dense.slot[low], b.dense.live.Has(low)
	}
	if i := b.at(low); i < len(b.sparse) && uint64(b.sparse[i].low) == low {
		return b.sparse[i].slot, true
	}
	return 0, false
}

// Put adds a dot that is not live yet.
func (b *Block) Put(low uint64, slot uint32) {
	b.detachContents()
	b.N++
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

// Drop takes out a dot that is live.
func (b *Block) Drop(low uint64) {
	b.detachContents()
	b.N--
	if b.dense == nil {
		i := b.at(low)
		b.sparse = slices.Delete(b.sparse, i, i+1)
		return
	}
	b.dense.live.clear(low)
	if b.N >= denseMin {
		return
	}
	b.sparse = make([]entry, 0, b.N)
	b.Each(func(low uint64, slot uint32) { b.sparse = append(b.sparse, entry{uint32(low), slot}) })
	b.dense = nil
}

// Live returns the live dots as a bitmap.
func (b *Block) Live() (m Bitmap) {
	if b.dense != nil {
		return b.dense.live
	}
	for _, e := range b.sparse {
		m.set(uint64(e.low))
	}
	return m
}

// Each calls f for every live dot, in order.
func (b *Block) Each(f func(low uint64, slot uint32)) {
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
func (b *Block) detachContents() {
	if !b.Shared {
		return
	}
	b.Shared = false
	b.sparse = slices.Clone(b.sparse)
	if b.dense != nil {
		d := *b.dense
		b.dense = &d
	}
}

// Sound reports whether the block keeps its invariant.
func (b *Block) Sound() bool { return b.N > 0 && (b.dense != nil) != (b.sparse != nil) }

// SameLive reports whether a and b have the same dots live.
func SameLive(a, b *Block) bool {
	if a.N != b.N {
		return false
	}
	if a.dense != nil && a.dense == b.dense {
		return true
	}
	if a.dense != nil && b.dense != nil {
		return a.dense.live == b.dense.live
	}
	return a.Live() == b.Live()
}
