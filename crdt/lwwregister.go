package crdt

import "bytes"

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

func (r *LWWRegister[V]) element() *element[V] {
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
	r.put(v, stamp)
	return r.Clone().(*LWWRegister[V])
}

func (r *LWWRegister[V]) put(v V, stamp Stamp) {
	r.val, r.stamp = r.element().ownedCopy(v), stamp
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
		codec := r.element().codec
		c = bytes.Compare(codec.Append(nil, other.val), codec.Append(nil, r.val))
	}
	if c > 0 {
		r.put(other.val, other.stamp)
	}
	return c > 0
}

// Kind implements Value.
func (r *LWWRegister[V]) Kind() Kind {
	if r == nil {
		return KindLWWRegister
	}
	return KindLWWRegister.with(r.element().of)
}

// Join implements Value.
func (r *LWWRegister[V]) Join(other Value) (bool, error) {
	o, ok := other.(*LWWRegister[V])
	if !ok || o != nil && o.element().of != r.element().of {
		return false, mismatch(r, other)
	}
	return r.Merge(o), nil
}

// Clone implements Value.
func (r *LWWRegister[V]) Clone() Value {
	c := *r
	if c.stamp != (Stamp{}) {
		c.val = c.element().ownedCopy(c.val)
	}
	return &c
}

// Digest implements Value.
func (r *LWWRegister[V]) Digest() uint64 { return r.sum }

// Append implements Value: [kind, time, node, seq, value], without the value if
// there is none.
func (r *LWWRegister[V]) Append(b []byte) []byte {
	if r.stamp == (Stamp{}) {
		return appendUint(appendArrayLen(b, 1), uint64(r.Kind()))
	}
	b = appendUint(appendArrayLen(b, 5), uint64(r.Kind()))
	b = appendUint(appendUint(appendUint(b, r.stamp.Time), uint64(r.stamp.Node)), r.stamp.Seq)
	return r.element().codec.Append(b, r.val)
}

// Size implements Value.
func (r *LWWRegister[V]) Size() int {
	_, n := r.element().hashAndSize(r.val)
	return n + 2 + uintSize(r.stamp.Time) + uintSize(uint64(r.stamp.Node)) + uintSize(r.stamp.Seq)
}

// Decode replaces r with an encoded register. On error it is left as it was.
func (r *LWWRegister[V]) Decode(b []byte) error {
	in := &reader{b: b}
	n := in.arrayLen("register", 1)
	readKind(in, r.Kind())
	c := LWWRegister[V]{elem: r.element()}
	switch {
	case n == 5:
		stamp := Stamp{Time: in.uint(), Node: NodeID(in.uint()), Seq: in.uint()}
		v := c.elem.read(in)
		if in.err == nil && stamp == (Stamp{}) {
			in.fail(ErrMalformed)
		}
		if in.err == nil {
			c.put(v, stamp)
		}
	case n != 1:
		in.fail(ErrMalformed)
	}
	if err := in.done(); err != nil {
		return err
	}
	*r = c
	return nil
}
