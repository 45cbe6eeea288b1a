package crdt

import (
	"cmp"
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// Dot is one event: the Seq-th change made by one incarnation of a writer. Seq
// starts at 1. A dot is bound to what it did for ever and never used again.
type Dot struct {
	Node NodeID
	Seq  uint64
}

// Compare orders dots by writer, then by sequence.
func (d Dot) Compare(e Dot) int {
	if d.Node != e.Node {
		return cmp.Compare(d.Node, e.Node)
	}
	return cmp.Compare(d.Seq, e.Seq)
}

// Context is a causal context: an exact set of dots, kept as intervals per
// writer. After all changes of a writer up to the n-th it holds one interval, as
// cheap as an entry of a version vector, but unlike a vector it can leave gaps, so
// it never claims a dot that was not seen. The zero Context is empty and ready to
// use. It is not safe for concurrent use.
type Context struct {
	nodes []nodeSpans // sorted by node, none empty
}

type nodeSpans struct {
	node NodeID
	seen spans
}

func (c *Context) findNode(n NodeID) (int, bool) {
	return slices.BinarySearchFunc(c.nodes, n, func(x nodeSpans, n NodeID) int { return cmp.Compare(x.node, n) })
}

// Add puts one dot in and reports whether it is new. Dots with the sequence 0 do
// not exist and are ignored.
func (c *Context) Add(d Dot) bool { return c.AddRange(d.Node, d.Seq, d.Seq) }

// AddRange puts the dots from..to of a writer in and reports whether any is new.
func (c *Context) AddRange(n NodeID, from, to uint64) bool {
	from = max(from, 1)
	if to < from || to > seqMax {
		return false
	}
	i, ok := c.findNode(n)
	if !ok {
		c.nodes = slices.Insert(c.nodes, i, nodeSpans{node: n})
	}
	seen, at, _ := c.nodes[i].seen.addRange(from, to)
	c.nodes[i].seen = seen
	return at >= 0
}

// Contains reports whether d is in the context.
func (c *Context) Contains(d Dot) bool {
	i, ok := c.findNode(d.Node)
	return ok && c.nodes[i].seen.has(d.Seq)
}

// Max returns the highest sequence of a writer in the context, or 0.
func (c *Context) Max(n NodeID) uint64 {
	if i, ok := c.findNode(n); ok {
		return c.nodes[i].seen.max()
	}
	return 0
}

// Join adds all of other and reports whether anything was new.
func (c *Context) Join(other *Context) (changed bool) {
	for _, o := range other.nodes {
		i, ok := c.findNode(o.node)
		if !ok {
			c.nodes = slices.Insert(c.nodes, i, nodeSpans{o.node, o.seen.clone()})
			changed = true
		} else if !c.nodes[i].seen.covers(o.seen) {
			c.nodes[i].seen = c.nodes[i].seen.union(o.seen)
			changed = true
		}
	}
	return changed
}

// Covers reports whether all of other is in the context.
func (c *Context) Covers(other *Context) bool {
	for _, o := range other.nodes {
		i, ok := c.findNode(o.node)
		if !ok || !c.nodes[i].seen.covers(o.seen) {
			return false
		}
	}
	return true
}

// Equal reports whether both hold the same dots.
func (c *Context) Equal(other *Context) bool {
	return slices.EqualFunc(c.nodes, other.nodes, func(a, b nodeSpans) bool {
		return a.node == b.node && slices.Equal(a.seen, b.seen)
	})
}

// Clone returns a copy that shares no memory with c.
func (c *Context) Clone() *Context {
	d := &Context{nodes: slices.Clone(c.nodes)}
	for i := range d.nodes {
		d.nodes[i].seen = d.nodes[i].seen.clone()
	}
	return d
}

// Len returns the number of dots in the context.
func (c *Context) Len() (n uint64) {
	for _, x := range c.nodes {
		n += x.seen.count()
	}
	return n
}

// Intervals returns how many intervals the dots form: what the context costs.
func (c *Context) Intervals() (n int) {
	for _, x := range c.nodes {
		n += len(x.seen)
	}
	return n
}

// Nodes returns the writers, in order.
func (c *Context) Nodes() []NodeID {
	out := make([]NodeID, len(c.nodes))
	for i, x := range c.nodes {
		out[i] = x.node
	}
	return out
}

// Vector returns for each writer the last dot up to which none is missing: what
// was surely seen in full. Dots behind a gap are left out.
func (c *Context) Vector() *VersionVector {
	v := &VersionVector{}
	for _, x := range c.nodes {
		if x.seen[0].from == 1 {
			v.Observe(Dot{x.node, x.seen[0].to})
		}
	}
	return v
}

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
func (v *VersionVector) Clone() Value { return &VersionVector{v.cloneTally()} }

// Digest implements Value.
func (v *VersionVector) Digest() uint64 { return v.sum }

// Append implements Value.
func (v *VersionVector) Append(b []byte) []byte {
	return v.append(canonical.AppendUint(canonical.AppendArrayLen(b, 3), uint64(KindVersionVector)))
}

// Size implements Value.
func (v *VersionVector) Size() int { return v.size() }

// Decode replaces v with an encoded one. On error it is left as it was.
func (v *VersionVector) Decode(b []byte) error {
	r := &reader{canonical.Reader{B: b}}
	r.tuple(3)
	readKind(r, KindVersionVector)
	t := readTally(r)
	if err := r.Done(); err != nil {
		return err
	}
	v.tally = t
	return nil
}
