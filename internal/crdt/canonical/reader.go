package canonical

import (
	"errors"
	"math"
)

var (
	// ErrTruncated means that an encoding ends inside a field.
	ErrTruncated = errors.New("crdt: truncated encoding")
	// ErrMalformed means that an encoding is not in the canonical form.
	ErrMalformed = errors.New("crdt: malformed encoding")
)

// Reader reads one encoding. The first error sticks and later reads return zero
// values, so a decoder reads on and asks where it matters.
type Reader struct {
	B   []byte
	Err error
}

// Fail keeps the first error and ends the reading.
func (r *Reader) Fail(err error) {
	if r.Err == nil {
		r.Err = err
	}
	r.B = nil
}

func (r *Reader) take(n int) []byte {
	if r.Err != nil || n > len(r.B) {
		r.Fail(ErrTruncated)
		return nil
	}
	p := r.B[:n:n]
	r.B = r.B[n:]
	return p
}

// Byte reads a byte.
func (r *Reader) Byte() byte {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return 0
}

// big reads n bytes, big endian.
func (r *Reader) big(n int) uint64 {
	var v uint64
	for _, c := range r.take(n) {
		v = v<<8 | uint64(c)
	}
	return v
}

// Uint reads an integer that is not negative.
func (r *Reader) Uint() uint64 {
	switch c := r.Byte(); {
	case c < 0x80:
		return uint64(c)
	case c >= Uint8 && c <= Uint64:
		return r.big(1 << (c - Uint8))
	}
	r.Fail(ErrMalformed)
	return 0
}

// Int reads an integer that fits into an int64.
func (r *Reader) Int() int64 {
	switch c := r.Byte(); {
	case c < 0x80 || c >= 0xe0:
		return int64(int8(c))
	case c >= Uint8 && c <= Uint64:
		if v := r.big(1 << (c - Uint8)); v <= math.MaxInt64 {
			return int64(v)
		}
	case c >= Int8 && c <= Int64:
		n := 1 << (c - Int8)
		shift := 64 - 8*n
		return int64(r.big(n)<<shift) >> shift
	}
	r.Fail(ErrMalformed)
	return 0
}

// ArrayHeader reads the header of an array and returns the number that it declares.
func (r *Reader) ArrayHeader() uint64 {
	switch c := r.Byte(); {
	case c&0xf0 == 0x90:
		return uint64(c & 0x0f)
	case c == Array16:
		return r.big(2)
	case c == Array32:
		return r.big(4)
	}
	r.Fail(ErrMalformed)
	return 0
}

// Str reads a string. The result aliases the encoding.
func (r *Reader) Str() []byte {
	switch c := r.Byte(); {
	case c&0xe0 == 0xa0:
		return r.take(int(c & 0x1f))
	case c >= Str8 && c <= Str32:
		return r.sized(1 << (c - Str8))
	}
	r.Fail(ErrMalformed)
	return nil
}

// Bin reads a byte string. The result aliases the encoding.
func (r *Reader) Bin() []byte {
	if c := r.Byte(); c >= Bin8 && c <= Bin32 {
		return r.sized(1 << (c - Bin8))
	}
	r.Fail(ErrMalformed)
	return nil
}

// sized reads a length of n bytes and what it counts.
func (r *Reader) sized(n int) []byte {
	size := r.big(n)
	if size > uint64(len(r.B)) {
		r.Fail(ErrTruncated)
		return nil
	}
	return r.take(int(size))
}

// Done returns the first error, or ErrMalformed if bytes are left.
func (r *Reader) Done() error {
	if r.Err == nil && len(r.B) > 0 {
		r.Err = ErrMalformed
	}
	return r.Err
}

// SkipOne skips one value, or the header of an array or map, and then returns
// how many values are inside.
func (r *Reader) SkipOne() uint64 {
	c := r.Byte()
	switch {
	case c < 0x80 || c >= 0xe0 || c == Nil || c == False || c == True:
	case c < 0x90:
		return 2 * uint64(c&0x0f)
	case c < 0xa0:
		return uint64(c & 0x0f)
	case c < 0xc0:
		r.take(int(c & 0x1f))
	case c >= Bin8 && c <= Bin32:
		r.sized(1 << (c - Bin8))
	case c >= 0xc7 && c <= 0xc9: // ext 8, 16, 32
		size := r.big(1 << (c - 0xc7))
		if size >= uint64(len(r.B)) {
			r.Fail(ErrTruncated)
			return 0
		}
		r.take(int(size) + 1)
	case c == 0xca: // float 32
		r.take(4)
	case c == 0xcb: // float 64
		r.take(8)
	case c >= Uint8 && c <= Uint64:
		r.take(1 << (c - Uint8))
	case c >= Int8 && c <= Int64:
		r.take(1 << (c - Int8))
	case c >= 0xd4 && c <= FixExt16:
		r.take(1 + 1<<(c-0xd4))
	case c >= Str8 && c <= Str32:
		r.sized(1 << (c - Str8))
	case c == Array16, c == Array32:
		return r.big(2 << (c - Array16))
	case c == 0xde, c == 0xdf: // map 16, 32
		return 2 * r.big(2<<(c-0xde))
	default:
		r.Fail(ErrMalformed)
	}
	return 0
}
