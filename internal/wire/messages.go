package wire

import (
	"errors"
	"sync"
)

// coders keeps idle Coders: Code takes a pointer through an interface, so each Coder would
// be an allocation.
var coders = sync.Pool{New: func() any { return new(Coder) }}

// Messages are the messages of one protocol, which share the interface M. The frame of a
// message is its kind, one byte, and its fields.
type Messages[M any] struct {
	// Kind returns the kind of a message.
	Kind func(M) byte
	// Code codes the fields of a message.
	Code func(M, *Coder)
	// New has a function for each kind that returns a blank message; nil for numbers that are
	// no kinds.
	New []func() M
	// Version is the wire version that Append and Decode have, for tests: Newest if it is 0.
	Version uint16
}

// ErrUnknownKind means that a frame is of a kind that this version does not have. A node of a
// later version has sent it: the receiver counts and ignores it.
var ErrUnknownKind = errors.New("wire: message of an unknown kind")

// Append appends the frame of m to b. It never fails: Decode rejects a message beyond its
// bounds.
func (s *Messages[M]) Append(b []byte, m M) []byte {
	c := coders.Get().(*Coder)
	*c = Coder{out: append(b, s.Kind(m)), writing: true, version: s.Version}
	s.Code(m, c)
	b = c.out
	c.recycle()
	return b
}

// recycle returns the Coder to the pool, without the frame.
func (c *Coder) recycle() {
	*c = Coder{}
	coders.Put(c)
}

// Decode reads one frame. It fails with ErrUnknownKind on an unknown kind. It skips bytes
// behind the last field: fields of later versions.
func (s *Messages[M]) Decode(frame []byte) (M, error) {
	c := coders.Get().(*Coder)
	defer c.recycle()
	*c = Coder{in: Reader{buf: frame}, version: s.Version}
	var none M
	kind := c.in.Byte()
	switch {
	case c.in.err != nil:
		return none, c.in.err
	case !s.Has(kind):
		return none, ErrUnknownKind
	}
	m := s.New[kind]()
	if s.Code(m, c); c.in.err != nil {
		return none, c.in.err
	}
	return m, nil
}

// Has reports whether kind is the kind of a message.
func (s *Messages[M]) Has(kind byte) bool { return int(kind) < len(s.New) && s.New[kind] != nil }
