// Package fence decides which frames are accepted: those of the newest incarnation of
// each sending process, and none of nodes that have left the view. It is a plain state
// machine; internal/transport and the simulator run the same one.
//
// A process that is removed from its cluster goes on as its next incarnation, and the
// kernel may still retransmit what the former one has sent. No number in a frame tells
// the receiver which of two incarnations is the later one, so the connection's first
// message carries the process and the number of the incarnation. The rules:
//
//	accept(process, k):  refuse if an incarnation above k was accepted
//	                     otherwise end all connections of incarnations below k,
//	                     wait until none of their frames is being handled,
//	                     and only then let k send
//	view adopted:        end the connections of members that it has dropped
//
// Invariant: once a frame of (process, k) is handled, none of (process, j) with j < k is.
package fence

// Marks holds the newest accepted incarnation of each process. P names a process.
// Build it with NewMarks.
type Marks[P comparable] struct {
	max  int
	live func(P) bool
	// Invariant: order holds the keys of newest, each once; len(order) <= max.
	newest map[P]uint64
	order  []P
}

// NewMarks returns a table of at most max processes. When it is full, the oldest mark
// is evicted for which live reports false: a mark that guards open connections stays.
func NewMarks[P comparable](max int, live func(P) bool) *Marks[P] {
	return &Marks[P]{max: max, live: live, newest: make(map[P]uint64)}
}

// Verdict is the result of Accept for an incarnation's connection.
type Verdict uint8

const (
	// Superseded: a later incarnation of the process was accepted before.
	Superseded Verdict = iota + 1
	// Full: there is no room for the mark of another process.
	Full
	// Current: this incarnation is still the newest; the mark is unchanged.
	Current
	// Raised: the mark has risen; connections of earlier incarnations must end.
	Raised
)

// Accept judges a connection of incarnation k of process p, and raises the mark.
func (m *Marks[P]) Accept(p P, k uint64) Verdict {
	newest, known := m.newest[p]
	switch {
	case k < newest:
		return Superseded
	case known && k == newest:
		return Current
	case !known && len(m.order) >= m.max && !m.evictOldest():
		return Full
	}
	if !known {
		m.order = append(m.order, p)
	}
	m.newest[p] = k
	return Raised
}

// evictOldest removes the oldest mark that is not live.
func (m *Marks[P]) evictOldest() (ok bool) {
	var gone P
	if m.order, gone, ok = EvictOldest(m.order, m.live); ok {
		delete(m.newest, gone)
	}
	return ok
}

// EvictOldest removes the first key of order that is not live. The live ones before it go to
// the end. It reports false if all are live.
func EvictOldest[K any](order []K, live func(K) bool) (rest []K, gone K, ok bool) {
	for range len(order) {
		k := order[0]
		order = order[1:]
		if !live(k) {
			return order, k, true
		}
		order = append(order, k)
	}
	return order, gone, false
}

// Len returns the number of processes in the table.
func (m *Marks[P]) Len() int { return len(m.order) }

// Dropped holds the nodes that a view has dropped. N names a node. A node that has
// not been a member yet is not among them. Build it with NewDropped.
type Dropped[N comparable] struct {
	max     int
	members []N
	// Invariant: order holds the keys of dropped, each once; len(order) <= max.
	dropped map[N]struct{}
	order   []N
}

// NewDropped returns an empty set, which remembers the newest max nodes.
func NewDropped[N comparable](max int) *Dropped[N] {
	return &Dropped[N]{max: max, dropped: make(map[N]struct{})}
}

// SetMembers takes the members of a newer view and returns those of the former view
// that it has dropped, in their order there. A member is dropped no longer.
func (d *Dropped[N]) SetMembers(members []N) (gone []N) {
	in := make(map[N]struct{}, len(members))
	for _, n := range members {
		in[n] = struct{}{}
		d.restoreNode(n)
	}
	for _, n := range d.members {
		if _, still := in[n]; !still {
			gone = append(gone, n)
			d.dropNode(n)
		}
	}
	d.members = append(d.members[:0], members...)
	return gone
}

// Has reports whether n was dropped.
func (d *Dropped[N]) Has(n N) bool {
	_, ok := d.dropped[n]
	return ok
}

func (d *Dropped[N]) dropNode(n N) {
	if len(d.order) >= d.max {
		delete(d.dropped, d.order[0])
		d.order = d.order[1:]
	}
	d.dropped[n] = struct{}{}
	d.order = append(d.order, n)
}

func (d *Dropped[N]) restoreNode(n N) {
	if !d.Has(n) {
		return
	}
	delete(d.dropped, n)
	for i, o := range d.order {
		if o == n {
			d.order = append(d.order[:i:i], d.order[i+1:]...)
			return
		}
	}
}
