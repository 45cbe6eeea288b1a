package crdt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// An LWWMap is written in columns, its entries in the order of their stamps and,
// where writers put one stamp on several keys, of their encoded keys:
//
//	[kind, [node...], stamps, [key...], [value...]]
//
// The stamps are a byte string of base-128 numbers: per entry the time since the
// last one, twice the index of the node plus one for a tombstone, and the sequence.
// Tombstones have no value.

// Append implements Value.
func (m *LWWMap[K, V]) Append(b []byte) []byte {
	list := m.sorted()
	t := m.elementTypes()
	nodes := m.nodes()
	b = canonical.AppendUint(canonical.AppendArrayLen(b, 5), uint64(m.Kind()))
	b = canonical.AppendArrayLen(b, len(nodes))
	for _, n := range nodes {
		b = canonical.AppendUint(b, uint64(n))
	}
	// One pass in this order: in a large map each entry of it is a cache miss.
	size := m.Size()
	room := make([]byte, 2*size+8*len(list))
	keys, values, stamps := room[:0:size], room[size:size:2*size], room[2*size:2*size]
	at, live := uint64(0), 0
	for _, x := range list {
		e := x.e
		i, _ := slices.BinarySearch(nodes, e.stamp.Node)
		mark := uint64(i) << 1
		keys = t.key.codec.Append(keys, e.key)
		if e.dead {
			mark |= 1
		} else {
			live++
			values = t.val.codec.Append(values, e.val)
		}
		stamps = binary.AppendUvarint(stamps, e.stamp.Time-at)
		stamps = binary.AppendUvarint(stamps, mark)
		stamps = binary.AppendUvarint(stamps, e.stamp.Seq)
		at = e.stamp.Time
	}
	b = canonical.AppendBin(b, stamps)
	b = append(canonical.AppendArrayLen(b, len(list)), keys...)
	return append(canonical.AppendArrayLen(b, live), values...)
}

// nodes returns the nodes of the stamps, in order.
func (m *LWWMap[K, V]) nodes() (nodes []NodeID) {
	for e := range m.entries() {
		if i, ok := slices.BinarySearch(nodes, e.stamp.Node); !ok {
			nodes = slices.Insert(nodes, i, e.stamp.Node)
		}
	}
	return nodes
}

// Decode replaces the map with an encoded one. On error it is left as it was. The
// map keeps its codecs.
func (m *LWWMap[K, V]) Decode(b []byte) error {
	t := m.elementTypes()
	r := &reader{canonical.Reader{B: b}}
	r.tuple(5)
	readKind(r, m.Kind())
	nodes := readNodes(r)
	stamps := &canonical.Blob{B: r.Bin(), OK: true}
	n := r.arrayLen("keys", 1)
	if most := len(stamps.B) / 3; r.Err == nil && n > most {
		r.Fail(&LimitError{Field: "keys", Declared: uint64(n), Max: uint64(most)})
	}
	if r.Err != nil {
		return r.Err
	}
	list := make([]lwwEntry[K, V], n)
	at := uint64(0)
	live := 0
	for i := range list {
		e := &list[i]
		e.readStamp(stamps, nodes, &at)
		e.key = t.key.decodeElement(r)
		if !e.dead {
			live++
		}
	}
	if got := r.arrayLen("values", 1); r.Err == nil && (got != live || !stamps.Done()) {
		r.Fail(ErrMalformed)
	}
	for i := range list {
		if e := &list[i]; !e.dead {
			e.val = t.val.decodeElement(r)
		}
	}
	if n == 1 && list[0].stamp != (Stamp{}) && r.Done() == nil {
		m.full, m.one = nil, list[0]
		return nil
	}
	f := newLWWMap(t)
	for i := range list {
		if r.Err != nil || !f.addDecoded(&list[i]) {
			r.Fail(ErrMalformed)
			return r.Err
		}
	}
	if err := r.Done(); err != nil {
		return err
	}
	m.full, m.one = f, lwwEntry[K, V]{}
	return nil
}

func (e *lwwEntry[K, V]) readStamp(p *canonical.Blob, nodes []NodeID, at *uint64) {
	dt, mark, seq := p.Next(), p.Next(), p.Next()
	if !p.OK || *at+dt < *at || mark>>1 >= uint64(len(nodes)) {
		p.OK = false
		return
	}
	*at += dt
	e.stamp = Stamp{Time: *at, Node: nodes[mark>>1], Seq: seq}
	e.dead = mark&1 != 0
}

// addDecoded stores an entry, whose key must be new.
func (f *lwwMap[K, V]) addDecoded(e *lwwEntry[K, V]) bool {
	h := f.table.hash(e.key)
	if _, ok := f.findSlot(h, e.key); ok || e.stamp == (Stamp{}) {
		return false
	}
	f.storeEntry(h, 0, false, *e)
	return true
}

// timed is an entry with the time of its stamp beside it: following the pointers would
// cost more than the rest of the sort.
type timed[E any] struct {
	time uint64
	e    E
}

const (
	// radixMin is the number of entries from which counting digits pays.
	radixMin  = 512
	digitBits = 11
	digits    = 1 << digitBits
)

// sorted returns the entries in the order of their stamps and, where those are equal, of
// their encoded keys.
func (m *LWWMap[K, V]) sorted() []timed[*lwwEntry[K, V]] {
	list := make([]timed[*lwwEntry[K, V]], 0, m.Len()+m.Tombstones())
	for e := range m.entries() {
		list = append(list, timed[*lwwEntry[K, V]]{e.stamp.Time, e})
	}
	list = sortByTime(list)
	key := m.elementTypes().key.codec
	for from := 0; from < len(list); {
		to := from + 1
		for to < len(list) && list[to].time == list[from].time {
			to++
		}
		if to > from+1 {
			slices.SortFunc(list[from:to], func(a, b timed[*lwwEntry[K, V]]) int {
				if c := a.e.stamp.Compare(b.e.stamp); c != 0 {
					return c
				}
				var x, y [64]byte
				return bytes.Compare(key.Append(x[:0], a.e.key), key.Append(y[:0], b.e.key))
			})
		}
		from = to
	}
	return list
}

// sortByTime returns the list in the order of times, those with one time in any order.
// It may return the list or another one, and overwrites the list.
func sortByTime[E any](list []timed[E]) []timed[E] {
	byTime := func(a, b timed[E]) int { return cmp.Compare(a.time, b.time) }
	if slices.IsSortedFunc(list, byTime) {
		return list
	}
	if len(list) < radixMin {
		slices.SortFunc(list, byTime)
		return list
	}
	low, top := list[0].time, list[0].time
	for i := range list {
		low, top = min(low, list[i].time), max(top, list[i].time)
	}
	from, to := list, make([]timed[E], len(list))
	for shift := 0; shift < bits.Len64(top-low); shift += digitBits {
		if sortByDigit(from, to, low, shift) {
			from, to = to, from
		}
	}
	return from
}

// sortByDigit writes from into to, in the order of the digit of time-low at shift, and
// keeps the order of equal ones. It reports false, and leaves to as it is, if all digits
// are equal.
func sortByDigit[E any](from, to []timed[E], low uint64, shift int) bool {
	var next [digits]int
	for i := range from {
		next[(from[i].time-low)>>shift%digits]++
	}
	if next[(from[0].time-low)>>shift%digits] == len(from) {
		return false
	}
	sum := 0
	for d, n := range next {
		next[d] = sum
		sum += n
	}
	for i := range from {
		d := (from[i].time - low) >> shift % digits
		to[next[d]] = from[i]
		next[d]++
	}
	return true
}
