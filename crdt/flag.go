package crdt

import (
	"iter"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// Flag can be switched on and off; switching on wins. Concurrent operations give:
//
//	Enable | Enable    on
//	Enable | Disable   on: a disable undoes only the enables it has seen
//	Disable | Disable  off
//
// The zero Flag is off and ready to use. It is not safe for concurrent use.
type Flag struct{ set ORSet[unit] }

// unit is the one element of a flag.
type unit struct{}

type unitCodec struct{}

func (unitCodec) Append(b []byte, _ unit) []byte { return append(b, canonical.True) }

func (unitCodec) elementKinds() uint8 { return 0 }

func (unitCodec) Decode(b []byte) (unit, int, error) {
	on, n, err := boolCodec{}.Decode(b)
	if err == nil && !on {
		err = ErrMalformed
	}
	return unit{}, n, err
}

// asSet returns the set that holds the value, and makes it ready for use.
func (f *Flag) asSet() *ORSet[unit] {
	if f.set.elem == nil {
		f.set.elem = elementWith[unit](unitCodec{})
	}
	return &f.set
}

// Enable switches the flag on, as a change made by node, and returns the delta.
// Only the incarnation node itself may call it.
func (f *Flag) Enable(node NodeID) *Flag { return &Flag{*f.asSet().Add(node, unit{})} }

// Disable switches the flag off and returns the delta, or nil if it is off.
func (f *Flag) Disable() *Flag {
	if d := f.asSet().Remove(unit{}); d != nil {
		return &Flag{*d}
	}
	return nil
}

// Enabled reports whether the flag is on.
func (f *Flag) Enabled() bool { return f.set.Len() > 0 }

// Merge joins other into f and reports whether that changed anything. Other may be
// nil.
func (f *Flag) Merge(other *Flag) bool {
	return other != nil && f.asSet().Merge(other.asSet(), nil)
}

// Context returns a copy of the causal context.
func (f *Flag) Context() *Context { return f.asSet().Context() }

// Kind implements Value.
func (f *Flag) Kind() Kind { return KindFlag }

// Join implements Value.
func (f *Flag) Join(other Value) (bool, error) {
	o, ok := other.(*Flag)
	if !ok {
		return false, mismatch(f, other)
	}
	if o == nil {
		return false, nil
	}
	return f.set.joinWith(&o.set, func() bool { return f.Merge(o) })
}

// Clone implements Value.
func (f *Flag) Clone() Value { return &Flag{f.asSet().copy()} }

// Digest implements Value.
func (f *Flag) Digest() uint64 { return f.asSet().Digest() }

// Append implements Value.
func (f *Flag) Append(b []byte) []byte { return f.asSet().appendAs(b, KindFlag) }

// Size implements Value.
func (f *Flag) Size() int { return f.asSet().Size() }

// Decode replaces f with an encoded flag. On error it is left as it was.
func (f *Flag) Decode(b []byte) error { return f.asSet().decodeAs(b, KindFlag) }

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (f *Flag) Claims() iter.Seq2[NodeID, uint64] { return f.set.Claims() }
