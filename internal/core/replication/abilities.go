package replication

import (
	"iter"

	"github.com/peerage-go/peerage/crdt"
)

// The interfaces that follow are the abilities of values that the core uses.

// causalValue has a causal context: all but the counters, GSet, the last-writer-wins types
// and VersionVector.
type causalValue interface {
	crdt.Value
	// Claims yields the writers in the context, in no particular order, each with its
	// highest sequence number in the context. It costs next to nothing, and may yield a
	// writer more than once. A process that finds a higher number for itself than it has
	// used shares its NodeID with another process, has come back with an old state, or has
	// received a damaged value: after a join it continues above that number.
	Claims() iter.Seq2[crdt.NodeID, uint64]
}

// gatherableValue has counters under keys: PNCounterMap and ORMap.
type gatherableValue interface {
	crdt.Value
	// Loose returns some of the dead writers whose shares stand beside each other under a
	// key, in order. It returns at most most of them (at least 2), or none.
	Loose(dead func(crdt.NodeID) bool, most int) []crdt.NodeID
	// Shares returns the shares of these writers as one number for comparison, and in Items
	// how many of them Gather would end.
	Shares(of func(crdt.NodeID) bool) crdt.Garbage
	// Gather merges the shares of these writers, one per counter, and reports whether there
	// were any. The content does not change, the digest does. At all replicas Shares must
	// have been equal, for the same writers. Nothing from before may arrive after it.
	Gather(of func(crdt.NodeID) bool) bool
}

// partialValue has many elements that can be compared, and sent, in parts. Its methods read
// the whole value, and leave it unchanged.
type partialValue interface {
	crdt.Value
	// Grain returns how finely to divide the value. Both sides must use the same grain.
	Grain() uint8
	// PartSums returns hashes of the value's n parts; parts with equal hashes are equal. It
	// returns nil if the value is too large to be divided so finely.
	PartSums(n int, grain uint8) []uint64
	// Part returns the content of the parts for which want is true, out of len(want), as a
	// value; an empty value if want is empty. It shares no memory with this one.
	Part(want []bool, grain uint8) crdt.Value
}

// prunableValue holds more than its content. All types except GSet and LWWRegister are prunable.
type prunableValue interface {
	crdt.Value
	// Garbage returns the garbage of the value if the writers for which dead returns true
	// are gone for good.
	Garbage(dead func(crdt.NodeID) bool) crdt.Garbage
	// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
	// reports whether it did. The content does not change, but the digest does.
	Prune(agreed crdt.Garbage, dead func(crdt.NodeID) bool) bool
}

// counter is a prunableValue with shares of writers. Shares of dead writers must be moved
// to a live writer before pruning.
type counter interface {
	prunableValue
	Writers() []crdt.NodeID
	// Fold moves the share of a dead writer to heir, as a change made by heir, and returns
	// the delta, or nil if there is nothing to move. The content does not change. Only the
	// incarnation heir itself may call it. Two concurrent heirs do no harm, but keep the
	// entry from ever being pruned: let one member fold.
	Fold(dead, heir crdt.NodeID) crdt.Value
}

// stampedValue has an order by stamps.
type stampedValue interface {
	crdt.Value
	// Newest returns the greatest stamp in the value, or the zero Stamp.
	Newest() crdt.Stamp
}
