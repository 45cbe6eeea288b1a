package crdt

import (
	"math/bits"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/dots"
	"github.com/peerage-go/peerage/internal/crdt/shared"
)

// Everything causal in this package, sets, maps, flags and registers, is one
// structure: a set of live dots with a payload each, and the causal context, the
// set of all dots ever seen. A dot binds to one payload for ever, so membership
// can be decided on dots alone, and payloads are touched only where a dot comes or
// goes:
//
//	live(A join B) = (A and B) or (A minus seen(B)) or (B minus seen(A))
//	seen(A join B) = seen(A) or seen(B)
//
// A delta is a small value of the same kind. Its context holds exactly the dots it
// witnesses: those it adds and those it replaces or removes. A version vector in
// its place would claim all earlier dots of that writer as well, and the join
// would then remove whatever the receiver has of them. (Akka #22890; GoAkt still
// loses data that way.) Because contexts are exact sets and not vectors, deltas
// may be lost, doubled and reordered: a gap stays a gap until something fills it.
//
// Tried and rejected: an element -> dots map joined element by element (a
// converged join of 100,000 elements costs milliseconds instead of a microsecond);
// a vector plus a cloud of loose dots (two forms of one fact, and compaction to
// keep them apart); tombstones (they grow for ever).

const (
	// A change of a shared value copies one page (shared.Leaves).
	pageBits = 8
	pageLen  = 1 << pageBits
	// nodesMax bounds the writers of one value: the upper 20 bits of a packed dot.
	nodesMax = 1 << 20
	seqBits  = 44
)

// packed is a dot whose writer is given by its index in the value's own table.
// Indexes differ between processes and never leave them.
type packed uint64

func pack(ci int, seq uint64) packed { return packed(uint64(ci)<<seqBits | seq) }

func (p packed) column() int { return int(p >> seqBits) }

func (p packed) seq() uint64 { return uint64(p) & seqMax }

// slot holds the payload of one live dot. A free slot has the dot 0.
type slot[P any] struct {
	dot packed
	val P
}

// causal is a set of live dots with payloads, and the causal context.
//
// Invariant: slots and live dots are in one-to-one relation; sum is the sum of
// dotHash over live dots and spanHash over seen spans; bytes is the sum of the
// payloads' encoded sizes.
type causal[P any] struct {
	columns []column
	index   map[NodeID]int // nil while there are few columns
	idle    int            // unused columns
	pages   shared.Leaves[slot[P]]
	slots   int // slots ever handed out
	free    []uint32
	live    int
	sum     uint64
	bytes   int
	measure func(*P) (hash uint64, size int)
	diffs   *differences // of the latest join, nil before the first
}

// differences are the dots that a join found to differ.
type differences struct {
	come  []arrival
	gone  []uint32
	clash []arrival // dots that are live on both sides with different payloads
}

// arrival is a dot to be taken over in a join.
type arrival struct {
	column int
	seq    uint64
	from   uint32 // slot in the other value
}

// linearMax is how many columns are searched without an index.
const linearMax = 12

// lookup returns the column of a writer, or -1.
func (c *causal[P]) lookup(n NodeID) int {
	if c.index != nil {
		if i, ok := c.index[n]; ok {
			return i
		}
		return -1
	}
	for i := range c.columns {
		if c.columns[i].node == n && c.columns[i].used {
			return i
		}
	}
	return -1
}

// column returns the column of a writer and makes one where there is none.
func (c *causal[P]) column(n NodeID) int {
	if i := c.lookup(n); i >= 0 {
		return i
	}
	i := len(c.columns)
	if c.idle > 0 {
		i = slices.IndexFunc(c.columns, func(x column) bool { return !x.used })
		c.idle--
		c.columns[i] = column{node: n, used: true}
	} else {
		if i >= nodesMax {
			panic("crdt: more than a million writers in one value: prune those that are dead")
		}
		c.columns = append(c.columns, column{node: n, used: true})
	}
	if c.index == nil && len(c.columns) > linearMax {
		c.index = make(map[NodeID]int, 2*len(c.columns))
		for k := range c.columns {
			if c.columns[k].used {
				c.index[c.columns[k].node] = k
			}
		}
	}
	if c.index != nil {
		c.index[n] = i
	}
	return i
}

// next draws the next dot of a writer and marks it as seen.
func (c *causal[P]) next(n NodeID) (ci int, seq uint64) {
	ci = c.column(n)
	col := &c.columns[ci]
	seq = col.seen.max() + 1
	if seq > seqMax {
		panic("crdt: a writer has used all its sequence numbers")
	}
	if n := len(col.seen); n > 0 {
		last := &col.seen[n-1]
		c.sum += spanHash(col.node, last.from, seq) - spanHash(col.node, last.from, last.to)
		last.to = seq
	} else {
		c.addSeen(ci, seq, seq)
	}
	return ci, seq
}

// peek returns the sequence that next would draw.
func (c *causal[P]) peek(n NodeID) uint64 {
	if i := c.lookup(n); i >= 0 {
		return c.columns[i].seen.max() + 1
	}
	return 1
}

