package crdt

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
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
	t := m.elements()
	nodes := nodesOf(list)
	b = appendUint(appendArrayLen(b, 5), uint64(m.Kind()))
	b = appendArrayLen(b, len(nodes))
	for _, n := range nodes {
		b = appendUint(b, uint64(n))
	}
	stamps := make([]byte, 0, 4*len(list))
	at, live := uint64(0), 0
	for _, e := range list {
		i, _ := slices.BinarySearch(nodes, e.stamp.Node)
		mark := uint64(i) << 1
		if e.dead {
			mark |= 1
		} else {
			live++
		}
		stamps = binary.AppendUvarint(stamps, e.stamp.Time-at)
		stamps = binary.AppendUvarint(stamps, mark)
		stamps = binary.AppendUvarint(stamps, e.stamp.Seq)
		at = e.stamp.Time
	}
	b = appendBin(b, stamps)
	b = appendArrayLen(b, len(list))
	for _, e := range list {
		b = t.key.codec.Append(b, e.key)
	}
	b = appendArrayLen(b, live)
	for _, e := range list {
		if !e.dead {
			b = t.val.codec.Append(b, e.val)
		}
	}
	return b
}

// sorted returns the entries in canonical order.
func (m *LWWMap[K, V]) sorted() []*lwwEntry[K, V] {
	// The times stand beside the pointers: almost every comparison ends with them, and
	// following the pointers would cost more than the rest of the sort.
	type timed struct {
		time uint64
		e    *lwwEntry[K, V]
	}
	list := make([]timed, 0, m.Len()+m.Tombstones())
	for e := range m.entries() {
		list = append(list, timed{e.stamp.Time, e})
	}
	key := m.elements().key.codec
	slices.SortFunc(list, func(a, b timed) int {
		if a.time != b.time {
			return cmp.Compare(a.time, b.time)
		}
		if c := a.e.stamp.Compare(b.e.stamp); c != 0 {
			return c
		}
		var x, y [64]byte
		return bytes.Compare(key.Append(x[:0], a.e.key), key.Append(y[:0], b.e.key))
	})
	out := make([]*lwwEntry[K, V], len(list))
	for i := range list {
		out[i] = list[i].e
	}
	return out
}

func nodesOf[K comparable, V any](list []*lwwEntry[K, V]) []NodeID {
	var nodes []NodeID
	for _, e := range list {
		if i, ok := slices.BinarySearch(nodes, e.stamp.Node); !ok {
			nodes = slices.Insert(nodes, i, e.stamp.Node)
		}
	}
	return nodes
}

// Decode replaces the map with an encoded one. On error it is left as it was. The
// map keeps its codecs.
func (m *LWWMap[K, V]) Decode(b []byte) error {
	t := m.elements()
	r := &reader{b: b}
	r.tuple(5)
	readKind(r, m.Kind())
	nodes := readNodes(r)
	stamps := &blob{r.bin(), true}
	n := r.arrayLen("keys", 1)
	if most := len(stamps.b) / 3; r.err == nil && n > most {
		r.fail(&LimitError{Field: "keys", Declared: uint64(n), Max: uint64(most)})
	}
	if r.err != nil {
		return r.err
	}
	list := make([]lwwEntry[K, V], n)
	at := uint64(0)
	live := 0
	for i := range list {
		e := &list[i]
		e.readStamp(stamps, nodes, &at)
		e.key = t.key.read(r)
		if !e.dead {
			live++
		}
	}
	if got := r.arrayLen("values", 1); r.err == nil && (got != live || !stamps.done()) {
		r.fail(ErrMalformed)
	}
	for i := range list {
		if e := &list[i]; !e.dead {
			e.val = t.val.read(r)
		}
	}
	if n == 1 && list[0].stamp != (Stamp{}) && r.done() == nil {
		m.full, m.one = nil, list[0]
		return nil
	}
	f := newLWWMap(t)
	for i := range list {
		if r.err != nil || !f.addDecoded(&list[i]) {
			r.fail(ErrMalformed)
			return r.err
		}
	}
	if err := r.done(); err != nil {
		return err
	}
	m.full, m.one = f, lwwEntry[K, V]{}
	return nil
}

func (e *lwwEntry[K, V]) readStamp(p *blob, nodes []NodeID, at *uint64) {
	dt, mark, seq := p.next(), p.next(), p.next()
	if !p.ok || *at+dt < *at || mark>>1 >= uint64(len(nodes)) {
		p.ok = false
		return
	}
	*at += dt
	e.stamp = Stamp{Time: *at, Node: nodes[mark>>1], Seq: seq}
	e.dead = mark&1 != 0
}

// addDecoded stores an entry, whose key must be new.
func (f *lwwMap[K, V]) addDecoded(e *lwwEntry[K, V]) bool {
	h := f.table.hash(e.key)
	if _, ok := f.find(h, e.key); ok || e.stamp == (Stamp{}) {
		return false
	}
	f.put(h, 0, false, *e)
	return true
}
