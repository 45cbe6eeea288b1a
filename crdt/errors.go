package crdt

import (
	"errors"
	"fmt"
)

// ErrTruncated means that an encoding ends inside a field.
var ErrTruncated = errors.New("crdt: truncated encoding")

// ErrMalformed means that an encoding is not what Append writes: a field of
// another type, dots out of order, bytes left over, or live dots that the
// context does not cover.
var ErrMalformed = errors.New("crdt: malformed encoding")

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
