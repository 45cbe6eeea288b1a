package crdt

import (
	"cmp"
	"maps"
	"slices"
)

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

// keyed is an index by key that copies of a value share, with the changes since the newest
// copy. A copy costs nothing. The first change after it costs the number of changes, a later
// one the content of one key, and after changesMin changes or more the whole list of keys.
//
// Several goroutines may read an index, and meanwhile one may make a copy of it.
//
// Invariant: base is never written; an entry of changed hides that of base. len is the
// number of keys.
type keyed[K comparable, C any] struct {
	base, changed map[K]entryOf[C]
	len, order    int
	// Readers do not use the rest. common: copies share changed. epoch is above that of all
	// entries whose content a copy shares.
	common bool
	epoch  int
}

// entryOf is the content under one key.
type entryOf[C any] struct {
	content C
	order   int  // of the keys, by insertion
	gone    bool // no content
	epoch   int  // of the index at the latest change
}

// changesMin is how many keys may change before the first change after a copy joins them with
// the base; of many keys, one in changesPart.
const (
	changesMin  = 64
	changesPart = 128
)

func newKeyed[K comparable, C any]() *keyed[K, C] {
	return &keyed[K, C]{changed: make(map[K]entryOf[C])}
}

func (x *keyed[K, C]) findEntry(k K) (e entryOf[C], ok bool) {
	if e, ok = x.changed[k]; !ok {
		e, ok = x.base[k]
	}
	return e, ok && !e.gone
}

// getContent returns the content under k for reading.
func (x *keyed[K, C]) getContent(k K) (C, bool) {
	e, ok := x.findEntry(k)
	return e.content, ok
}

// editContent returns the content under k for writing. It calls detach if a copy shares it.
func (x *keyed[K, C]) editContent(k K, detach func(C) C) (C, bool) {
	e, ok := x.findEntry(k)
	if ok && (x.common || e.epoch < x.epoch) {
		x.detachChanges()
		e.content, e.epoch = detach(e.content), x.epoch
		x.changed[k] = e
	}
	return e.content, ok
}

// putContent stores content that no copy shares.
func (x *keyed[K, C]) putContent(k K, content C) {
	e, ok := x.findEntry(k)
	if !ok {
		x.order++
		x.len++
		e.order = x.order
	}
	x.detachChanges()
	x.changed[k] = entryOf[C]{content: content, order: e.order, epoch: x.epoch}
}

// dropKey ends a key, which must be there.
func (x *keyed[K, C]) dropKey(k K) {
	x.detachChanges()
	x.len--
	if _, ok := x.base[k]; ok {
		x.changed[k] = entryOf[C]{gone: true}
	} else {
		delete(x.changed, k)
	}
}

// keys returns the keys in the order of their insertion.
func (x *keyed[K, C]) keys() []K {
	type ordered struct {
		key   K
		order int
	}
	all := make([]ordered, 0, x.len)
	for k, e := range x.changed { // order-free: sorted below
		if !e.gone {
			all = append(all, ordered{k, e.order})
		}
	}
	for k, e := range x.base { // order-free: sorted below
		if _, hidden := x.changed[k]; !hidden {
			all = append(all, ordered{k, e.order})
		}
	}
	slices.SortFunc(all, func(a, b ordered) int { return cmp.Compare(a.order, b.order) })
	out := make([]K, len(all))
	for i := range all {
		out[i] = all[i].key
	}
	return out
}

// shareIndex returns a copy. Both share all contents from now on.
func (x *keyed[K, C]) shareIndex() *keyed[K, C] {
	x.common = true
	x.epoch++
	c := *x
	return &c
}

// detachChanges makes changed the index's own, before it is written.
func (x *keyed[K, C]) detachChanges() {
	switch {
	case !x.common:
	case len(x.base) == 0:
		x.base, x.changed = x.changed, make(map[K]entryOf[C])
	case len(x.changed) > max(changesMin, x.len/changesPart):
		x.joinChanges()
	default:
		x.changed = maps.Clone(x.changed)
	}
	x.common = false
}

// joinChanges makes a base of all keys.
func (x *keyed[K, C]) joinChanges() {
	base := make(map[K]entryOf[C], x.len)
	maps.Copy(base, x.base)
	for k, e := range x.changed { // order-free: each entry by itself
		if e.gone {
			delete(base, k)
		} else {
			base[k] = e
		}
	}
	x.base, x.changed = base, make(map[K]entryOf[C])
}