func (c *causal[P]) addSeen(ci int, from, to uint64) bool {
	sum, changed := c.columns[ci].addSeen(from, to)
	c.sum += sum
	return changed
}

// slotAt returns slot s for reading.
func (c *causal[P]) slotAt(s uint32) *slot[P] { return &c.pages.List[s>>pageBits][s&(pageLen-1)] }

// editSlot returns slot s for writing.
func (c *causal[P]) editSlot(s uint32) *slot[P] {
	return &c.pages.DetachLeaf(int(s >> pageBits))[s&(pageLen-1)]
}

// dot returns the dot in slot s.
func (c *causal[P]) dot(s uint32) Dot {
	p := c.slotAt(s).dot
	return Dot{c.columns[p.column()].node, p.seq()}
}

// insertDot makes a seen dot live.
func (c *causal[P]) insertDot(ci int, seq uint64, val P) uint32 {
	var s uint32
	if n := len(c.free); n > 0 {
		s = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		s = uint32(c.slots)
		c.pages.AppendElement(slot[P]{}, pageLen)
		c.slots++
	}
	x := c.editSlot(s)
	x.dot, x.val = pack(ci, seq), val
	c.columns[ci].putSlot(seq, s)
	hash, size := c.measure(&x.val)
	c.sum += dotHash(c.columns[ci].node, seq, hash)
	c.bytes += size
	c.live++
	return s
}

// removeDot ends the dot in slot s. The payload is forgotten, the dot stays seen.
func (c *causal[P]) removeDot(s uint32) {
	x := c.editSlot(s)
	ci, seq := x.dot.column(), x.dot.seq()
	hash, size := c.measure(&x.val)
	c.sum -= dotHash(c.columns[ci].node, seq, hash)
	c.bytes -= size
	c.columns[ci].dropSlot(seq)
	*x = slot[P]{}
	c.free = append(c.free, s)
	c.live--
}

// redot gives slot s a new dot, seen before, in place of its own.
func (c *causal[P]) redot(s uint32, ci int, seq uint64) {
	x := c.editSlot(s)
	hash, _ := c.measure(&x.val)
	old, oldSeq := x.dot.column(), x.dot.seq()
	c.sum -= dotHash(c.columns[old].node, oldSeq, hash)
	c.columns[old].dropSlot(oldSeq)
	x.dot = pack(ci, seq)
	c.columns[ci].putSlot(seq, s)
	c.sum += dotHash(c.columns[ci].node, seq, hash)
}

// hooks tell the type that uses a causal what a join changes. Arrivals are
// reported first, so that a payload whose dot is replaced by another is never
// absent in between.
type hooks[P any] interface {
	// arrived is called after a dot became live in slot s.
	arrived(s uint32)
	// leaving is called before the dot in slot s ends.
	leaving(s uint32)
}

// join merges o into c.
func (c *causal[P]) join(o *causal[P], h hooks[P]) (changed bool) {
	if c.diffs == nil {
		c.diffs = &differences{}
	}
	d := c.diffs
	d.come, d.gone = d.come[:0], d.gone[:0]
	d.clash = c.findClashes(d.clash[:0], o)
	for i := range o.columns {
		oc := &o.columns[i]
		if !oc.used {
			continue
		}
		ci := c.column(oc.node)
		cc := &c.columns[ci]
		cc.diff(oc,
			func(seq uint64) {
				s, _ := cc.slotOf(seq)
				d.gone = append(d.gone, s)
			},
			func(seq uint64) {
				s, _ := oc.slotOf(seq)
				d.come = append(d.come, arrival{ci, seq, s})
			})
	}
	for i := range o.columns {
		if oc := &o.columns[i]; oc.used {
			sum, more := c.columns[c.column(oc.node)].seeAll(oc.seen)
			c.sum += sum
			changed = changed || more
		}
	}
	for _, a := range d.come {
		h.arrived(c.insertDot(a.column, a.seq, o.slotAt(a.from).val))
	}
	for _, s := range d.gone {
		h.leaving(s)
		c.removeDot(s)
	}
	for _, a := range d.clash {
		c.settleClash(a.column, a.seq, o.slotAt(a.from).val, h)
	}
	changed = changed || len(d.come)+len(d.gone)+len(d.clash) > 0
	if cap(d.come)+cap(d.gone)+cap(d.clash) > differencesKept {
		c.diffs = nil
	}
	return changed
}

// clashLiveMax is how many live dots the joined value may have for its payloads to be
// compared. Larger values that differ are exchanged in parts or chunks below that.
const clashLiveMax = 4096

// differencesKept is for how many differences a value keeps room until its next join.
const differencesKept = 1024

