package crdt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"reflect"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
	"github.com/peerage-go/peerage/internal/crdt/shared"
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
	hashElement(e E) uint64
	encodedSize(e E) int
}

// copied is a Codec of elements that hold memory which a caller could change.
type copied[E any] interface {
	copyElement(e E) E
}

// stringCodec encodes strings. A UUID in its usual form, 36 characters in lower
// case, takes 18 bytes instead of 38.
type stringCodec struct{}

// Append implements Codec.
func (stringCodec) Append(b []byte, s string) []byte {
	if len(s) == canonical.UUIDTextLen {
		if u, ok := canonical.ParseUUID(s); ok {
			return canonical.AppendUUID(b, u)
		}
	}
	return canonical.AppendStr(b, s)
}

// Decode implements Codec.
func (stringCodec) Decode(b []byte) (string, int, error) {
	r := canonical.Reader{B: b}
	var s string
	if len(b) > 0 && b[0] == canonical.FixExt16 {
		s = canonical.FormatUUID(r.UUID())
	} else {
		s = string(r.Str())
	}
	return s, len(b) - len(r.B), r.Err
}

func (stringCodec) hashElement(s string) uint64 { return xxh3.HashString(s) }

// encodedSize is too high for UUIDs: looking closer would cost each operation more than a
// better estimate is worth.
func (stringCodec) encodedSize(s string) int { return canonical.StrSize(len(s)) }

// bytesCodec encodes byte slices. They are copied on the way in and on the way out.
type bytesCodec struct{}

// Append implements Codec.
func (bytesCodec) Append(b, e []byte) []byte { return canonical.AppendBin(b, e) }

// Decode implements Codec.
func (bytesCodec) Decode(b []byte) ([]byte, int, error) {
	r := canonical.Reader{B: b}
	p := append([]byte{}, r.Bin()...)
	return p, len(b) - len(r.B), r.Err
}

func (bytesCodec) hashElement(e []byte) uint64 { return xxh3.Hash(e) }

func (bytesCodec) encodedSize(e []byte) int { return canonical.StrSize(len(e)) + 1 }

func (bytesCodec) copyElement(e []byte) []byte { return append([]byte{}, e...) }

// uuidCodec encodes 16-byte identities in 18 bytes.
type uuidCodec struct{}

// Append implements Codec.
func (uuidCodec) Append(b []byte, e [16]byte) []byte { return canonical.AppendUUID(b, e) }

// Decode implements Codec.
func (uuidCodec) Decode(b []byte) ([16]byte, int, error) {
	r := canonical.Reader{B: b}
	u := r.UUID()
	return u, len(b) - len(r.B), r.Err
}

func (uuidCodec) hashElement(e [16]byte) uint64 {
	return mix(binary.LittleEndian.Uint64(e[:8]), binary.LittleEndian.Uint64(e[8:]))
}

func (uuidCodec) encodedSize([16]byte) int { return 18 }

// intCodec encodes signed integers of any width.
type intCodec[E ~int | ~int8 | ~int16 | ~int32 | ~int64] struct{}

// Append implements Codec.
func (intCodec[E]) Append(b []byte, e E) []byte { return canonical.AppendInt(b, int64(e)) }

// Decode implements Codec.
func (intCodec[E]) Decode(b []byte) (E, int, error) {
	r := canonical.Reader{B: b}
	v := r.Int()
	if int64(E(v)) != v {
		r.Fail(ErrMalformed)
	}
	return E(v), len(b) - len(r.B), r.Err
}

func (intCodec[E]) hashElement(e E) uint64 { return mix(uint64(e), hashIntKey) }

func (intCodec[E]) encodedSize(e E) int {
	switch v := int64(e); {
	case v >= 0:
		return canonical.UintSize(uint64(v))
	case v >= -32:
		return 1
	default: // one bit more than the number itself
		return canonical.UintSize(max(uint64(^v)<<1, 0x80))
	}
}

// uintCodec encodes unsigned integers of any width.
type uintCodec[E ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr] struct{}

// Append implements Codec.
func (uintCodec[E]) Append(b []byte, e E) []byte { return canonical.AppendUint(b, uint64(e)) }

