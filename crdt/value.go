package crdt

// NodeID is one incarnation of a writer. Whoever starts again takes a new one:
// identities are never reused, or dots would be.
type NodeID uint64

// Value is a replicated value, or a delta of one: both are of the same type. The
// replicator handles every data type through this interface and never looks
// inside. A Value has a single owner and is not safe for concurrent use.
type Value interface {
	// Kind returns the data type, and the kinds of its elements.
	Kind() Kind
	// Join merges other into the receiver and reports whether that changed it.
	// Other is left as it was and shares no memory with the receiver afterwards.
	// It fails, and changes nothing, with *KindError when other is of another type
	// and with *LimitError when it would bring more than a million writers together.
	Join(other Value) (changed bool, err error)
	// Clone returns a copy: changes of one never show in the other. Large values share
	// the memory of what has not changed since, so a copy costs little. Clone counts as
	// a change of the receiver for concurrent use, but readers of it may go on.
	Clone() Value
	// Digest returns a hash of the content that does not depend on how the content
	// came about: equal values have equal digests. It is kept up to date by every
	// change, so asking costs nothing.
	Digest() uint64
	// Append appends the canonical encoding: equal values give equal bytes.
	Append(b []byte) []byte
	// Size returns about how many bytes Append would write.
	Size() int
}
