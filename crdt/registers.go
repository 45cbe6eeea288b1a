package crdt

import (
	"bytes"
	"iter"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// LWWRegister holds one value; the newest stamp wins. Concurrent operations give:
//
//	Set(a, 5) | Set(b, 7)   b
//	Set(a, 7) | Set(b, 7)   a writer's mistake; the same side wins everywhere
//
// The zero LWWRegister is empty and ready to use, with DefaultCodec. It is not safe
// for concurrent use.
type LWWRegister[V any] struct {
	elem  *element[V]
	val   V
	stamp Stamp // zero: the register is empty
	sum   uint64
}

// NewLWWRegister returns an empty register with a codec of the caller's.
func NewLWWRegister[V any](c Codec[V]) *LWWRegister[V] {
	return &LWWRegister[V]{elem: elementWith(c)}
}

func (r *LWWRegister[V]) elementType() *element[V] {
	if r.elem == nil {
		r.elem = elementOf[V]()
	}
	return r.elem
}

// Set gives the register the value v under a stamp and returns the delta, or nil
// if it has that stamp or a newer one. V is copied if it holds memory that the
// caller could change.
func (r *LWWRegister[V]) Set(v V, stamp Stamp) *LWWRegister[V] {
	if stamp.Compare(r.stamp) <= 0 {
		return nil
	}
	r.setValue(v, stamp)
	return r.Clone().(*LWWRegister[V])
}

func (r *LWWRegister[V]) setValue(v V, stamp Stamp) {
	r.val, r.stamp = r.elementType().ownedCopy(v), stamp
	h, _ := r.elem.hashAndSize(r.val)
	r.sum = mix(h, stampHash(stamp))
}

// Value returns the value. It must not be changed if it holds memory.
func (r *LWWRegister[V]) Value() (v V, ok bool) { return r.val, r.stamp != Stamp{} }

// Stamp returns the stamp of the value; it is zero if there is none.
func (r *LWWRegister[V]) Stamp() Stamp { return r.stamp }

// Newest returns the stamp of the value.
func (r *LWWRegister[V]) Newest() Stamp { return r.stamp }

// Merge joins other into r and reports whether that changed it. Other may be nil.
func (r *LWWRegister[V]) Merge(other *LWWRegister[V]) bool {
	if other == nil || other == r || other.stamp == (Stamp{}) {
		return false
	}
	c := other.stamp.Compare(r.stamp)
	if c == 0 {
		codec := r.elementType().codec
		c = bytes.Compare(codec.Append(nil, other.val), codec.Append(nil, r.val))
	}
	if c > 0 {
		r.setValue(other.val, other.stamp)
	}
	return c > 0
}

// Kind implements Value.
func (r *LWWRegister[V]) Kind() Kind {
	if r == nil {
		return KindLWWRegister
	}
	return KindLWWRegister.with(r.elementType().of)
}

// Join implements Value.
func (r *LWWRegister[V]) Join(other Value) (bool, error) {
	o, ok := other.(*LWWRegister[V])
	if !ok || o != nil && o.elementType().of != r.elementType().of {
		return false, mismatch(r, other)
	}
	return r.Merge(o), nil
}

// Clone implements Value.
func (r *LWWRegister[V]) Clone() Value {
	c := *r
	if c.stamp != (Stamp{}) {
		c.val = c.elementType().ownedCopy(c.val)
	}
	return &c
}

// Digest implements Value.
func (r *LWWRegister[V]) Digest() uint64 { return r.sum }

// Append implements Value: [kind, time, node, seq, value], without the value if
// there is none.
func (r *LWWRegister[V]) Append(b []byte) []byte {
	if r.stamp == (Stamp{}) {
		return canonical.AppendUint(canonical.AppendArrayLen(b, 1), uint64(r.Kind()))
	}
	b = canonical.AppendUint(canonical.AppendArrayLen(b, 5), uint64(r.Kind()))
	b = canonical.AppendUint(canonical.AppendUint(canonical.AppendUint(b, r.stamp.Time), uint64(r.stamp.Node)), r.stamp.Seq)
	return r.elementType().codec.Append(b, r.val)
}

// Size implements Value.
func (r *LWWRegister[V]) Size() int {
	_, n := r.elementType().hashAndSize(r.val)
	return n + 2 + canonical.UintSize(r.stamp.Time) + canonical.UintSize(uint64(r.stamp.Node)) + canonical.UintSize(r.stamp.Seq)
}

// Decode replaces r with an encoded register. On error it is left as it was.
func (r *LWWRegister[V]) Decode(b []byte) error {
	in := &reader{canonical.Reader{B: b}}
	n := in.arrayLen("register", 1)
	readKind(in, r.Kind())
	c := LWWRegister[V]{elem: r.elementType()}
	switch {
	case n == 5:
		stamp := Stamp{Time: in.Uint(), Node: NodeID(in.Uint()), Seq: in.Uint()}
		v := c.elem.decodeElement(in)
		if in.Err == nil && stamp == (Stamp{}) {
			in.Fail(ErrMalformed)
		}
		if in.Err == nil {
			c.setValue(v, stamp)
		}
	case n != 1:
		in.Fail(ErrMalformed)
	}
	if err := in.Done(); err != nil {
		return err
	}
	*r = c
	return nil
}

// MVRegister holds a value, or several when writers set it at the same time: it
// loses no write, and leaves it to the reader to choose. Concurrent operations give:
//
//	Set(a) | Set(b)   both a and b, until the next Set, which replaces both
//	Set(a) | Clear    a
//	Clear | Clear     nothing
//
// The zero MVRegister is empty and ready to use, with DefaultCodec. It is not safe
// for concurrent use.
type MVRegister[V comparable] struct{ set ORSet[V] }

// NewMVRegister returns an empty register with a codec of the caller's.
func NewMVRegister[V comparable](c Codec[V]) *MVRegister[V] {
	return &MVRegister[V]{*NewORSet(c)}
}

// Set replaces all values that are there with v, as a change made by node, and
// returns the delta. Only the incarnation node itself may call it.
func (r *MVRegister[V]) Set(node NodeID, v V) *MVRegister[V] {
	return &MVRegister[V]{*r.set.replaceElements(node, v, r.set.Elements()...)}
}

// Clear takes out all values and returns the delta, or nil if there are none.
func (r *MVRegister[V]) Clear() *MVRegister[V] {
	if d := r.set.eraseElements(r.set.Elements()...); d != nil {
		return &MVRegister[V]{*d}
	}
	return nil
}

// Values returns a copy of the values, in no particular order: none, one, or those
// that were set at the same time.
func (r *MVRegister[V]) Values() []V { return r.set.Elements() }

// Len returns the number of values.
func (r *MVRegister[V]) Len() int { return r.set.Len() }

// Merge joins other into r and reports whether that changed anything. The values
// that came and went are added to ch, if that is not nil. Other may be nil.
func (r *MVRegister[V]) Merge(other *MVRegister[V], ch *Changes[V]) bool {
	return other != nil && r.set.Merge(&other.set, ch)
}

// Context returns a copy of the causal context.
func (r *MVRegister[V]) Context() *Context { return r.set.Context() }

// Kind implements Value.
func (r *MVRegister[V]) Kind() Kind {
	if r == nil {
		return KindMVRegister
	}
	return r.set.kindAs(KindMVRegister)
}

// Join implements Value.
func (r *MVRegister[V]) Join(other Value) (bool, error) {
	o, ok := other.(*MVRegister[V])
	if !ok || o != nil && !r.set.fits(&o.set) {
		return false, mismatch(r, other)
	}
	if o == nil {
		return false, nil
	}
	return r.set.joinWith(&o.set, func() bool { return r.Merge(o, nil) })
}

// Clone implements Value.
func (r *MVRegister[V]) Clone() Value { return &MVRegister[V]{r.set.copy()} }

// Digest implements Value.
func (r *MVRegister[V]) Digest() uint64 { return r.set.Digest() }

// Append implements Value.
func (r *MVRegister[V]) Append(b []byte) []byte { return r.set.appendAs(b, r.Kind()) }

// Size implements Value.
func (r *MVRegister[V]) Size() int { return r.set.Size() }

// Decode replaces r with an encoded register. On error it is left as it was.
func (r *MVRegister[V]) Decode(b []byte) error { return r.set.decodeAs(b, r.Kind()) }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (r *MVRegister[V]) Claims() iter.Seq2[NodeID, uint64] { return r.set.Claims() }
