package crdt

import "iter"

// The abilities of values that package internal/core/replication uses.
type (
	causalValue interface {
		Value
		Context() *Context
		Claims() iter.Seq2[NodeID, uint64]
	}
	gatherable interface {
		Value
		Loose(dead func(NodeID) bool, most int) []NodeID
		Shares(of func(NodeID) bool) Garbage
		Gather(of func(NodeID) bool) bool
	}
	partialValue interface {
		Value
		Grain() uint8
		PartSums(n int, grain uint8) []uint64
		Part(want []bool, grain uint8) Value
	}
	prunable interface {
		Value
		Garbage(dead func(NodeID) bool) Garbage
		Prune(agreed Garbage, dead func(NodeID) bool) bool
	}
	foldable interface {
		prunable
		Fold(dead, heir NodeID) Value
	}
)
