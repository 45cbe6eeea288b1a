// Package wire writes and reads frames. It checks each declared length against the remaining
// bytes before it allocates.
//
// A protocol is a set of Messages. Each message describes its fields once, for a Coder, and
// the description encodes, decodes and bounds them. Package wiretest tests all messages of a
// protocol. The frames of requests and replies, which are read in place, and the records of
// files use the primitives below the Coder: the Append functions and Reader.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrTruncated means that a frame ended inside a field.
var ErrTruncated = errors.New("wire: truncated")

// ErrUnsorted means that the keys of a map are not in order, or that one occurs twice.
var ErrUnsorted = errors.New("wire: unsorted map")

// LimitError means that a frame declares more than its field may hold.
type LimitError struct {
	Field    string
	Declared uint64
	Max      uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("wire: %s declares %d, at most %d fit", e.Field, e.Declared, e.Max)
}

// AppendUvarint appends v in base-128 form.
func AppendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// AppendU64 appends v in 8 bytes, big endian.
func AppendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// AppendBool appends one byte.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendString appends the length of s and s.
func AppendString(b []byte, s string) []byte {
	return append(AppendUvarint(b, uint64(len(s))), s...)
}

// AppendBytes appends the length of p and p.
func AppendBytes(b []byte, p []byte) []byte {
	return append(AppendUvarint(b, uint64(len(p))), p...)
}

// Reader reads the fields of one frame. The first error sticks: every later
// read returns a zero value, so a decoder reads all its fields and asks for Err once, at
// the end. Bytes behind the last field are fields of later versions. A Reader never panics and never allocates more than the frame holds.
// The zero Reader reads an empty frame.
type Reader struct {
	buf []byte
	err error
}

// NewReader returns a Reader of frame, which it does not copy.
func NewReader(frame []byte) *Reader { return &Reader{buf: frame} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Left returns the number of unread bytes.
func (r *Reader) Left() int { return len(r.buf) }

// Fail records err as the frame's error unless an earlier one stands.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.buf = nil
}

// Uvarint reads a base-128 number.
func (r *Reader) Uvarint() uint64 {
	if len(r.buf) > 0 && r.buf[0] < 0x80 { // the most frequent case
		v := r.buf[0]
		r.buf = r.buf[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.buf)
	if n <= 0 {
		r.Fail(ErrTruncated)
		return 0
	}
	r.buf = r.buf[n:]
	return v
}

// U64 reads 8 bytes, big endian.
func (r *Reader) U64() uint64 {
	p := r.takeBytes(8)
	if p == nil {
		return 0
	}
	return binary.BigEndian.Uint64(p)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	p := r.takeBytes(1)
	if p == nil {
		return 0
	}
	return p[0]
}

// Bool reads one byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	switch b := r.Byte(); b {
	case 0, 1:
		return b == 1
	default:
		r.Fail(&LimitError{Field: "bool", Declared: uint64(b), Max: 1})
		return false
	}
}

// Bytes reads a length and that many bytes, at most max. The result aliases the
// frame: copy what must outlive it.
func (r *Reader) Bytes(field string, max int) []byte {
	n := r.Uvarint()
	if r.err != nil {
		return nil
	}
	if n > uint64(max) {
		r.Fail(&LimitError{Field: field, Declared: n, Max: uint64(max)})
		return nil
	}
	if n > uint64(len(r.buf)) {
		r.Fail(ErrTruncated)
		return nil
	}
	return r.takeBytes(int(n))
}

// String reads a length and a copied string of at most max bytes.
func (r *Reader) String(field string, max int) string { return string(r.Bytes(field, max)) }

// Count reads the number of elements that follow, each at least elemBytes long
// on the wire: a count that cannot fit into what remains is refused before the
// caller allocates for it.
func (r *Reader) Count(field string, elemBytes int) int {
	n := r.Uvarint()
	if r.err != nil {
		return 0
	}
	if most := uint64(len(r.buf) / max(elemBytes, 1)); n > most {
		r.Fail(&LimitError{Field: field, Declared: n, Max: most})
		return 0
	}
	return int(n)
}

func (r *Reader) takeBytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n > len(r.buf) {
		r.Fail(ErrTruncated)
		return nil
	}
	p := r.buf[:n:n]
	r.buf = r.buf[n:]
	return p
}
