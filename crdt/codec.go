package crdt

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/zeebo/xxh3"
)

// Codec encodes elements, keys or values of a data type. Implementations must be pure
// functions: equal elements give equal bytes in every process. They hold no state, and are
// called on the goroutine that uses the value.
type Codec[E any] interface {
	// Append appends e to b as exactly one msgpack value.
	Append(b []byte, e E) []byte
	// Decode decodes one element from the front of b and returns it with its length in
	// bytes. The element must not alias b. Decode must allocate at most a small multiple of
	// the bytes read.
	Decode(b []byte) (e E, n int, err error)
}

// measured is a Codec that computes hash and size of an element without encoding it.
type measured[E any] interface {
	hash(e E) uint64
	size(e E) int
}

// copied is a Codec of elements that hold memory which a caller could change.
type copied[E any] interface {
	clone(e E) E
}

// stringCodec encodes strings. A UUID in its usual form, 36 characters in lower
// case, takes 18 bytes instead of 38.
type stringCodec struct{}

// Append implements Codec.
func (stringCodec) Append(b []byte, s string) []byte {
	if len(s) == uuidTextLen {
		if u, ok := parseUUID(s); ok {
			return appendUUID(b, u)
		}
	}
	return appendStr(b, s)
}

// Decode implements Codec.
func (stringCodec) Decode(b []byte) (string, int, error) {
	r := reader{b: b}
	var s string
	if len(b) > 0 && b[0] == mpFixExt16 {
		s = formatUUID(r.uuid())
	} else {
		s = string(r.str())
	}
	return s, len(b) - len(r.b), r.err
}

func (stringCodec) hash(s string) uint64 { return xxh3.HashString(s) }

// size is too high for UUIDs: looking closer would cost each operation more than a
// better estimate is worth.
func (stringCodec) size(s string) int { return strSize(len(s)) }

// bytesCodec encodes byte slices. They are copied on the way in and on the way out.
type bytesCodec struct{}

// Append implements Codec.
func (bytesCodec) Append(b, e []byte) []byte { return appendBin(b, e) }

// Decode implements Codec.
func (bytesCodec) Decode(b []byte) ([]byte, int, error) {
	r := reader{b: b}
	p := append([]byte{}, r.bin()...)
	return p, len(b) - len(r.b), r.err
}

func (bytesCodec) hash(e []byte) uint64  { return xxh3.Hash(e) }
func (bytesCodec) size(e []byte) int     { return strSize(len(e)) + 1 }
func (bytesCodec) clone(e []byte) []byte { return append([]byte{}, e...) }

// uuidCodec encodes 16-byte identities in 18 bytes.
type uuidCodec struct{}

// Append implements Codec.
func (uuidCodec) Append(b []byte, e [16]byte) []byte { return appendUUID(b, e) }

// Decode implements Codec.
func (uuidCodec) Decode(b []byte) ([16]byte, int, error) {
	r := reader{b: b}
	u := r.uuid()
	return u, len(b) - len(r.b), r.err
}

func (uuidCodec) hash(e [16]byte) uint64 {
	return mix(binary.LittleEndian.Uint64(e[:8]), binary.LittleEndian.Uint64(e[8:]))
}
func (uuidCodec) size([16]byte) int { return 18 }

// intCodec encodes signed integers of any width.
type intCodec[E ~int | ~int8 | ~int16 | ~int32 | ~int64] struct{}

// Append implements Codec.
func (intCodec[E]) Append(b []byte, e E) []byte { return appendInt(b, int64(e)) }

// Decode implements Codec.
func (intCodec[E]) Decode(b []byte) (E, int, error) {
	r := reader{b: b}
	v := r.int()
	if int64(E(v)) != v {
		r.fail(ErrMalformed)
	}
	return E(v), len(b) - len(r.b), r.err
}

func (intCodec[E]) hash(e E) uint64 { return mix(uint64(e), hashIntKey) }

func (intCodec[E]) size(e E) int {
	switch v := int64(e); {
	case v >= 0:
		return uintSize(uint64(v))
	case v >= -32:
		return 1
	default: // one bit more than the number itself
		return uintSize(max(uint64(^v)<<1, 0x80))
	}
}

// uintCodec encodes unsigned integers of any width.
type uintCodec[E ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr] struct{}

// Append implements Codec.
func (uintCodec[E]) Append(b []byte, e E) []byte { return appendUint(b, uint64(e)) }

// Decode implements Codec.
func (uintCodec[E]) Decode(b []byte) (E, int, error) {
	r := reader{b: b}
	v := r.uint()
	if uint64(E(v)) != v {
		r.fail(ErrMalformed)
	}
	return E(v), len(b) - len(r.b), r.err
}

func (uintCodec[E]) hash(e E) uint64 { return mix(uint64(e), hashIntKey) }
func (uintCodec[E]) size(e E) int    { return uintSize(uint64(e)) }

// boolCodec encodes booleans.
type boolCodec struct{}

// Append implements Codec.
func (boolCodec) Append(b []byte, e bool) []byte {
	if e {
		return append(b, mpTrue)
	}
	return append(b, mpFalse)
}

// Decode implements Codec.
func (boolCodec) Decode(b []byte) (bool, int, error) {
	r := reader{b: b}
	c := r.byte()
	if c != mpTrue && c != mpFalse {
		r.fail(ErrMalformed)
	}
	return c == mpTrue, len(b) - len(r.b), r.err
}

// castCodec encodes a named type through the codec of the type it is made of.
type castCodec[E, U any] struct{ of Codec[U] }

func (c castCodec[E, U]) Append(b []byte, e E) []byte {
	return c.of.Append(b, *(*U)(unsafe.Pointer(&e)))
}

