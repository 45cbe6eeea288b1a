package shared

import (
	"cmp"
	"maps"
	"slices"
)

// Keyed is an index by key that copies of a value share, with the changes since the newest
// copy. A copy costs nothing. The first change after it costs the number of changes, a later
// one the content of one key, and after changesMin changes or more the whole list of keys.
//
// Several goroutines may read an index, and meanwhile one may make a copy of it.
//
// Invariant: base is never written; an entry of changed hides that of base. len is the
// number of keys.
type Keyed[K comparable, C any] struct {
	base, changed map[K]entryOf[C]
	Len, order    int
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

// NewKeyed returns an empty index.
func NewKeyed[K comparable, C any]() *Keyed[K, C] {
	return &Keyed[K, C]{changed: make(map[K]entryOf[C])}
}

func (x *Keyed[K, C]) findEntry(k K) (e entryOf[C], ok bool) {
	if e, ok = x.changed[k]; !ok {
		e, ok = x.base[k]
	}
	return e, ok && !e.gone
}

// GetContent returns the content under k for reading.
func (x *Keyed[K, C]) GetContent(k K) (C, bool) {
	e, ok := x.findEntry(k)
	return e.content, ok
}

// EditContent returns the content under k for writing. It calls detach if a copy shares it.
func (x *Keyed[K, C]) EditContent(k K, detach func(C) C) (C, bool) {
	e, ok := x.findEntry(k)
	if ok && (x.common || e.epoch < x.epoch) {
		x.detachChanges()
		e.content, e.epoch = detach(e.content), x.epoch
		x.changed[k] = e
	}
	return e.content, ok
}

// PutContent stores content that no copy shares.
func (x *Keyed[K, C]) PutContent(k K, content C) {
	e, ok := x.findEntry(k)
	if !ok {
		x.order++
		x.Len++
		e.order = x.order
	}
	x.detachChanges()
	x.changed[k] = entryOf[C]{content: content, order: e.order, epoch: x.epoch}
}

// DropKey ends a key, which must be there.
func (x *Keyed[K, C]) DropKey(k K) {
	x.detachChanges()
	x.Len--
	if _, ok := x.base[k]; ok {
		x.changed[k] = entryOf[C]{gone: true}
	} else {
		delete(x.changed, k)
	}
}

// Keys returns the keys in the order of their insertion.
func (x *Keyed[K, C]) Keys() []K {
	type ordered struct {
		key   K
		order int
	}
	all := make([]ordered, 0, x.Len)
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

// ShareIndex returns a copy. Both share all contents from now on.
func (x *Keyed[K, C]) ShareIndex() *Keyed[K, C] {
	x.common = true
	x.epoch++
	c := *x
	return &c
}

// detachChanges makes changed the index's own, before it is written.
func (x *Keyed[K, C]) detachChanges() {
	switch {
	case !x.common:
	case len(x.base) == 0:
		x.base, x.changed = x.changed, make(map[K]entryOf[C])
	case len(x.changed) > max(changesMin, x.Len/changesPart):
		x.joinChanges()
	default:
		x.changed = maps.Clone(x.changed)
	}
	x.common = false
}

// joinChanges makes a base of all keys.
func (x *Keyed[K, C]) joinChanges() {
	base := make(map[K]entryOf[C], x.Len)
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
