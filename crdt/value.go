package crdt

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
