package crdt

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
)

// depthMax bounds how deep arrays and maps may nest inside one element.
const depthMax = 32

// MsgpackCodec returns a codec that encodes E with msgpack v5. It fails for types
// whose encoding would not be canonical: those that hold maps, interfaces,
// pointers, functions or channels. Values are copied on the way in. Encoding
// panics if a custom encoder of E fails.
func MsgpackCodec[E any]() (Codec[E], error) {
	t := reflect.TypeFor[E]()
	if err := canonical(t, 0); err != nil {
		return nil, err
	}
	if holdsSlice(t) {
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
	n, err = skip(b, depthMax)
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

func (c msgpackCopied[E]) clone(e E) E {
	out, _, err := c.Decode(c.Append(nil, e))
	if err != nil {
		panic(fmt.Sprintf("crdt: %T does not survive its own encoding: %v", e, err))
	}
	return out
}

// canonical returns an error unless equal values of type t have equal encodings.
func canonical(t reflect.Type, depth int) error {
	if depth > depthMax {
		return fmt.Errorf("type %v nests deeper than %d", t, depthMax)
	}
	switch t.Kind() {
	case reflect.Map, reflect.Interface, reflect.Pointer, reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return fmt.Errorf("type %v has no canonical encoding", t)
	case reflect.Slice, reflect.Array:
		return canonical(t.Elem(), depth+1)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				return fmt.Errorf("type %v has the unexported field %s, which no encoding would carry", t, f.Name)
			}
			if err := canonical(f.Type, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func holdsSlice(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice:
		return true
	case reflect.Array:
		return holdsSlice(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if holdsSlice(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// MsgpackLen returns the length of the msgpack value at the front of b. It refuses
// values that nest deeper than 32 levels or declare more than b can hold, and
// allocates next to nothing: call it before handing bytes from elsewhere to a
// msgpack library, which may allocate what five bytes declare.
func MsgpackLen(b []byte) (int, error) { return skip(b, depthMax) }

// skip returns the length of the msgpack value at the front of b. It refuses
// what nests deeper than depth and counts that cannot fit into b.
func skip(b []byte, depth int) (int, error) {
	r := reader{b: b}
	left := make([]uint64, 1, 8) // values still due, per level
	left[0] = 1
	for len(left) > 0 && r.err == nil {
		if left[len(left)-1] == 0 {
			left = left[:len(left)-1]
			continue
		}
		left[len(left)-1]--
		n := r.skipOne()
		if n == 0 {
			continue
		}
		if n > uint64(len(r.b)) {
			return 0, &LimitError{Field: "element length", Declared: n, Max: uint64(len(r.b))}
		}
		if len(left) > depth {
			return 0, &LimitError{Field: "element depth", Declared: uint64(len(left)), Max: uint64(depth)}
		}
		left = append(left, n)
	}
	return len(b) - len(r.b), r.err
}

// skipOne skips one value, or the header of an array or map, and then returns
// how many values are inside.
func (r *reader) skipOne() uint64 {
	c := r.byte()
	switch {
	case c < 0x80 || c >= 0xe0 || c == mpNil || c == mpFalse || c == mpTrue:
	case c < 0x90:
		return 2 * uint64(c&0x0f)
	case c < 0xa0:
		return uint64(c & 0x0f)
	case c < 0xc0:
		r.take(int(c & 0x1f))
	case c >= mpBin8 && c <= mpBin32:
		r.sized(1 << (c - mpBin8))
	case c >= 0xc7 && c <= 0xc9: // ext 8, 16, 32
		size := r.big(1 << (c - 0xc7))
		if size >= uint64(len(r.b)) {
			r.fail(ErrTruncated)
			return 0
		}
		r.take(int(size) + 1)
	case c == 0xca: // float 32
		r.take(4)
	case c == 0xcb: // float 64
		r.take(8)
	case c >= mpUint8 && c <= mpUint64:
		r.take(1 << (c - mpUint8))
	case c >= mpInt8 && c <= mpInt64:
		r.take(1 << (c - mpInt8))
	case c >= 0xd4 && c <= mpFixExt16:
		r.take(1 + 1<<(c-0xd4))
	case c >= mpStr8 && c <= mpStr32:
		r.sized(1 << (c - mpStr8))
	case c == mpArray16, c == mpArray32:
		return r.big(2 << (c - mpArray16))
	case c == 0xde, c == 0xdf: // map 16, 32
		return 2 * r.big(2<<(c-0xde))
	default:
		r.fail(ErrMalformed)
	}
	return 0
}
