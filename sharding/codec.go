package sharding

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/peerage-go/peerage/crdt"
)

// Codec encodes and decodes requests or responses. Implementations must be safe for
// concurrent use. Append appends the encoding of v to b. Decode must keep nothing of p,
// which is valid only during the call. A codec that fails or panics fails only its message,
// with ErrCodec.
//
// The goroutine that reads a connection decodes payloads of less than 8 KiB: a slow Decode
// delays other messages, and answers, of the sending node. A larger request is decoded in
// its entity's turn, a larger answer by its asker.
type Codec[T any] interface {
	Append(b []byte, v T) ([]byte, error)
	Decode(p []byte) (T, error)
}

// Msgpack is the default codec: MessagePack by reflection. Register rejects types that it
// cannot carry completely, see Lossy. Types with their own MessagePack methods are encoded
// by them.
type Msgpack[T any] struct{}

// Append appends v as MessagePack.
func (Msgpack[T]) Append(b []byte, v T) ([]byte, error) {
	p, err := msgpack.Marshal(&v) // by pointer, so that methods of fields' pointers are called
	return append(b, p...), err
}

// Decode decodes one MessagePack value. It checks declared lengths against p before it
// allocates.
func (Msgpack[T]) Decode(p []byte) (v T, err error) {
	n, err := crdt.MsgpackLen(p)
	if err != nil {
		return v, err
	}
	if n != len(p) {
		return v, errors.New("bytes behind the value")
	}
	err = msgpack.Unmarshal(p, &v)
	return v, err
}

// JSON is a codec for payloads that other tools also read. Register rejects types that JSON
// cannot carry completely, see Lossy. Types with their own JSON methods are encoded by
// them.
type JSON[T any] struct{}

// Append appends v as JSON.
func (JSON[T]) Append(b []byte, v T) ([]byte, error) {
	p, err := json.Marshal(&v) // by pointer, so that methods of fields' pointers are called
	return append(b, p...), err
}

// Decode decodes one JSON value.
func (JSON[T]) Decode(p []byte) (v T, err error) {
	err = json.Unmarshal(p, &v)
	return v, err
}

// Raw is the codec of types whose messages are bytes already. It is the default for []byte.
// Small requests from other nodes share memory with their neighbours: an entity that keeps
// one of up to 256 bytes keeps 1 KiB alive. Copy it if that is too much.
type Raw[T ~[]byte] struct{}

// Append appends v unchanged.
func (Raw[T]) Append(b []byte, v T) ([]byte, error) { return append(b, v...), nil }

// Decode copies p.
func (Raw[T]) Decode(p []byte) (T, error) { return append(make(T, 0, len(p)), p...), nil }

func (Raw[T]) own(p []byte) T { return T(p) }

func (Raw[T]) is(codec any) bool {
	_, ok := codec.(Raw[T])
	return ok
}

// owner is a codec that needs no copy of a payload that is the message's own. is tells it
// from one that has it embedded, and a Decode of its own.
type owner[T any] interface {
	own(p []byte) T
	is(codec any) bool
}

func ownerOf[T any](codec Codec[T]) owner[T] {
	if o, ok := codec.(owner[T]); ok && o.is(codec) {
		return o
	}
	return nil
}

// Text is the codec of types whose messages are strings. It is the default for string.
type Text[T ~string] struct{}

// Append appends v unchanged.
func (Text[T]) Append(b []byte, v T) ([]byte, error) { return append(b, v...), nil }

// Decode copies p.
func (Text[T]) Decode(p []byte) (T, error) { return T(p), nil }

// None is the codec of struct{}: it sends nothing.
type None struct{}

// Append appends nothing.
func (None) Append(b []byte, _ struct{}) ([]byte, error) { return b, nil }

// Decode returns struct{}{}.
func (None) Decode(p []byte) (struct{}, error) {
	if len(p) != 0 {
		return struct{}{}, errors.New("bytes where none belong")
	}
	return struct{}{}, nil
}

// defaultCodec picks Raw for bytes, Text for strings, None for struct{}, and Msgpack
// for all else.
func defaultCodec[T any]() Codec[T] {
	for _, c := range []any{Raw[[]byte]{}, Text[string]{}, None{}} {
		if codec, ok := c.(Codec[T]); ok {
			return codec
		}
	}
	return Msgpack[T]{}
}

// validCodec reports what is wrong with a codec, nil being the default one.
func validCodec[T any](c Codec[T]) error {
	if c == nil {
		c = defaultCodec[T]()
	}
	switch c := c.(type) {
	case Msgpack[T]:
		return msgpackReflection().checkLossless(reflect.TypeFor[T]())
	case JSON[T]:
		return jsonReflection().checkLossless(reflect.TypeFor[T]())
	case interface{ validate() error }:
		return c.validate()
	}
	return nil
}
