package crdt

import (
	"cmp"
	"iter"
	"slices"
)

// VersionVector tells for each writer up to which change everything was seen.
// Concurrent operations give:
//
//	Observe(n:3) | Observe(n:5)   n:5
//	Observe(n:3) | Observe(m:1)   n:3 and m:1
//
// It claims every earlier change of a writer too: to speak of single changes, use
// a Context. The zero VersionVector is empty and ready to use. It is not safe for
// concurrent use.
type VersionVector struct{ tally }

// tally holds a number per writer that only grows.
//
// Invariant: sorted by node, no number is 0, sum is the sum of tallyHash.
type tally struct {
	items []count
	sum   uint64
}

type count struct {
	node NodeID
	n    uint64
}

func tallyHash(c count) uint64 { return mix(uint64(c.node), c.n) }

func (t *tally) find(n NodeID) (int, bool) {
	return slices.BinarySearchFunc(t.items, n, func(c count, n NodeID) int { return cmp.Compare(c.node, n) })
}

func (t *tally) get(n NodeID) uint64 {
	if i, ok := t.find(n); ok {
		return t.items[i].n
	}
	return 0
}

// raiseTo sets the number of a writer, unless it is that high already.
func (t *tally) raiseTo(n NodeID, to uint64) bool {
	i, ok := t.find(n)
	switch {
	case to == 0 || ok && t.items[i].n >= to:
		return false
	case ok:
		t.sum -= tallyHash(t.items[i])
		t.items[i].n = to
	default:
		t.items = slices.Insert(t.items, i, count{n, to})
	}
	t.sum += tallyHash(t.items[i])
	return true
}

func (t *tally) drop(n NodeID) bool {
	i, ok := t.find(n)
	if ok {
		t.sum -= tallyHash(t.items[i])
		t.items = slices.Delete(t.items, i, i+1)
	}
	return ok
}

func (t *tally) joinTally(o *tally) (changed bool) {
	for _, c := range o.items {
		changed = t.raiseTo(c.node, c.n) || changed
	}
	return changed
}

func (t *tally) clone() tally { return tally{slices.Clone(t.items), t.sum} }

// append writes the writers, then their numbers.
func (t *tally) append(b []byte) []byte {
	b = appendArrayLen(b, len(t.items))
	for _, c := range t.items {
		b = appendUint(b, uint64(c.node))
	}
	b = appendArrayLen(b, len(t.items))
	for _, c := range t.items {
		b = appendUint(b, c.n)
	}
	return b
}

func (t *tally) size() (n int) {
	n = 6
	for _, c := range t.items {
		n += uintSize(uint64(c.node)) + uintSize(c.n)
	}
	return n
}

func readTally(r *reader) (t tally) {
	nodes := readNodes(r)
	if n := r.arrayLen("counts", 1); n != len(nodes) {
		r.fail(ErrMalformed)
		return t
	}
	t.items = make([]count, 0, len(nodes))
	for _, node := range nodes {
		c := count{node, r.uint()}
		if c.n == 0 {
			r.fail(ErrMalformed)
		}
		t.items = append(t.items, c)
		t.sum += tallyHash(c)
	}
	return t
}

// Observe raises a writer's entry to the dot's sequence and returns the delta, or
// nil if it stood that high.
func (v *VersionVector) Observe(d Dot) *VersionVector {
	if !v.raiseTo(d.Node, d.Seq) {
		return nil
	}
	delta := &VersionVector{}
	delta.raiseTo(d.Node, d.Seq)
	return delta
}

// At returns the entry of a writer, or 0.
func (v *VersionVector) At(n NodeID) uint64 { return v.get(n) }

// Covers reports whether d and every earlier change of its writer are in v.
func (v *VersionVector) Covers(d Dot) bool { return d.Seq <= v.get(d.Node) }

// Dominates reports whether v has everything that o has.
func (v *VersionVector) Dominates(o *VersionVector) bool {
	for _, c := range o.items {
		if v.get(c.node) < c.n {
			return false
		}
	}
	return true
}

// Len returns the number of writers.
func (v *VersionVector) Len() int { return len(v.items) }

// All yields the entries, in the order of writers.
func (v *VersionVector) All() iter.Seq2[NodeID, uint64] {
	return func(yield func(NodeID, uint64) bool) {
		for _, c := range v.items {
			if !yield(c.node, c.n) {
				return
			}
		}
	}
}

// Merge joins other into v and reports whether that changed it. Other may be nil.
func (v *VersionVector) Merge(other *VersionVector) bool {
	return other != nil && other != v && v.joinTally(&other.tally)
}

// Kind implements Value.
func (v *VersionVector) Kind() Kind { return KindVersionVector }

// Join implements Value.
func (v *VersionVector) Join(other Value) (bool, error) {
	o, ok := other.(*VersionVector)
	if !ok {
		return false, mismatch(v, other)
	}
	return v.Merge(o), nil
}

// Clone implements Value.
func (v *VersionVector) Clone() Value { return &VersionVector{v.clone()} }

// Digest implements Value.
func (v *VersionVector) Digest() uint64 { return v.sum }

// Append implements Value.
func (v *VersionVector) Append(b []byte) []byte {
	return v.append(appendUint(appendArrayLen(b, 3), uint64(KindVersionVector)))
}

// Size implements Value.
func (v *VersionVector) Size() int { return v.size() }

// Decode replaces v with an encoded one. On error it is left as it was.
func (v *VersionVector) Decode(b []byte) error {
	r := &reader{b: b}
	r.tuple(3)
	readKind(r, KindVersionVector)
	t := readTally(r)
	if err := r.done(); err != nil {
		return err
	}
	v.tally = t
	return nil
}
