package crdt

import "strconv"

// NodeID is one incarnation of a writer. Whoever starts again takes a new one:
// identities are never reused, or dots would be.
type NodeID uint64

// Kind names a data type on the wire. The numbers never change.
type Kind uint8

const (
	KindGCounter Kind = iota + 1
	KindPNCounter
	KindGSet
	KindFlag
	KindLWWRegister
	KindMVRegister
	KindORSet
	KindLWWMap
	KindORMap
	KindORMultiMap
	KindPNCounterMap
	KindVersionVector
)

var kindNames = [...]string{
	KindGCounter: "GCounter", KindPNCounter: "PNCounter", KindGSet: "GSet", KindFlag: "Flag",
	KindLWWRegister: "LWWRegister", KindMVRegister: "MVRegister", KindORSet: "ORSet",
	KindLWWMap: "LWWMap", KindORMap: "ORMap", KindORMultiMap: "ORMultiMap",
	KindPNCounterMap: "PNCounterMap", KindVersionVector: "VersionVector",
}

// String returns the name of the data type, for example "ORSet"; "none" for 0, and the
// number of a kind that this version does not have.
func (k Kind) String() string {
	switch {
	case k == 0:
		return "none"
	case int(k) < len(kindNames):
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// Value is a replicated value, or a delta of one: both are of the same type. The
// replicator handles every data type through this interface and never looks
// inside. A Value has a single owner and is not safe for concurrent use.
type Value interface {
	// Kind returns the data type.
	Kind() Kind
	// Join merges other into the receiver and reports whether that changed it.
	// Other is left as it was and shares no memory with the receiver afterwards.
	// It fails, and changes nothing, with *KindError when other is of another type
	// and with *LimitError when it would bring more than a million writers together.
	Join(other Value) (changed bool, err error)
	// Clone returns a copy that shares no memory with the receiver.
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