// findClashes appends the dots that are live in both values with different payloads,
// where o's payload wins. Correct writers never make any: a dot is bound to one payload.
// But a reused NodeID or a damaged frame can, and replicas must converge all the same.
func (c *causal[P]) findClashes(out []arrival, o *causal[P]) []arrival {
	if o.live > clashLiveMax || o.live == 0 || c.sum == o.sum {
		return out
	}
	for i := range o.columns {
		oc := &o.columns[i]
		if !oc.used || oc.live == 0 {
			continue
		}
		ci := c.lookup(oc.node)
		if ci < 0 || c.columns[ci].live == 0 {
			continue
		}
		oc.each(func(seq uint64, from uint32) {
			if s, ok := c.columns[ci].slotOf(seq); ok && c.loses(s, &o.slotAt(from).val) {
				out = append(out, arrival{ci, seq, from})
			}
		})
	}
	return out
}

// loses reports whether the payload in slot s gives way to val. The greater hash stays,
// whichever side it comes from.
func (c *causal[P]) loses(s uint32, val *P) bool {
	have, _ := c.measure(&c.slotAt(s).val)
	other, _ := c.measure(val)
	return have < other
}

// settleClash gives a live dot another payload.
func (c *causal[P]) settleClash(ci int, seq uint64, val P, h hooks[P]) {
	s, ok := c.columns[ci].slotOf(seq)
	if !ok {
		return
	}
	h.leaving(s)
	c.removeDot(s)
	h.arrived(c.insertDot(ci, seq, val))
}

// room returns an error if a join of c and o would have more than most writers.
func (c *causal[P]) room(o *causal[P], most int) error {
	n := len(c.columns) - c.idle + len(o.columns) - o.idle
	if n <= most {
		return nil
	}
	for i := range o.columns {
		if o.columns[i].used && c.lookup(o.columns[i].node) >= 0 {
			n--
		}
	}
	if n > most {
		return &LimitError{Field: "writers", Declared: uint64(n), Max: uint64(most)}
	}
	return nil
}

// diffBlock is column.diff for one block; a or b may be nil.
func diffBlock(key uint64, seenA, seenB spans, a, b *dots.Block, gone, come func(seq uint64)) {
	var liveA, liveB dots.Bitmap
	if a != nil {
		liveA = a.Live()
	}
	if b != nil {
		liveB = b.Live()
	}
	maskA, maskB := seenA.mask(key), seenB.mask(key)
	base := key << dots.BlockBits
	for w := range liveA {
		for x := liveA[w] &^ liveB[w] & maskB[w]; x != 0; x &= x - 1 {
			gone(base + uint64(w<<6+bits.TrailingZeros64(x)))
		}
		for x := liveB[w] &^ maskA[w]; x != 0; x &= x - 1 {
			come(base + uint64(w<<6+bits.TrailingZeros64(x)))
		}
	}
}

// order returns the indexes of the used columns, by writer.
func (c *causal[P]) order() []int {
	out := make([]int, 0, len(c.columns))
	for i := range c.columns {
		if c.columns[i].used {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, func(a, b int) int {
		return Dot{c.columns[a].node, 0}.Compare(Dot{c.columns[b].node, 0})
	})
	return out
}

// copyInto makes d a copy of c. Pages and blocks are shared until one of the two changes
// them.
func (c *causal[P]) copyInto(d *causal[P]) {
	*d = causal[P]{
		idle: c.idle, slots: c.slots, live: c.live, sum: c.sum, bytes: c.bytes,
		measure: d.measure, pages: c.pages.ShareAll(),
	}
	d.columns = make([]column, len(c.columns))
	for i := range c.columns {
		d.columns[i] = c.columns[i].shareColumn()
	}
	if c.index != nil {
		d.index = make(map[NodeID]int, len(c.index))
		for i := range d.columns {
			if d.columns[i].used {
				d.index[d.columns[i].node] = i
			}
		}
	}
	d.free = slices.Clone(c.free)
}

// wasteful reports whether most slots are free, so that a copy would give memory
// back. The copy costs each of the removes before it a seventh of an add.
func (c *causal[P]) wasteful() bool { return c.slots > 2*pageLen && c.live*8 < c.slots }

// context returns a copy of the causal context.
func (c *causal[P]) context() *Context {
	x := &Context{}
	for _, i := range c.order() {
		if col := &c.columns[i]; len(col.seen) > 0 {
			x.nodes = append(x.nodes, nodeSpans{col.node, col.seen.clone()})
		}
	}
	return x
}

func (c *causal[P]) claims(yield func(NodeID, uint64) bool) {
	for i := range c.columns {
		if col := &c.columns[i]; col.used && len(col.seen) > 0 && !yield(col.node, col.seen.max()) {
			return
		}
	}
}

// Digests are sums of the hashes of the parts, modulo 2^64: each change adds
// or takes away its own part, and the order in which parts came plays no role.
const (
	hashKey0    = 0xa0761d6478bd642f
	hashKey1    = 0xe7037ed1a0b428db
	hashIntKey  = 0x8ebc6af09c88c6e3
	hashSpanKey = 0x589965cc75374cc3
)

// mix hashes two words into one.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^hashKey0, b^hashKey1)
	return hi ^ lo ^ a + b
}

func dotHash(node NodeID, seq, payload uint64) uint64 {
	return mix(mix(uint64(node), seq), payload)
}

func spanHash(node NodeID, from, to uint64) uint64 {
	return mix(mix(uint64(node), from)^hashSpanKey, to)
}
