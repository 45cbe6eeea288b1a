package shared

import "slices"

// Leaves is a long sequence, cut into slices that copies of a value share until one of
// them changes. A copy costs the list of the leaves, a later change one leaf, whatever the
// size of the value: so a reader can be given a state of a value that goes on changing.
//
// Tried and rejected: a tree with a token per leaf, whose copy costs nothing. Every access
// pays for its depth, and the list of 100,000 elements takes 10 kB.
//
// Invariant: a leaf that is shared is never written.
type Leaves[T any] struct {
	List   [][]T
	shared []bool // of the first leaves; those beyond are not shared
}

// DetachLeaf returns leaf i for writing.
func (l *Leaves[T]) DetachLeaf(i int) []T {
	if i < len(l.shared) && l.shared[i] {
		l.copyLeaf(i)
	}
	return l.List[i]
}

func (l *Leaves[T]) copyLeaf(i int) {
	old := l.List[i]
	l.List[i] = append(make([]T, 0, cap(old)), old...)
	l.shared[i] = false
}

// AppendElement appends an element, in a new leaf of leafLen elements if the last one is
// full. Only the first leaf starts small.
func (l *Leaves[T]) AppendElement(e T, leafLen int) {
	last := len(l.List) - 1
	if last < 0 || len(l.List[last]) == leafLen {
		var leaf []T
		if last++; last > 0 {
			leaf = make([]T, 0, leafLen)
		}
		l.List = append(l.List, leaf)
	}
	l.List[last] = append(l.DetachLeaf(last), e)
}

// ShareAll returns a copy, and marks all leaves as shared.
func (l *Leaves[T]) ShareAll() Leaves[T] {
	if len(l.List) == 0 {
		return Leaves[T]{}
	}
	all := slices.Repeat([]bool{true}, len(l.List))
	l.shared = slices.Clone(all)
	return Leaves[T]{slices.Clone(l.List), all}
}
