package replication

import (
	"slices"
	"sort"
	"strings"
)

// keyIndex has the names of the live keys in order. It costs nothing until names are asked
// for; from then on it notes the keys that have come and gone, and takes them in when it is
// next asked. The zero keyIndex is ready to use.
//
// Invariant: if built, names less those in moved are the live keys that are not in moved.
type keyIndex struct {
	built bool
	names []string
	moved map[string]struct{}
}

// note takes note of a key that has come or gone.
func (x *keyIndex) note(key string) {
	if !x.built {
		return
	}
	if x.moved == nil {
		x.moved = map[string]struct{}{}
	}
	if x.moved[key] = struct{}{}; len(x.moved) > len(x.names)/2+1024 {
		*x = keyIndex{} // nobody asks any more, or building it anew is cheaper
	}
}

// takeIn brings names up to date; live says whether a key is there.
func (x *keyIndex) takeIn(live func(string) bool) {
	if len(x.moved) == 0 {
		return
	}
	moved := make([]string, 0, len(x.moved))
	for k := range x.moved { // order-free: sorted below
		moved = append(moved, k)
	}
	slices.Sort(moved)
	if x.moved = nil; len(moved) <= insertMax {
		for _, k := range moved {
			at, found := slices.BinarySearch(x.names, k)
			switch there := live(k); {
			case there && !found:
				x.names = slices.Insert(x.names, at, k)
			case found && !there:
				x.names = slices.Delete(x.names, at, at+1)
			}
		}
		return
	}
	out, rest := make([]string, 0, len(x.names)+len(moved)), x.names
	for _, k := range moved {
		at, found := slices.BinarySearch(rest, k)
		out, rest = append(out, rest[:at]...), rest[at:]
		if found {
			rest = rest[1:]
		}
		if live(k) {
			out = append(out, k)
		}
	}
	x.names = append(out, rest...)
}

// insertMax is up to how many names are moved one by one, which copies no more than those
// behind them.
const insertMax = 16

// under returns the names that begin with prefix, sorted.
func (x *keyIndex) under(prefix string) []string {
	from := sort.SearchStrings(x.names, prefix)
	n := sort.Search(len(x.names)-from, func(i int) bool { return !strings.HasPrefix(x.names[from+i], prefix) })
	if n == 0 {
		return nil
	}
	return slices.Clone(x.names[from : from+n])
}

// list brings the index up to date after a change of it, or before its removal.
func (s *store) list(it *item, live bool) {
	if live != it.listed {
		it.listed = live
		s.index.note(it.key)
	}
}

// names returns the names of the live keys that begin with prefix, sorted.
func (s *store) names(prefix string) []string {
	if !s.index.built {
		s.index = keyIndex{built: true}
		for i := range s.buckets {
			for key, it := range s.buckets[i].items { // order-free: sorted below
				if it.value != nil {
					s.index.names = append(s.index.names, key)
				}
			}
		}
		slices.Sort(s.index.names)
	}
	s.index.takeIn(func(key string) bool { return s.value(key) != nil })
	return s.index.under(prefix)
}
