package crdt

import (
	"iter"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
	"github.com/peerage-go/peerage/internal/crdt/shared"
)

// PNCounterMap is a map of counters that go up and down. Concurrent operations
// give:
//
//	Add(k, 2) | Add(k, 3)    5 more
//	Add(k, 2) | Remove(k)    k is there with all that the adding writer has ever
//	                         counted under it; the shares of other writers are gone
//	Remove(k) | Remove(k)    k is gone
//
// A writer keeps one share per key, with one dot, and an Add that has not seen a
// remove carries that share whole: this is the price of a size that does not grow
// with the number of changes. A remove that everyone has seen is final: when the
// key is used again it starts at 0, and no stale replica brings the old count back.
// The zero PNCounterMap is empty and ready to use, with DefaultCodec. It is not
// safe for concurrent use, reading included.
//
// Invariant: if groups is not nil it has the elements of set, by key.
type PNCounterMap[K comparable] struct {
	set    ORSet[share[K]]
	groups *shared.Keyed[K, []share[K]] // nil: not built yet
	tidy   uint64                       // see shares
}

// share is the count of one writer under one key since the key was last removed. A replica
// that missed a change may also hold an older share of that writer; only the youngest
// counts.
type share[K comparable] struct {
	key      K
	node     NodeID
	born     uint64 // sequence of the writer's dot that began the share
	inc, dec uint64
}

// part is the share of one writer in a counter.
type part struct {
	node     NodeID
	born     uint64
	inc, dec uint64
}

// younger reports whether p came after q, a part of the same writer.
func (p part) younger(q part) bool {
	return p.born > q.born || p.born == q.born && p.inc+p.dec > q.inc+q.dec
}

// total sums up the youngest part of each writer. There are few.
func total[S any](shares []S, of func(*S) part) int64 {
	inc, dec := upDown(shares, of)
	return int64(inc - dec)
}

func upDown[S any](shares []S, of func(*S) part) (inc, dec uint64) {
	for i := range shares {
		p, last := of(&shares[i]), true
		for j := range shares {
			q := of(&shares[j])
			last = last && (q.node != p.node || !q.younger(p))
		}
		if last {
			inc += p.inc
			dec += p.dec
		}
	}
	return inc, dec
}

// NewPNCounterMap returns an empty map with a codec of the caller's.
func NewPNCounterMap[K comparable](c Codec[K]) *PNCounterMap[K] {
	m := &PNCounterMap[K]{}
	m.set.elem = elementWith[share[K]](shareCodec[K]{keyWith(c)})
	return m
}

// asSet returns the set that holds the value, and makes it ready for use.
func (m *PNCounterMap[K]) asSet() *ORSet[share[K]] {
	if m.set.elem == nil {
		m.set.elem = elementWith[share[K]](shareCodec[K]{keyOf[K]()})
	}
	return &m.set
}

// shareCodec writes [key, node, born, inc, dec].
type shareCodec[K comparable] struct{ key *element[K] }

func (c shareCodec[K]) Append(b []byte, e share[K]) []byte {
	b = c.key.codec.Append(canonical.AppendArrayLen(b, 5), e.key)
	b = canonical.AppendUint(canonical.AppendUint(b, uint64(e.node)), e.born)
	return canonical.AppendUint(canonical.AppendUint(b, e.inc), e.dec)
}

func (c shareCodec[K]) Decode(b []byte) (e share[K], n int, err error) {
	r := &reader{canonical.Reader{B: b}}
	r.tuple(5)
	e.key = c.key.decodeElement(r)
	e.node, e.born, e.inc, e.dec = NodeID(r.Uint()), r.Uint(), r.Uint(), r.Uint()
	return e, len(b) - len(r.B), r.Err
}

func (c shareCodec[K]) elementKinds() uint8 { return c.key.of }

func (c shareCodec[K]) hashElement(e share[K]) uint64 {
	k, _ := c.key.hashAndSize(e.key)
	return mix(mix(mix(k, uint64(e.node)), e.born), mix(e.inc, e.dec))
}

func (c shareCodec[K]) encodedSize(e share[K]) int {
	_, k := c.key.hashAndSize(e.key)
	return 1 + k + canonical.UintSize(uint64(e.node)) + canonical.UintSize(e.born) + canonical.UintSize(e.inc) + canonical.UintSize(e.dec)
}

func (m *PNCounterMap[K]) indexByKey() *shared.Keyed[K, []share[K]] {
	if m.groups == nil {
		m.groups = shared.NewKeyed[K, []share[K]]()
		for e := range m.set.All() {
			m.addShare(e)
		}
	}
	return m.groups
}

func (m *PNCounterMap[K]) addShare(e share[K]) {
	g, _ := m.groups.EditContent(e.key, slices.Clone)
	m.groups.PutContent(e.key, append(g, e))
}

func (m *PNCounterMap[K]) elementLeft(e share[K]) {
	g, _ := m.groups.EditContent(e.key, slices.Clone)
	for i := range g {
		if g[i] == e {
			g[i] = g[len(g)-1]
			g = g[:len(g)-1]
			break
		}
	}
	if len(g) == 0 {
		m.groups.DropKey(e.key)
		return
	}
	m.groups.PutContent(e.key, g)
}

