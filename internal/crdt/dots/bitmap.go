package dots

const (
	// BlockBits is the number of low bits of a sequence number within its block.
	BlockBits = 10
	// BlockLen is the number of sequence numbers of a block.
	BlockLen = 1 << BlockBits
)

// Bitmap has one bit for each of the 1024 sequence numbers of a block.
type Bitmap [BlockLen / 64]uint64

func (m *Bitmap) set(i uint64)   { m[i>>6] |= 1 << (i & 63) }
func (m *Bitmap) clear(i uint64) { m[i>>6] &^= 1 << (i & 63) }

// Has reports whether bit i is set.
func (m *Bitmap) Has(i uint64) bool { return m[i>>6]>>(i&63)&1 != 0 }

// Fill sets the bits from..to.
func (m *Bitmap) Fill(from, to uint64) {
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
