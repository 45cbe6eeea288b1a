package evict

import (
	"errors"
	"fmt"
)

// Kind names a strategy.
type Kind uint8

const (
	// LRU gives up the one that was used longest ago. It suits most loads.
	LRU Kind = iota
	// SegmentedLRU keeps what was used once apart from what was used again: a scan of
	// many ids does not push out what is in steady use.
	SegmentedLRU
	// MRU gives up the one used most recently before the newest: for loads that go
	// round in circles.
	MRU
	// LFU gives up the one used least often, the older one of two. Who is new takes the
	// place of another at first.
	LFU
	// TinyLFU lets what is new stay in a small window, and into the main area only
	// if it is in greater demand than the one that would have to go. It suits
	// mixed loads best and costs most: a sketch of 8 to 16 bytes for each place, of the
	// first four million.
	TinyLFU
	kinds
)

// Spec chooses a strategy. The zero Spec is LRU.
type Spec struct {
	Kind Kind
	// Levels are the shares of SegmentedLRU's levels, and of those in TinyLFU's main
	// area, lowest first; together at most 1, and the lowest gets what is left. nil
	// means 0.2 and 0.8.
	Levels []float64
	// Aging makes LFU forget: who is new starts with the count of the one that went
	// last, so that what was busy long ago does not stay for ever.
	Aging bool
}

// levelsMax bounds Spec.Levels.
const levelsMax = 16

// Validate reports what is wrong.
func (s Spec) Validate() error {
	if s.Kind >= kinds {
		return fmt.Errorf("unknown strategy %d", s.Kind)
	}
	sum := 0.0
	for _, l := range s.Levels {
		if !(l >= 0) {
			return errors.New("shares of levels must not be negative")
		}
		sum += l
	}
	if sum > 1.0001 || len(s.Levels) > levelsMax {
		return fmt.Errorf("at most %d levels with shares of at most 1 together, are %d with %v", levelsMax, len(s.Levels), sum)
	}
	return nil
}

// Node is the place of one value in a Policy. It is in one Policy at a time.
type Node[V any] struct {
	Value V
	// Hash is the value's key, well mixed; TinyLFU needs it.
	Hash uint64

	prev, next *Node[V]
	// in is the list that it stands in.
	in *list[V]
	// level is that of SegmentedLRU.
	level uint8
	// bucket is that of LFU.
	bucket *bucket[V]
}

// Policy orders nodes by how much they deserve to stay. It never gives up any by
// itself: the owner calls Evict while Len is above its limit.
type Policy[V any] interface {
	// Add takes a node that is not in.
	Add(n *Node[V])
	// Touch notes a use of a node that is in.
	Touch(n *Node[V])
	// Remove takes a node out.
	Remove(n *Node[V])
	// Evict takes out the node that deserves least to stay; nil if there is none.
	Evict() *Node[V]
	// Len returns how many are in.
	Len() int
	// Resize tells a new limit; it takes nobody out.
	Resize(limit int)
}

// New returns an empty Policy for a limit of at least 1. The Spec is valid.
func New[V any](s Spec, limit int) Policy[V] {
	switch s.Kind {
	case SegmentedLRU:
		return newSegmented[V](s.Levels, limit)
	case MRU:
		return &recency[V]{newest: true}
	case LFU:
		return &frequency[V]{aging: s.Aging}
	case TinyLFU:
		return newTiny[V](s.Levels, limit)
	}
	return &recency[V]{}
}

// recency is LRU, or MRU.
type recency[V any] struct {
	list   list[V]
	newest bool
}

func (r *recency[V]) Add(n *Node[V])    { r.list.pushFront(n) }
func (r *recency[V]) Touch(n *Node[V])  { r.list.remove(n); r.list.pushFront(n) }
func (r *recency[V]) Remove(n *Node[V]) { r.list.remove(n) }
func (r *recency[V]) Len() int          { return r.list.len }
func (r *recency[V]) Resize(int)        {}

func (r *recency[V]) Evict() *Node[V] {
	n := r.list.back
	if r.newest && r.list.len > 1 {
		n = r.list.front.next
	}
	if n != nil {
		r.list.remove(n)
	}
	return n
}
