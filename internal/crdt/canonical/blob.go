package canonical

import "encoding/binary"

// Blob reads base-128 numbers from a byte string.
type Blob struct {
	B []byte
	// OK is cleared by the first error.
	OK bool
}

// Next reads a number.
func (p *Blob) Next() uint64 {
	v, n := binary.Uvarint(p.B)
	if n <= 0 {
		p.OK, p.B = false, nil
		return 0
	}
	p.B = p.B[n:]
	return v
}

// Count reads the number of items that follow, each at least itemBytes long.
func (p *Blob) Count(itemBytes int) int {
	n := p.Next()
	if n > uint64(len(p.B)/itemBytes) {
		p.OK, p.B = false, nil
		return 0
	}
	return int(n)
}

// Done reports whether all was read and nothing was wrong.
func (p *Blob) Done() bool { return p.OK && len(p.B) == 0 }
