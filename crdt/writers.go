package crdt

import "slices"

// Writers returns who has an entry, dead or not, in order: those whose share may
// have to be folded.
func (c *GCounter) Writers() []NodeID {
	out := make([]NodeID, len(c.items))
	for i, x := range c.items {
		out[i] = x.node
	}
	return out
}

// Writers returns who has an entry, dead or not, in order.
func (c *PNCounter) Writers() []NodeID {
	out := append(c.up.Writers(), c.down.Writers()...)
	slices.Sort(out)
	return slices.Compact(out)
}
