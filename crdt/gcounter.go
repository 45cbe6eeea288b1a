package crdt

// GCounter counts up. Concurrent operations give:
//
//	Add(2) | Add(3)   5 more
//
// Each writer has an entry of its own, of which the greatest wins, so nothing is
// counted twice however often a delta comes. The zero GCounter is 0 and ready to
// use. It is not safe for concurrent use.
type GCounter struct{ tally }

// Add counts n more, as a change made by node, and returns the delta, or nil if n
// is 0. Only the incarnation node itself may call it. A writer's count stays at its
// maximum instead of turning over.
func (c *GCounter) Add(node NodeID, n uint64) *GCounter {
	to := c.get(node) + n
	if to < n {
		to = ^uint64(0)
	}
	if !c.raise(node, to) {
		return nil
	}
	d := &GCounter{}
	d.raise(node, to)
	return d
}

// Count returns the sum over all writers, modulo 2^64.
func (c *GCounter) Count() (sum uint64) {
	for _, x := range c.items {
		sum += x.n
	}
	return sum
}

// Merge joins other into c and reports whether that changed it. Other may be nil.
func (c *GCounter) Merge(other *GCounter) bool {
	return other != nil && other != c && c.join(&other.tally)
}

// Kind implements Value.
func (c *GCounter) Kind() Kind { return KindGCounter }

// Join implements Value.
func (c *GCounter) Join(other Value) (bool, error) {
	o, ok := other.(*GCounter)
	if !ok {
		return false, &KindError{Want: c.Kind(), Got: other.Kind()}
	}
	return c.Merge(o), nil
}

// Clone implements Value.
func (c *GCounter) Clone() Value { return &GCounter{c.clone()} }

// Digest implements Value.
func (c *GCounter) Digest() uint64 { return c.sum }

// Append implements Value.
func (c *GCounter) Append(b []byte) []byte {
	return c.append(appendUint(appendArrayLen(b, 3), uint64(KindGCounter)))
}

// Size implements Value.
func (c *GCounter) Size() int { return c.size() }

// Decode replaces c with an encoded counter. On error it is left as it was.
func (c *GCounter) Decode(b []byte) error {
	r := &reader{b: b}
	r.tuple(3)
	readKind(r, KindGCounter)
	t := readTally(r)
	if err := r.done(); err != nil {
		return err
	}
	c.tally = t
	return nil
}