// Add counts n under k, up or down, as a change made by node, and returns the
// delta. An n of 0 makes the key appear. Only the incarnation node itself may call
// it.
func (m *PNCounterMap[K]) Add(node NodeID, k K, n int64) *PNCounterMap[K] {
	now := share[K]{key: k, node: node}
	var old []share[K]
	group, _ := m.indexByKey().GetContent(k)
	for _, e := range group {
		if e.node == node {
			old = append(old, e)
			now.born, now.inc, now.dec = e.born, e.inc, e.dec
		}
	}
	if len(old) == 0 {
		now.born = m.asSet().grown().peek(node)
	}
	if n >= 0 {
		now.inc += uint64(n)
	} else {
		now.dec += uint64(-n)
	}
	d := m.asSet().replaceElements(node, now, old...)
	for _, e := range old {
		m.elementLeft(e)
	}
	m.addShare(now)
	return &PNCounterMap[K]{set: *d}
}

// Remove takes k out and returns the delta, or nil if it is not there.
func (m *PNCounterMap[K]) Remove(k K) *PNCounterMap[K] {
	group, _ := m.indexByKey().GetContent(k)
	d := m.asSet().eraseElements(group...)
	if d == nil {
		return nil
	}
	m.groups.DropKey(k)
	return &PNCounterMap[K]{set: *d}
}

// Count returns the count under k.
func (m *PNCounterMap[K]) Count(k K) (n int64, ok bool) {
	g, ok := m.indexByKey().GetContent(k)
	return total(g, func(e *share[K]) part { return part{e.node, e.born, e.inc, e.dec} }), ok
}

// Len returns the number of keys.
func (m *PNCounterMap[K]) Len() int { return m.indexByKey().Len }

// All yields the keys with their counts, in no particular order. The map must not
// be changed meanwhile.
func (m *PNCounterMap[K]) All() iter.Seq2[K, int64] {
	return func(yield func(K, int64) bool) {
		m.indexByKey()
		for e := range m.set.All() {
			if g, _ := m.groups.GetContent(e.key); g[0] != e {
				continue
			}
			if n, _ := m.Count(e.key); !yield(e.key, n) {
				return
			}
		}
	}
}

// Merge joins other into the map and reports whether that changed anything. The
// keys whose counts it touched are added to ch, if that is not nil. Other may be
// nil.
func (m *PNCounterMap[K]) Merge(other *PNCounterMap[K], ch *Changes[K]) bool {
	if other == nil || other == m {
		return false
	}
	if m.groups == nil && ch == nil {
		return m.asSet().Merge(other.asSet(), nil)
	}
	m.indexByKey()
	var c Changes[share[K]]
	changed := m.asSet().Merge(other.asSet(), &c)
	t := tracker[K]{has: func(k K) bool { _, ok := m.groups.GetContent(k); return ok }}
	for _, e := range c.Added {
		t.before(e.key)
		m.addShare(e)
	}
	for _, e := range c.Removed {
		t.before(e.key)
		m.elementLeft(e)
	}
	t.reportChanges(ch)
	return changed
}

// Context returns a copy of the causal context.
func (m *PNCounterMap[K]) Context() *Context { return m.asSet().Context() }

// Kind implements Value.
func (m *PNCounterMap[K]) Kind() Kind {
	if m == nil {
		return KindPNCounterMap
	}
	return m.asSet().kindAs(KindPNCounterMap)
}

// Join implements Value.
func (m *PNCounterMap[K]) Join(other Value) (bool, error) {
	o, ok := other.(*PNCounterMap[K])
	if !ok || o != nil && !m.asSet().fits(o.asSet()) {
		return false, mismatch(m, other)
	}
	if o == nil {
		return false, nil
	}
	return m.set.joinWith(&o.set, func() bool { return m.Merge(o, nil) })
}

// Clone implements Value.
func (m *PNCounterMap[K]) Clone() Value {
	c := &PNCounterMap[K]{set: m.asSet().copy()}
	if m.set.full != nil {
		c.groups = m.indexByKey().ShareIndex()
	}
	return c
}

// Digest implements Value.
func (m *PNCounterMap[K]) Digest() uint64 { return m.asSet().Digest() }

// Append implements Value.
func (m *PNCounterMap[K]) Append(b []byte) []byte { return m.asSet().appendAs(b, m.Kind()) }

// Size implements Value.
func (m *PNCounterMap[K]) Size() int { return m.asSet().Size() }

// Decode replaces the map with an encoded one. On error it is left as it was. The
// map keeps its codec.
func (m *PNCounterMap[K]) Decode(b []byte) error {
	err := m.asSet().decodeAs(b, m.Kind())
	if err == nil {
		m.groups = nil
	}
	return err
}

// Claims yields the writers in the causal context, each with its highest sequence number
// there, in no particular order. It may yield a writer more than once.
func (m *PNCounterMap[K]) Claims() iter.Seq2[NodeID, uint64] { return m.set.Claims() }
