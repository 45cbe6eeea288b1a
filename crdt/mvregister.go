package crdt

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
	return &MVRegister[V]{*r.set.replace(node, v, r.set.Elements()...)}
}

// Clear takes out all values and returns the delta, or nil if there are none.
func (r *MVRegister[V]) Clear() *MVRegister[V] {
	if d := r.set.erase(r.set.Elements()...); d != nil {
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
