package crdt

import "slices"

// PNCounter counts up and down. Concurrent operations give:
//
//	Add(2) | Add(-3)   1 less
//
// The zero PNCounter is 0 and ready to use. It is not safe for concurrent use.
type PNCounter struct{ up, down GCounter }

// Add counts n, up or down, as a change made by node, and returns the delta, or
// nil if n is 0. Only the incarnation node itself may call it.
func (c *PNCounter) Add(node NodeID, n int64) *PNCounter {
	d := &PNCounter{}
	var part *GCounter
	if n >= 0 {
		part = c.up.Add(node, uint64(n))
	} else {
		part = c.down.Add(node, uint64(-n))
	}
	if part == nil {
		return nil
	}
	if n >= 0 {
		d.up = *part
	} else {
		d.down = *part
	}
	return d
}

// Count returns the count over all writers, modulo 2^64.
func (c *PNCounter) Count() int64 { return int64(c.up.Count() - c.down.Count()) }

// Merge joins other into c and reports whether that changed it. Other may be nil.
func (c *PNCounter) Merge(other *PNCounter) bool {
	if other == nil {
		return false
	}
	up := c.up.Merge(&other.up)
	return c.down.Merge(&other.down) || up
}

// Fold moves the share of a dead writer to heir, as a change made by heir, and returns the
// delta, or nil if there is nothing to move. The content does not change. Only the
// incarnation heir itself may call it.
func (c *PNCounter) Fold(dead, heir NodeID) Value {
	up, down := c.up.fold(dead, heir), c.down.fold(dead, heir)
	if up == nil && down == nil {
		return nil
	}
	d := &PNCounter{}
	d.up.Merge(up)
	d.down.Merge(down)
	return d
}

// Writers returns, in order, the writers that have an entry, dead or not.
func (c *PNCounter) Writers() []NodeID {
	out := append(c.up.Writers(), c.down.Writers()...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Garbage returns the garbage of the value, if the writers for which dead returns true are
// gone for good.
func (c *PNCounter) Garbage(dead func(NodeID) bool) Garbage {
	g, h := c.up.Garbage(dead), c.down.Garbage(dead)
	return Garbage{Digest: g.Digest + h.Digest*hashKey0, Items: g.Items + h.Items}
}

// Prune removes the garbage if it equals agreed, on which all replicas have agreed, and
// reports whether it did. The content does not change, but the digest does.
func (c *PNCounter) Prune(agreed Garbage, dead func(NodeID) bool) bool {
	if agreed.Items == 0 || c.Garbage(dead) != agreed {
		return false
	}
	c.up.prune(dead)
	c.down.prune(dead)
	return true
}

// Kind implements Value.
func (c *PNCounter) Kind() Kind { return KindPNCounter }

// Join implements Value.
func (c *PNCounter) Join(other Value) (bool, error) {
	o, ok := other.(*PNCounter)
	if !ok {
		return false, mismatch(c, other)
	}
	return c.Merge(o), nil
}

// Clone implements Value.
func (c *PNCounter) Clone() Value { return &PNCounter{c.up.copy(), c.down.copy()} }

// Digest implements Value.
func (c *PNCounter) Digest() uint64 { return c.up.sum + c.down.sum*hashKey0 }

// Append implements Value: the two counters, one after the other.
func (c *PNCounter) Append(b []byte) []byte {
	b = appendUint(appendArrayLen(b, 3), uint64(KindPNCounter))
	return c.down.Append(c.up.Append(b))
}

// Size implements Value.
func (c *PNCounter) Size() int { return 2 + c.up.Size() + c.down.Size() }

// Decode replaces c with an encoded counter. On error it is left as it was.
func (c *PNCounter) Decode(b []byte) error {
	r := &reader{b: b}
	r.tuple(3)
	readKind(r, KindPNCounter)
	var d PNCounter
	d.up.read(r)
	d.down.read(r)
	if err := r.done(); err != nil {
		return err
	}
	*c = d
	return nil
}
