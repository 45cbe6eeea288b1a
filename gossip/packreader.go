package gossip

import "encoding/binary"

// packReader reads the few forms of msgpack that memberlist's messages consist of:
// numbers, strings and bytes, booleans, and maps and arrays of known depth. Anything
// else makes it bad. It neither allocates nor recurses, so its cost is linear in the
// bytes. The zero value reads nothing.
type packReader struct {
	b []byte
	// bad is set by the first value that cannot be read; then every read returns zero.
	bad bool
}

func (r *packReader) fail() uint64 {
	r.bad, r.b = true, nil
	return 0
}

// number reads n bytes, big endian.
func (r *packReader) number(n int) uint64 {
	if len(r.b) < n {
		return r.fail()
	}
	var full [8]byte
	copy(full[8-n:], r.b[:n])
	r.b = r.b[n:]
	return binary.BigEndian.Uint64(full[:])
}

func (r *packReader) tag() byte { return byte(r.number(1)) }

// mapLen reads the head of a map of at most 15 entries: no message has more.
func (r *packReader) mapLen() int {
	if t := r.tag(); t&0xf0 == 0x80 {
		return int(t & 0x0f)
	}
	return int(r.fail())
}

// bytes reads a string or bytes; nil reads as none. The result is part of the input.
func (r *packReader) bytes() []byte {
	var n uint64
	switch t := r.tag(); {
	case t&0xe0 == 0xa0:
		n = uint64(t & 0x1f)
	case t == 0xd9, t == 0xc4:
		n = r.number(1)
	case t == 0xda, t == 0xc5:
		n = r.number(2)
	case t == 0xc0 && !r.bad:
		return nil
	default:
		r.fail()
		return nil
	}
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// uint reads a number that is not negative.
func (r *packReader) uint() uint64 {
	switch t := r.tag(); {
	case t < 0x80:
		return uint64(t)
	case t == 0xcc:
		return r.number(1)
	case t == 0xcd:
		return r.number(2)
	case t == 0xce:
		return r.number(4)
	case t == 0xcf:
		return r.number(8)
	case t == 0xd0, t == 0xd1, t == 0xd2, t == 0xd3: // signed, as some encoders write
		n := r.number(1 << (t - 0xd0))
		if t == 0xd3 && n>>63 != 0 || t != 0xd3 && n>>(8<<(t-0xd0)-1) != 0 {
			return r.fail()
		}
		return n
	}
	return r.fail()
}

func (r *packReader) bool() {
	if t := r.tag(); t != 0xc2 && t != 0xc3 {
		r.fail()
	}
}

// numbers reads bytes, or an array of at most 15 numbers.
func (r *packReader) numbers() {
	if len(r.b) > 0 && r.b[0]&0xf0 == 0x90 {
		for range r.tag() & 0x0f {
			r.uint()
		}
		return
	}
	r.bytes()
}
