package discovery

import "encoding/binary"

// packReader reads the few forms of msgpack that memberlist's messages consist of:
// numbers, strings and bytes, booleans, and maps and arrays of fixed depth. Anything else
// makes it bad. It neither allocates nor recurses, so its cost is linear in the bytes.
// The zero value reads nothing.
type packReader struct {
	b []byte
	// bad is set by the first value that cannot be read; then every read returns zero.
	bad bool
}

func (r *packReader) markBad() uint64 {
	r.bad, r.b = true, nil
	return 0
}

// readNumber reads n bytes, big endian.
func (r *packReader) readNumber(n int) uint64 {
	if len(r.b) < n {
		return r.markBad()
	}
	var full [8]byte
	copy(full[8-n:], r.b[:n])
	r.b = r.b[n:]
	return binary.BigEndian.Uint64(full[:])
}

func (r *packReader) readTag() byte { return byte(r.readNumber(1)) }

// mapLen reads the head of a map of at most 15 entries: no message has more.
func (r *packReader) mapLen() int {
	if t := r.readTag(); t&0xf0 == 0x80 {
		return int(t & 0x0f)
	}
	return int(r.markBad())
}

// readBytes reads a string or bytes; nil reads as none. The result is part of the input.
func (r *packReader) readBytes() []byte {
	var n uint64
	switch t := r.readTag(); {
	case t&0xe0 == 0xa0:
		n = uint64(t & 0x1f)
	case t == 0xd9, t == 0xc4:
		n = r.readNumber(1)
	case t == 0xda, t == 0xc5:
		n = r.readNumber(2)
	case t == 0xc0 && !r.bad:
		return nil
	default:
		r.markBad()
		return nil
	}
	if n > uint64(len(r.b)) {
		r.markBad()
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// readUint reads a number that is not negative.
func (r *packReader) readUint() uint64 {
	switch t := r.readTag(); {
	case t < 0x80:
		return uint64(t)
	case t == 0xcc:
		return r.readNumber(1)
	case t == 0xcd:
		return r.readNumber(2)
	case t == 0xce:
		return r.readNumber(4)
	case t == 0xcf:
		return r.readNumber(8)
	case t == 0xd0, t == 0xd1, t == 0xd2, t == 0xd3: // signed, as some encoders write
		n := r.readNumber(1 << (t - 0xd0))
		if t == 0xd3 && n>>63 != 0 || t != 0xd3 && n>>(8<<(t-0xd0)-1) != 0 {
			return r.markBad()
		}
		return n
	}
	return r.markBad()
}

func (r *packReader) skipBool() {
	if t := r.readTag(); t != 0xc2 && t != 0xc3 {
		r.markBad()
	}
}

// skipNumbers reads bytes, or an array of at most 15 numbers.
func (r *packReader) skipNumbers() {
	if len(r.b) > 0 && r.b[0]&0xf0 == 0x90 {
		for range r.readTag() & 0x0f {
			r.readUint()
		}
		return
	}
	r.readBytes()
}
