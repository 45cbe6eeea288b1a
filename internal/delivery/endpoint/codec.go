package endpoint

import (
	"fmt"
	"sync"

	"github.com/peerage-go/peerage/internal/failure"
)

// Codec encodes and decodes the messages of one direction: see sharding.Codec.
type Codec[T any] interface {
	Append(b []byte, v T) ([]byte, error)
	Decode(p []byte) (T, error)
}

// decodeSafely turns a panic of the codec into an error: it must not end the reader of a
// connection.
func decodeSafely[T any](c Codec[T], payload []byte) (v T, err error) {
	defer recoverCodec(&err)
	return c.Decode(payload)
}

// encodeSafely turns a panic of the codec into an error. Otherwise the panic would end the
// goroutine of an entity, and leave an ask open.
func encodeSafely[T any](c Codec[T], b []byte, v T) (out []byte, err error) {
	defer recoverCodec(&err)
	return c.Append(b, v)
}

// recoverCodec makes an error of a panic: not failure.Panicked, which is a handler's.
func recoverCodec(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

// appendBounded appends the encoding of v, of at most bytesMax.
func appendBounded[T any](c Codec[T], b []byte, v T, bytesMax int) ([]byte, error) {
	head := len(b)
	b, err := encodeSafely(c, b, v)
	if err != nil {
		return nil, failure.Because(failure.Codec, err)
	}
	if len(b)-head > bytesMax {
		return nil, failure.TooLarge
	}
	return b, nil
}

// copyStrictly returns v as it would arrive on another node: v goes through the codec, and
// the result shares no memory with v.
func copyStrictly[T any](p *sync.Pool, c Codec[T], v T, bytesMax int) (arrived T, err error) {
	buf := p.Get().(*[]byte)
	defer p.Put(buf)
	encoded, err := appendBounded(c, (*buf)[:0], v, bytesMax)
	if err != nil {
		return arrived, err
	}
	*buf = encoded
	if arrived, err = decodeSafely(c, encoded); err != nil {
		return arrived, failure.Because(failure.Codec, err)
	}
	return arrived, nil
}

// slab is memory for small payloads that arrive one behind the other. A payload that is kept
// keeps the whole slab, at most slabBytes.
type slab struct{ free []byte }

const (
	slabBytes = 1 << 10
	// slabMost is the largest payload that shares memory with its neighbours.
	slabMost = slabBytes / 4
)

func (s *slab) copyOf(p []byte) []byte {
	n := len(p)
	if n > slabMost {
		return append(make([]byte, 0, n), p...)
	}
	if n > len(s.free) || s.free == nil {
		s.free = make([]byte, slabBytes)
	}
	q := s.free[:n:n]
	s.free = s.free[n:]
	copy(q, p)
	return q
}
