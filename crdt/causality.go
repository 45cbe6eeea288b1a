package crdt

// Causal is a Value with a causal context: all but the counters, GSet, the
// last-writer-wins types and VersionVector.
type Causal interface {
	Value
	// Context returns a copy of the causal context.
	Context() *Context
	// Seen returns the highest sequence of a writer in the context, or 0, and costs
	// next to nothing. A process that finds a higher one for itself after a join than
	// before shares its NodeID with another, or has come back with an old state: it
	// must go on under a new NodeID.
	Seen(n NodeID) uint64
}

func (c *causal[P]) seen(n NodeID) uint64 { return c.peek(n) - 1 }

// Seen implements Causal.
func (s *ORSet[E]) Seen(n NodeID) uint64 { return s.indexed().seen(n) }

// Seen implements Causal.
func (f *Flag) Seen(n NodeID) uint64 { return f.inner().Seen(n) }

// Seen implements Causal.
func (r *MVRegister[V]) Seen(n NodeID) uint64 { return r.set.Seen(n) }

// Seen implements Causal.
func (m *ORMap[K, V]) Seen(n NodeID) uint64 { return m.inner().Seen(n) }

// Seen implements Causal.
func (m *ORMultiMap[K, V]) Seen(n NodeID) uint64 { return m.inner().Seen(n) }

// Seen implements Causal.
func (m *PNCounterMap[K]) Seen(n NodeID) uint64 { return m.inner().Seen(n) }