// Decode implements Codec.
func (uintCodec[E]) Decode(b []byte) (E, int, error) {
	r := canonical.Reader{B: b}
	v := r.Uint()
	if uint64(E(v)) != v {
		r.Fail(ErrMalformed)
	}
	return E(v), len(b) - len(r.B), r.Err
}

func (uintCodec[E]) hashElement(e E) uint64 { return mix(uint64(e), hashIntKey) }

func (uintCodec[E]) encodedSize(e E) int { return canonical.UintSize(uint64(e)) }

// boolCodec encodes booleans.
type boolCodec struct{}

// Append implements Codec.
func (boolCodec) Append(b []byte, e bool) []byte {
	if e {
		return append(b, canonical.True)
	}
	return append(b, canonical.False)
}

// Decode implements Codec.
func (boolCodec) Decode(b []byte) (bool, int, error) {
	r := canonical.Reader{B: b}
	c := r.Byte()
	if c != canonical.True && c != canonical.False {
		r.Fail(ErrMalformed)
	}
	return c == canonical.True, len(b) - len(r.B), r.Err
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

func (c castCodec[E, U]) hashElement(e E) uint64 {
	return c.of.(measured[U]).hashElement(*(*U)(unsafe.Pointer(&e)))
}

func (c castCodec[E, U]) encodedSize(e E) int {
	return c.of.(measured[U]).encodedSize(*(*U)(unsafe.Pointer(&e)))
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
	el := &element[E]{codec: c, of: elementKindsOf(c)}
	el.fast, _ = c.(measured[E])
	el.copies, _ = c.(copied[E])
	return el
}

// hashAndSize returns the hash of e, and the bytes that its encoding takes.
func (t *element[E]) hashAndSize(e E) (hash uint64, size int) {
	if t.fast != nil {
		return t.fast.hashElement(e), t.fast.encodedSize(e)
	}
	var local [64]byte
	b := t.codec.Append(local[:0], e)
	return xxh3.Hash(b), len(b)
}

// ownedCopy returns a copy of e if elements share memory, else e.
func (t *element[E]) ownedCopy(e E) E {
	if t.copies != nil {
		return t.copies.copyElement(e)
	}
	return e
}

// table is a slotTable with the hash of its elements.
type table[E comparable] struct {
	shared.Table
	seed maphash.Seed
}

func (t *table[E]) hash(e E) uint32 { return uint32(maphash.Comparable(t.seed, e) >> 32) }

// shareAll returns a copy, which has the slots in common until one of the two changes them.
func (t *table[E]) shareAll() table[E] { return table[E]{t.ShareTable(), t.seed} }

// reader is a bytesReader that refuses lengths which cannot be right.
type reader struct{ canonical.Reader }

// arrayLen reads the header of an array of which each element takes at least
// elemBytes bytes: a length that cannot fit into what remains is refused.
func (r *reader) arrayLen(field string, elemBytes int) int {
	n := r.ArrayHeader()
	if most := uint64(len(r.B) / elemBytes); r.Err == nil && n > most {
		r.Fail(&LimitError{Field: field, Declared: n, Max: most})
	}
	if r.Err != nil {
		return 0
	}
	return int(n)
}

// tuple reads the header of an array of exactly n elements.
func (r *reader) tuple(n int) {
	if got := r.arrayLen("tuple", 1); r.Err == nil && got != n {
		r.Fail(ErrMalformed)
	}
}

// decodeElement reads one element.
func (t *element[E]) decodeElement(r *reader) (e E) {
	if r.Err != nil {
		return e
	}
	e, n, err := t.codec.Decode(r.B)
	if err == nil && (n <= 0 || n > len(r.B)) {
		err = ErrMalformed
	}
	if err != nil {
		r.Fail(err)
		return e
	}
	r.B = r.B[n:]
	return e
}

// keyOf is elementOf for elements that are compared: those of sets, keys of maps, and
// values that a register or a map tells apart.
func keyOf[E comparable]() *element[E] {
	refuseFloats[E]()
	return elementOf[E]()
}

// keyWith is elementWith for elements that are compared.
func keyWith[E comparable](c Codec[E]) *element[E] {
	refuseFloats[E]()
	return elementWith(c)
}

// refuseFloats panics if E holds floating-point numbers: a caller's mistake, met when a
// value of that type is made or first used. +0 and -0 are equal and have two encodings, so
// replicas would hold different bytes for equal sets; NaN equals nothing, so it could be
// added without end and never removed.
func refuseFloats[E comparable]() {
	if t := reflect.TypeFor[E](); canonical.HoldsFloat(t, 0) {
		panic(fmt.Sprintf("crdt: %v holds floating-point numbers, which cannot be elements or keys: use math.Float64bits, or an LWWRegister for a value", t))
	}
}

// rawCodec is for elements of unknown type: an element is a string that holds its encoding,
// one msgpack value.
type rawCodec struct{ kind ElementKind }

// Append implements Codec.
func (rawCodec) Append(b []byte, s string) []byte { return append(b, s...) }

// Decode implements Codec.
func (rawCodec) Decode(b []byte) (string, int, error) {
	n, err := skip(b, canonical.DepthMax)
	if err != nil {
		return "", 0, err
	}
	return string(b[:n]), n, nil
}

func (rawCodec) hashElement(s string) uint64 { return xxh3.HashString(s) }

func (rawCodec) encodedSize(s string) int { return len(s) }

func (c rawCodec) elementKinds() uint8 { return uint8(c.kind) }

// anyElement returns the element description for elements of which only the kind is
// available.
func anyElement(kind ElementKind) *element[string] {
	if kind == ElementString {
		return elementWith[string](stringCodec{})
	}
	return elementWith[string](rawCodec{kind})
}

// MsgpackCodec returns a codec that encodes E with msgpack v5. It fails for types
// whose encoding would not be canonical: those that hold maps, interfaces,
// pointers, functions or channels. Values are copied on the way in. Encoding
// panics if a custom encoder of E fails.
func MsgpackCodec[E any]() (Codec[E], error) {
	t := reflect.TypeFor[E]()
	if err := canonical.CheckType(t, 0); err != nil {
		return nil, err
	}
	if canonical.HoldsSlice(t) {
		return msgpackCopied[E]{}, nil
	}
	return msgpackCodec[E]{}, nil
}

type msgpackCodec[E any] struct{}

func (msgpackCodec[E]) Append(b []byte, e E) []byte {
	buf := bytes.NewBuffer(b)
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(buf)
	enc.UseCompactInts(true)
	if err := enc.Encode(e); err != nil {
		panic(fmt.Sprintf("crdt: encoding %T: %v", e, err))
	}
	return buf.Bytes()
}

func (msgpackCodec[E]) Decode(b []byte) (e E, n int, err error) {
	n, err = skip(b, canonical.DepthMax)
	if err != nil {
		return e, 0, err
	}
	if err := msgpack.Unmarshal(b[:n], &e); err != nil {
		return e, 0, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return e, n, nil
}

// msgpackCopied is for types with slices inside, which callers could change.
type msgpackCopied[E any] struct{ msgpackCodec[E] }

func (c msgpackCopied[E]) copyElement(e E) E {
	out, _, err := c.Decode(c.Append(nil, e))
	if err != nil {
		panic(fmt.Sprintf("crdt: %T does not survive its own encoding: %v", e, err))
	}
	return out
}

// MsgpackLen returns the length of the msgpack value at the front of b. It refuses
// values that nest deeper than 32 levels or declare more than b can hold, and
// allocates next to nothing: call it before handing bytes from elsewhere to a
// msgpack library, which may allocate what five bytes declare.
func MsgpackLen(b []byte) (int, error) { return skip(b, canonical.DepthMax) }

// skip returns the length of the msgpack value at the front of b. It refuses
// what nests deeper than depth and counts that cannot fit into b.
func skip(b []byte, depth int) (int, error) {
	r := canonical.Reader{B: b}
	left := make([]uint64, 1, 8) // values still due, per level
	left[0] = 1
	for len(left) > 0 && r.Err == nil {
		if left[len(left)-1] == 0 {
			left = left[:len(left)-1]
			continue
		}
		left[len(left)-1]--
		n := r.SkipOne()
		if n == 0 {
			continue
		}
		if n > uint64(len(r.B)) {
			return 0, &LimitError{Field: "element length", Declared: n, Max: uint64(len(r.B))}
		}
		if len(left) > depth {
			return 0, &LimitError{Field: "element depth", Declared: uint64(len(left)), Max: uint64(depth)}
		}
		left = append(left, n)
	}
	return len(b) - len(r.B), r.Err
}
