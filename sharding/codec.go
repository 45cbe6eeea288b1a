package sharding

import (
	"encoding/json"
	"errors"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/typeshape"
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

func (Raw[T]) takePayload(p []byte) T { return T(p) }

func (Raw[T]) isCodec(codec any) bool {
	_, ok := codec.(Raw[T])
	return ok
}

// owner is a codec that needs no copy of a payload that is the message's own. isCodec is false
// for a codec that embeds an owner and has a Decode of its own.
type owner[T any] interface {
	takePayload(p []byte) T
	isCodec(codec any) bool
}

func ownerOf[T any](codec Codec[T]) owner[T] {
	if o, ok := codec.(owner[T]); ok && o.isCodec(codec) {
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
		return typeshape.Msgpack().CheckLossless(reflect.TypeFor[T]())
	case JSON[T]:
		return typeshape.JSON().CheckLossless(reflect.TypeFor[T]())
	case interface{ checkCodec() error }:
		return c.checkCodec()
	}
	return nil
}

// Lossy is a codec whose type is not checked for data loss.
//
// Register rejects a type that Msgpack or JSON cannot carry completely: with unexported
// fields, interfaces, functions or channels. Messages between entities of one node skip the
// codec, so such a field would arrive there, but arrive empty or with another type from
// every other node. Lossy accepts this difference by name. To leave out a single field, tag
// it `msgpack:"-"` or `json:"-"` instead.
type Lossy[T any] struct {
	// Codec encodes and decodes the messages; nil means the default codec of T.
	Codec Codec[T]
}

// Append appends the encoding of v by l.Codec.
func (l Lossy[T]) Append(b []byte, v T) ([]byte, error) { return l.codec().Append(b, v) }

// Decode decodes p with l.Codec.
func (l Lossy[T]) Decode(p []byte) (T, error) { return l.codec().Decode(p) }

func (l Lossy[T]) codec() Codec[T] {
	if l.Codec == nil {
		return defaultCodec[T]()
	}
	return l.Codec
}

func (l Lossy[T]) describeShape() string { return shapeOf(l.codec()) }

// shapesOf returns the fingerprints of a type's messages as their codecs write them. Nodes
// compare them: where they differ, a field that only one node has arrives empty elsewhere.
func shapesOf[Req, Resp any](req Codec[Req], resp Codec[Resp]) protocol.Shapes {
	return protocol.Shapes{Requests: fingerprintOf(shapeOf(req)), Responses: fingerprintOf(shapeOf(resp))}
}

// fingerprintOf is zero for a shape that cannot be determined.
func fingerprintOf(shape string) uint64 {
	if shape == "" {
		return 0
	}
	return max(xxh3.HashString(shape), 1)
}

// shaped is a codec that describes what it writes.
type shaped interface{ describeShape() string }

// shapeOf describes what a codec writes, in a text that is equal for equal encodings: names
// of fields and kinds of values, but no names of Go's types. It is "" for a codec of the
// application's own.
func shapeOf[T any](c Codec[T]) string {
	switch c := c.(type) {
	case Msgpack[T]:
		return typeshape.Msgpack().Describe(reflect.TypeFor[T]())
	case JSON[T]:
		return typeshape.JSON().Describe(reflect.TypeFor[T]())
	case shaped:
		return c.describeShape()
	}
	switch any(c).(type) {
	case None:
		return "none"
	case Raw[[]byte]:
		return "raw"
	case Text[string]:
		return "text"
	}
	return ""
}
