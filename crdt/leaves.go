package crdt

import "slices"

// leaves is a long sequence, cut into slices that copies of a value share until one of
// them changes. A copy costs the list of the leaves, a later change one leaf, whatever the
// size of the value: so a reader can be given a state of a value that goes on changing.
//
// Tried and rejected: a tree with a token per leaf, whose copy costs nothing. Every access
// pays for its depth, and the list of 100,000 elements takes 10 kB.
//
// Invariant: a leaf that is shared is never written.
type leaves[T any] struct {
	list   [][]T
	shared []bool // of the first leaves; those beyond are not shared
}

// detachLeaf returns leaf i for writing.
func (l *leaves[T]) detachLeaf(i int) []T {
	if i < len(l.shared) && l.shared[i] {
		l.copyLeaf(i)
	}
	return l.list[i]
}

func (l *leaves[T]) copyLeaf(i int) {
	old := l.list[i]
	l.list[i] = append(make([]T, 0, cap(old)), old...)
	l.shared[i] = false
}

// appendElement appends an element, in a new leaf of leafLen elements if the last one is
// full. Only the first leaf starts small.
func (l *leaves[T]) appendElement(e T, leafLen int) {
	last := len(l.list) - 1
	if last < 0 || len(l.list[last]) == leafLen {
		var leaf []T
		if last++; last > 0 {
			leaf = make([]T, 0, leafLen)
		}
		l.list = append(l.list, leaf)
	}
	l.list[last] = append(l.detachLeaf(last), e)
}

// shareAll returns a copy, and marks all leaves as shared.
func (l *leaves[T]) shareAll() leaves[T] {
	if len(l.list) == 0 {
		return leaves[T]{}
	}
	all := slices.Repeat([]bool{true}, len(l.list))
	l.shared = slices.Clone(all)
	return leaves[T]{slices.Clone(l.list), all}
}
