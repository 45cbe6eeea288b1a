package crdt

import (
	"encoding/binary"
	"math"
)

// These are the few msgpack forms that the package writes and reads. Writing is
// append-only and always takes the shortest form, so equal content gives equal
// bytes. Reading checks every declared length against the bytes that remain
// before anything is allocated for it.

const (
	mpNil      = 0xc0
	mpFalse    = 0xc2
	mpTrue     = 0xc3
	mpBin8     = 0xc4
	mpBin16    = 0xc5
	mpBin32    = 0xc6
	mpUint8    = 0xcc
	mpUint16   = 0xcd
	mpUint32   = 0xce
	mpUint64   = 0xcf
	mpInt8     = 0xd0
	mpInt16    = 0xd1
	mpInt32    = 0xd2
	mpInt64    = 0xd3
	mpFixExt16 = 0xd8
	mpStr8     = 0xd9
	mpStr16    = 0xda
	mpStr32    = 0xdb
	mpArray16  = 0xdc
	mpArray32  = 0xdd
)

func appendUint(b []byte, v uint64) []byte {
	switch {
	case v < 0x80:
		return append(b, byte(v))
	case v <= math.MaxUint8:
		return append(b, mpUint8, byte(v))
	case v <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, mpUint16), uint16(v))
	case v <= math.MaxUint32:
		return binary.BigEndian.AppendUint32(append(b, mpUint32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, mpUint64), v)
}

func appendInt(b []byte, v int64) []byte {
	switch {
	case v >= 0:
		return appendUint(b, uint64(v))
	case v >= -32:
		return append(b, byte(v))
	case v >= math.MinInt8:
		return append(b, mpInt8, byte(v))
	case v >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, mpInt16), uint16(v))
	case v >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, mpInt32), uint32(v))
	}
	return binary.BigEndian.AppendUint64(append(b, mpInt64), uint64(v))
}

func appendArrayLen(b []byte, n int) []byte {
	switch {
	case n < 16:
		return append(b, 0x90|byte(n))
	case n <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(b, mpArray16), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, mpArray32), uint32(n))
}

func appendStr(b []byte, s string) []byte {
	n := len(s)
	switch {
	case n < 32:
		b = append(b, 0xa0|byte(n))
	case n <= math.MaxUint8:
		b = append(b, mpStr8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, mpStr16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, mpStr32), uint32(n))
	}
	return append(b, s...)
}

func appendBin(b, p []byte) []byte {
	n := len(p)
	switch {
	case n <= math.MaxUint8:
		b = append(b, mpBin8, byte(n))
	case n <= math.MaxUint16:
		b = binary.BigEndian.AppendUint16(append(b, mpBin16), uint16(n))
	default:
		b = binary.BigEndian.AppendUint32(append(b, mpBin32), uint32(n))
	}
	return append(b, p...)
}

// strSize returns the bytes that appendStr writes for a string of n bytes.
func strSize(n int) int {
	switch {
	case n < 32:
		return n + 1
	case n <= math.MaxUint8:
		return n + 2
	case n <= math.MaxUint16:
		return n + 3
	}
	return n + 5
}

// uintSize returns the bytes that appendUint writes for v.
func uintSize(v uint64) int {
	switch {
	case v < 0x80:
		return 1
	case v <= math.MaxUint8:
		return 2
	case v <= math.MaxUint16:
		return 3
	case v <= math.MaxUint32:
		return 5
	}
	return 9
}

// reader reads one encoding. The first error sticks and later reads return zero
// values, so a decoder reads on and asks where it matters.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n > len(r.b) {
		r.fail(ErrTruncated)
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

// big reads n bytes, big endian.
func (r *reader) big(n int) uint64 {
	var v uint64
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// uint reads an integer that is not negative.
func (r *reader) uint() uint64 {
	switch c := r.byte(); {
	case c < 0x80:
		return uint64(c)
	case c >= mpUint8 && c <= mpUint64:
		return r.big(1 << (c - mpUint8))
	}
	r.fail(ErrMalformed)
	return 0
}

// int reads an integer that fits into an int64.
func (r *reader) int() int64 {
	switch c := r.byte(); {
	case c < 0x80 || c >= 0xe0:
		return int64(int8(c))
	case c >= mpUint8 && c <= mpUint64:
		if v := r.big(1 << (c - mpUint8)); v <= math.MaxInt64 {
			return int64(v)
		}
	case c >= mpInt8 && c <= mpInt64:
		n := 1 << (c - mpInt8)
		shift := 64 - 8*n
		return int64(r.big(n)<<shift) >> shift
	}
	r.fail(ErrMalformed)
	return 0
}

// arrayLen reads the header of an array of which each element takes at least
// elemBytes bytes: a length that cannot fit into what remains is refused.
func (r *reader) arrayLen(field string, elemBytes int) int {
	var n uint64
	switch c := r.byte(); {
	case c&0xf0 == 0x90:
		n = uint64(c & 0x0f)
	case c == mpArray16:
		n = r.big(2)
	case c == mpArray32:
		n = r.big(4)
	default:
		r.fail(ErrMalformed)
	}
	if most := uint64(len(r.b) / elemBytes); r.err == nil && n > most {
		r.fail(&LimitError{Field: field, Declared: n, Max: most})
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// tuple reads the header of an array of exactly n elements.
func (r *reader) tuple(n int) {
	if got := r.arrayLen("tuple", 1); r.err == nil && got != n {
		r.fail(ErrMalformed)
	}
}

// str reads a string. The result aliases the encoding.
func (r *reader) str() []byte {
	switch c := r.byte(); {
	case c&0xe0 == 0xa0:
		return r.take(int(c & 0x1f))
	case c >= mpStr8 && c <= mpStr32:
		return r.sized(1 << (c - mpStr8))
	}
	r.fail(ErrMalformed)
	return nil
}

// bin reads a byte string. The result aliases the encoding.
func (r *reader) bin() []byte {
	if c := r.byte(); c >= mpBin8 && c <= mpBin32 {
		return r.sized(1 << (c - mpBin8))
	}
	r.fail(ErrMalformed)
	return nil
}

// sized reads a length of n bytes and what it counts.
func (r *reader) sized(n int) []byte {
	size := r.big(n)
	if size > uint64(len(r.b)) {
		r.fail(ErrTruncated)
		return nil
	}
	return r.take(int(size))
}

// done returns the first error, or ErrMalformed if bytes are left.
func (r *reader) done() error {
	if r.err == nil && len(r.b) > 0 {
		r.err = ErrMalformed
	}
	return r.err
}

// blob reads base-128 numbers from a byte string.
type blob struct {
	b  []byte
	ok bool
}

func (p *blob) next() uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 {
		p.ok, p.b = false, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

// count reads the number of items that follow, each at least itemBytes long.
func (p *blob) count(itemBytes int) int {
	n := p.next()
	if n > uint64(len(p.b)/itemBytes) {
		p.ok, p.b = false, nil
		return 0
	}
	return int(n)
}

// done reports whether all was read and nothing was wrong.
func (p *blob) done() bool { return p.ok && len(p.b) == 0 }