func (c castCodec[E, U]) Decode(b []byte) (E, int, error) {
	u, n, err := c.of.Decode(b)
	return *(*E)(unsafe.Pointer(&u)), n, err
}

func (c castCodec[E, U]) hash(e E) uint64 {
	return c.of.(measured[U]).hash(*(*U)(unsafe.Pointer(&e)))
}

func (c castCodec[E, U]) size(e E) int {
	return c.of.(measured[U]).size(*(*U)(unsafe.Pointer(&e)))
}

// DefaultCodec returns the codec that the types use unless they are given
// another: a fast one for strings, integers, booleans, [16]byte and []byte and for
// types made of these, MsgpackCodec for every other type. A [16]byte takes 18 bytes, and so
// does a string that is a UUID in its usual form, 36 characters in lower case. Byte slices
// are copied on the way in and on the way out. DefaultCodec fails, like MsgpackCodec, for
// types that have no canonical encoding.
func DefaultCodec[E any]() (Codec[E], error) {
	var e E
	if c, ok := plainCodec(any(e)).(Codec[E]); ok {
		return c, nil
	}
	t := reflect.TypeFor[E]()
	switch t.Kind() {
	case reflect.String:
		return castCodec[E, string]{stringCodec{}}, nil
	case reflect.Int, reflect.Int64:
		return castCodec[E, int64]{intCodec[int64]{}}, nil
	case reflect.Int32:
		return castCodec[E, int32]{intCodec[int32]{}}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return castCodec[E, uint64]{uintCodec[uint64]{}}, nil
	case reflect.Uint32:
		return castCodec[E, uint32]{uintCodec[uint32]{}}, nil
	case reflect.Array:
		if t.Len() == 16 && t.Elem().Kind() == reflect.Uint8 {
			return castCodec[E, [16]byte]{uuidCodec{}}, nil
		}
	}
	return MsgpackCodec[E]()
}

// plainCodec returns the fast codec for the type of e, or nil.
func plainCodec(e any) any {
	switch e.(type) {
	case string:
		return stringCodec{}
	case []byte:
		return bytesCodec{}
	case [16]byte:
		return uuidCodec{}
	case bool:
		return boolCodec{}
	case int:
		return intCodec[int]{}
	case int8:
		return intCodec[int8]{}
	case int16:
		return intCodec[int16]{}
	case int32:
		return intCodec[int32]{}
	case int64:
		return intCodec[int64]{}
	case uint:
		return uintCodec[uint]{}
	case uint8:
		return uintCodec[uint8]{}
	case uint16:
		return uintCodec[uint16]{}
	case uint32:
		return uintCodec[uint32]{}
	case uint64:
		return uintCodec[uint64]{}
	}
	return nil
}

const (
	uuidExt     = 1
	uuidTextLen = 36
)

func appendUUID(b []byte, u [16]byte) []byte {
	return append(append(b, mpFixExt16, uuidExt), u[:]...)
}

func (r *reader) uuid() (u [16]byte) {
	if r.byte() != mpFixExt16 || r.byte() != uuidExt {
		r.fail(ErrMalformed)
		return u
	}
	copy(u[:], r.take(16))
	return u
}

// parseUUID reads the lower-case form with four dashes, and no other: what it
// takes, formatUUID gives back to the letter.
func parseUUID(s string) (u [16]byte, ok bool) {
	j := 0
	for i := 0; i < len(s); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return u, false
			}
			continue
		}
		d := hexDigit(s[i])
		if d > 15 {
			return u, false
		}
		u[j/2] = u[j/2]<<4 | d
		j++
	}
	return u, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

func formatUUID(u [16]byte) string {
	var t [uuidTextLen]byte
	hex.Encode(t[0:8], u[0:4])
	hex.Encode(t[9:13], u[4:6])
	hex.Encode(t[14:18], u[6:8])
	hex.Encode(t[19:23], u[8:10])
	hex.Encode(t[24:36], u[10:16])
	t[8], t[13], t[18], t[23] = '-', '-', '-', '-'
	return string(t[:])
}

// element describes the type of a data type's elements. A value and its deltas share it.
type element[E any] struct {
	codec  Codec[E]
	fast   measured[E] // nil: hash and size come from the encoding
	copies copied[E]   // nil: elements cannot be changed from outside
	of     uint8       // the element kinds, see kinded
}

// elementOf panics when E has no default codec: a caller's mistake, met the
// first time a value of that type is used.
func elementOf[E any]() *element[E] {
	c, err := DefaultCodec[E]()
	if err != nil {
		panic(fmt.Sprintf("crdt: %v: give the value a codec of its own", err))
	}
	return elementWith(c)
}

func elementWith[E any](c Codec[E]) *element[E] {
	el := &element[E]{codec: c, of: elementsOf(c)}
	el.fast, _ = c.(measured[E])
	el.copies, _ = c.(copied[E])
	return el
}

// hashAndSize returns the hash of e, and the bytes that its encoding takes.
func (t *element[E]) hashAndSize(e E) (hash uint64, size int) {
	if t.fast != nil {
		return t.fast.hash(e), t.fast.size(e)
	}
	var local [64]byte
	b := t.codec.Append(local[:0], e)
	return xxh3.Hash(b), len(b)
}

// ownedCopy returns a copy of e if elements share memory, else e.
func (t *element[E]) ownedCopy(e E) E {
	if t.copies != nil {
		return t.copies.clone(e)
	}
	return e
}

// read reads one element.
func (t *element[E]) read(r *reader) (e E) {
	if r.err != nil {
		return e
	}
	e, n, err := t.codec.Decode(r.b)
	if err == nil && (n <= 0 || n > len(r.b)) {
		err = ErrMalformed
	}
	if err != nil {
		r.fail(err)
		return e
	}
	r.b = r.b[n:]
	return e
}
