package sharding

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Kinds is the codec of a type with several kinds of messages. T is an interface that all
// of them implement. Each kind has a number, which is sent as one byte before the encoding
// of the kind's own codec:
//
//	ReqCodec: sharding.Kinds[Command]{
//		1: sharding.Kind[Command](sharding.Msgpack[Deposit]{}),
//		2: sharding.Kind[Command](sharding.JSON[Close]{}),
//	},
//
// The numbers must be equal on all nodes. Never use a number for another kind later. Nodes
// of an older version reject a kind that they do not have with ErrCodec. Do not change the
// map once it is in use.
type Kinds[T any] map[uint8]KindCodec[T]

// KindCodec encodes and decodes one kind of T. The function Kind makes one.
type KindCodec[T any] interface {
	Codec[T]
	// kind is the type of what it writes.
	kind() reflect.Type
	// checkCodec reports what is wrong with the kind's codec.
	checkCodec() error
}

// Kind returns the codec of one kind of T from a codec of that kind. K must implement T and
// must not be an interface.
func Kind[T, K any](c Codec[K]) KindCodec[T] { return kindCodec[T, K]{c} }

type kindCodec[T, K any] struct{ codec Codec[K] }

func (kindCodec[T, K]) kind() reflect.Type { return reflect.TypeFor[K]() }

func (c kindCodec[T, K]) checkCodec() error {
	if c.codec == nil {
		return errors.New("its codec is nil")
	}
	return validCodec(c.codec)
}

func (c kindCodec[T, K]) Append(b []byte, v T) ([]byte, error) {
	k, ok := any(v).(K)
	if !ok {
		return b, errKind
	}
	return c.codec.Append(b, k)
}

func (c kindCodec[T, K]) Decode(p []byte) (none T, err error) {
	k, err := c.codec.Decode(p)
	if err != nil {
		return none, err
	}
	v, ok := any(k).(T)
	if !ok {
		return none, errKind
	}
	return v, nil
}

var errKind = errors.New("no such kind of message")

// Append appends the number of v's kind, then v. It fails for a kind without a number.
func (k Kinds[T]) Append(b []byte, v T) ([]byte, error) {
	typ := reflect.TypeOf(v)
	for number, c := range k { // order-free: each kind stands there once
		if c.kind() == typ {
			return c.Append(append(b, number), v)
		}
	}
	return b, fmt.Errorf("%w: %T", errKind, v)
}

// Decode decodes one message. It fails for a number without a kind.
func (k Kinds[T]) Decode(p []byte) (none T, err error) {
	if len(p) == 0 {
		return none, errors.New("message without its kind")
	}
	c := k[p[0]]
	if c == nil {
		return none, fmt.Errorf("%w: number %d", errKind, p[0])
	}
	return c.Decode(p[1:])
}

// checkCodec reports a kind that is nil, stands there twice, or is no T.
func (k Kinds[T]) checkCodec() error {
	seen := map[reflect.Type]uint8{}
	for _, number := range k.numbers() {
		c := k[number]
		if c == nil {
			return fmt.Errorf("kind %d is nil", number)
		}
		typ := c.kind()
		if typ.Kind() == reflect.Interface || !typ.AssignableTo(reflect.TypeFor[T]()) {
			return fmt.Errorf("kind %d: %v is an interface, or no %v", number, typ, reflect.TypeFor[T]())
		}
		if first, twice := seen[typ]; twice {
			return fmt.Errorf("kinds %d and %d are both %v", first, number, typ)
		}
		seen[typ] = number
		if err := c.checkCodec(); err != nil {
			return fmt.Errorf("kind %d: %w", number, err)
		}
	}
	if len(seen) == 0 {
		return errors.New("there are no kinds")
	}
	return nil
}

func (k Kinds[T]) numbers() (all []uint8) {
	for number := range k {
		all = append(all, number)
	}
	slices.Sort(all)
	return all
}

func (c kindCodec[T, K]) describeShape() string { return shapeOf(c.codec) }

// describeShape returns "" if that of a kind cannot be determined.
func (k Kinds[T]) describeShape() string {
	var b strings.Builder
	for _, number := range k.numbers() {
		s, ok := k[number].(shaped)
		if !ok || s.describeShape() == "" {
			return ""
		}
		fmt.Fprintf(&b, "%d=%s;", number, s.describeShape())
	}
	return b.String()
}
