package crdt

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// NodeID identifies one incarnation of a writer. A restarted writer must use a new NodeID:
// a reused one would reuse its dots.
type NodeID uint64

// Value is a replicated value, or a delta of one: both have the same type. The replicator
// handles every data type through this interface and never looks inside. A Value has a
// single owner and is not safe for concurrent use.
type Value interface {
	// Kind returns the data type, and the kinds of its elements.
	Kind() Kind
	// Join merges other into the receiver and reports whether that changed it. other is
	// unchanged, and shares no memory with the receiver afterwards. If other has another
	// type, Join fails with *KindError; if the result would have more than a million
	// writers, with *LimitError. Both change nothing.
	Join(other Value) (changed bool, err error)
	// Clone returns a copy: changes of one never show in the other. Large values share
	// the memory of what has not changed since, so a copy costs little. Clone counts as
	// a change of the receiver for concurrent use, but readers of it may go on.
	Clone() Value
	// Digest returns a hash of the content that does not depend on its history: equal
	// values have equal digests. Every change updates it, so the call costs nothing.
	Digest() uint64
	// Append appends the canonical encoding: equal values give equal bytes.
	Append(b []byte) []byte
	// Size returns the approximate number of bytes that Append would write.
	Size() int
}

// decoder is a Value that can be read.
type decoder interface {
	Value
	Decode(b []byte) error
}

// New returns an empty value of a kind, in the instantiation that Decode gives. It
// fails with *KindError for an unknown kind.
func New(kind Kind) (Value, error) {
	if v := blank(kind); v != nil {
		return v, nil
	}
	return nil, &KindError{Want: kind}
}

func blank(kind Kind) decoder {
	if !kind.known() {
		return nil
	}
	switch kind.base() {
	case KindGCounter:
		return &GCounter{}
	case KindPNCounter:
		return &PNCounter{}
	case KindFlag:
		return &Flag{}
	case KindVersionVector:
		return &VersionVector{}
	}
	first := anyElement(kind.elementKind(0))
	switch kind.base() {
	case KindGSet:
		return &GSet[string]{elem: first}
	case KindLWWRegister:
		return &LWWRegister[string]{elem: first}
	case KindMVRegister:
		return &MVRegister[string]{ORSet[string]{elem: first}}
	case KindORSet:
		return &ORSet[string]{elem: first}
	case KindLWWMap:
		return &LWWMap[string, string]{types: &lwwTypes[string, string]{first, anyElement(kind.elementKind(1))}}
	case KindORMap:
		m := &ORMap[string, string]{}
		m.use(first, anyElement(kind.elementKind(1)))
		return m
	case KindORMultiMap:
		m := &ORMultiMap[string, string]{}
		m.set.elem = elementWith[pair[string, string]](pairCodec[string, string]{first, anyElement(kind.elementKind(1))})
		return m
	case KindPNCounterMap:
		m := &PNCounterMap[string]{}
		m.set.elem = elementWith[share[string]](shareCodec[string]{first})
		return m
	}
	return nil
}

// Decode reads a value that Append wrote, without knowing the caller's types: it
// gives ORSet[string], LWWMap[string, string] and so on, of which the strings hold what
// the caller's codec made, unless the element kind is ElementString: then they are the
// elements. It fails with *KindError, which names both, if b is of another kind. Nothing in the value aliases b. It never
// panics, whatever b holds, and allocates at most a small multiple of len(b). The
// errors are ErrTruncated, ErrMalformed, *LimitError and *KindError.
func Decode(kind Kind, b []byte) (Value, error) {
	v := blank(kind)
	if v == nil {
		return nil, &KindError{Want: kind}
	}
	if err := v.Decode(b); err != nil {
		return nil, err
	}
	return v, nil
}

// ErrTruncated means that an encoding ends inside a field.
var ErrTruncated = canonical.ErrTruncated

// ErrMalformed means that an encoding is not what Append writes: a field of
// another type, dots out of order, bytes left over, or live dots that the
// context does not cover.
var ErrMalformed = canonical.ErrMalformed

// KindError reports a value of one kind where another kind was expected.
type KindError struct {
	Want, Got Kind
}

func (e *KindError) Error() string {
	return fmt.Sprintf("crdt: a value of kind %v where %v is due", e.Got, e.Want)
}

// LimitError reports an encoding that declares more than its field may hold, or more than
// the following bytes could hold.
type LimitError struct {
	Field    string
	Declared uint64
	Max      uint64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("crdt: %s declares %d, at most %d fit", e.Field, e.Declared, e.Max)
}

// SkewError reports a remote timestamp that is further ahead of the local clock than the
// limit allows. Accepting it would pin the value until the local clock catches up.
type SkewError struct {
	AheadMillis uint64
	MaxMillis   uint64
}

func (e *SkewError) Error() string {
	return fmt.Sprintf("crdt: timestamp is %d ms ahead of the local clock, at most %d ms are taken", e.AheadMillis, e.MaxMillis)
}

// mismatch is the error of joining v with a value of another type, or with none.
func mismatch(v, other Value) error {
	if other == nil {
		return &KindError{Want: v.Kind()}
	}
	return &KindError{Want: v.Kind(), Got: other.Kind()}
}

// SaltedDigest returns a hash of the canonical encoding of v under a salt. It
// costs as much as encoding v. Two values with equal digests and unequal content,
// one pair in 2^64, can be distinguished by comparing salted digests from time to time.
func SaltedDigest(v Value, salt uint64) uint64 { return xxh3.HashSeed(v.Append(nil), salt) }
