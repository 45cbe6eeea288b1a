package crdt

import (
	"encoding/binary"
	"slices"

	"github.com/peerage-go/peerage/internal/crdt/canonical"
)

// A set that has seen changes of one writer alone, in one run, with one element or none,
// needs no index: it is kept in the form of a delta of one operation, with the first of
// the dots beside the last. Most sets, flags and registers of an application never leave
// this form. Other changes convert the set to the indexed form, permanently.

// seenRun returns the dots that o has seen if they are of one writer and have no gap.
func (o *oneDot[E]) seenRun() (node NodeID, low, top uint64, ok bool) {
	last := o.dot
	switch {
	case o.more != nil:
		return 0, 0, 0, false
	case o.dot.Seq == 0:
		last = o.gone
	case o.gone.Seq != 0:
		return o.dot.Node, o.gone.Seq, o.dot.Seq, o.low == 0 && o.gone.Node == o.dot.Node && o.gone.Seq+1 == o.dot.Seq
	}
	if low = o.low; low == 0 {
		low = last.Seq
	}
	return last.Node, low, last.Seq, last.Seq != 0
}

// advance makes d the one live dot after low, with e.
func (o *oneDot[E]) advance(low uint64, d Dot, e E) { *o = oneDot[E]{elem: e, dot: d, low: low} }

// retire ends the live dot.
func (o *oneDot[E]) retire(low uint64) {
	gone := o.dot
	if low == gone.Seq {
		low = 0
	}
	*o = oneDot[E]{gone: gone, low: low}
}

// addSmall is Add, with old taken out, as long as the set stays small; else it returns nil.
func (s *ORSet[E]) addSmall(node NodeID, e E, old ...E) *ORSet[E] {
	if s.full != nil {
		return nil
	}
	o := &s.one
	if o.empty() {
		o.elem, o.dot = e, Dot{node, 1}
		return &ORSet[E]{elem: s.elementType(), one: *o}
	}
	writer, low, top, ok := o.seenRun()
	if !ok || writer != node || top >= seqMax || o.dot.Seq != 0 && o.elem != e && !slices.Contains(old, o.elem) {
		return nil
	}
	d := &ORSet[E]{elem: s.elementType(), one: oneDot[E]{elem: e, dot: Dot{node, top + 1}, gone: o.dot}}
	o.advance(low, d.one.dot, e)
	return d
}

// eraseSmall is erase; ok is false if the set has to grow for it.
func (s *ORSet[E]) eraseSmall(old []E) (d *ORSet[E], ok bool) {
	if s.full != nil {
		return nil, false
	}
	if s.one.dot.Seq == 0 || !slices.Contains(old, s.one.elem) {
		return nil, true
	}
	_, low, _, ok := s.one.seenRun()
	if ok {
		d = &ORSet[E]{elem: s.elementType(), one: oneDot[E]{gone: s.one.dot}}
		s.one.retire(low)
	}
	return d, ok
}

// mergeSmall is Merge of a delta; ok is false if the set has to grow for it.
func (s *ORSet[E]) mergeSmall(other *ORSet[E], ch *Changes[E]) (changed, ok bool) {
	o, x := &s.one, &other.one
	if s.full != nil || other.full != nil {
		return false, false
	}
	if o.empty() {
		*o = x.clone()
		if o.dot.Seq != 0 {
			ch.recordAdded(o.elem)
		}
		return true, true
	}
	node, low, top, ok := o.seenRun()
	if !ok || x.low != 0 || x.more != nil {
		return false, false
	}
	last, live := Dot{node, top}, o.dot.Seq != 0
	within := func(d Dot) bool { return d.Node == node && d.Seq >= low && (d.Seq < top || d == last && !live) }
	switch {
	case x.dot == Dot{node, top + 1} && (x.gone == last || x.gone.Seq == 0 && !live):
		if !live || o.elem != x.elem {
			ch.recordAdded(x.elem)
		}
		if live && o.elem != x.elem {
			ch.recordRemoved(o.elem)
		}
		o.advance(low, x.dot, x.elem)
		return true, true
	case x.dot.Seq == 0 && live && x.gone == last:
		ch.recordRemoved(o.elem)
		o.retire(low)
		return true, true
	}
	known := x.dot.Seq == 0 || within(x.dot) || live && x.dot == last && x.elem == o.elem
	return false, known && (x.gone.Seq == 0 || within(x.gone))
}

// clone returns a copy that shares no memory with o.
func (o *oneDot[E]) clone() oneDot[E] {
	c := *o
	if rest := slices.Clone(o.rest()); rest != nil {
		c.more = &rest
	}
	return c
}

// smallSum is the digest of a set of at most two dots, or of one run of them.
func (s *ORSet[E]) smallSum() (sum uint64) {
	o := &s.one
	if o.dot.Seq != 0 {
		hash, _ := s.elementType().hashAndSize(o.elem)
		sum = dotHash(o.dot.Node, o.dot.Seq, hash)
	}
	if node, low, top, ok := o.seenRun(); ok {
		return sum + spanHash(node, low, top)
	}
	for _, d := range []Dot{o.dot, o.gone} {
		if o.gone.Node == o.dot.Node && o.gone.Seq == o.dot.Seq+1 {
			return sum + spanHash(d.Node, o.dot.Seq, o.gone.Seq)
		}
		if d.Seq != 0 {
			sum += spanHash(d.Node, d.Seq, d.Seq)
		}
	}
	return sum
}

// smallGarbage is garbage of a set of at most two dots, or of one run of them.
func (s *ORSet[E]) smallGarbage(dead func(NodeID) bool) (g Garbage) {
	o := &s.one
	switch node, low, top, ok := o.seenRun(); {
	case ok && o.dot.Seq == 0 && dead(node):
		g.addItem(spanHash(node, low, top))
	case !ok && o.gone.Seq != 0 && o.gone.Node != o.dot.Node && dead(o.gone.Node):
		g.addItem(spanHash(o.gone.Node, o.gone.Seq, o.gone.Seq))
	}
	return g
}

// The delta of one operation is written and read without building an index for it:
// that is what a replicator does for every change. The bytes are those that the
// indexed form gives.

// oneDotsMax is how many dots a delta may have to be read this way.
const oneDotsMax = 8

// appendOne writes the delta of one operation that replaces at most one dot.
func (s *ORSet[E]) appendOne(b []byte, k Kind) []byte {
	o := &s.one
	lo, hi := o.gone, o.dot
	switch {
	case lo.Seq == 0:
		lo = hi
	case hi.Seq == 0:
		hi = lo
	case hi.Compare(lo) < 0:
		lo, hi = hi, lo
	}
	b = canonical.AppendUint(canonical.AppendArrayLen(b, 5), uint64(k))
	if lo.Node == hi.Node {
		b = canonical.AppendUint(canonical.AppendArrayLen(b, 1), uint64(lo.Node))
	} else {
		b = canonical.AppendUint(canonical.AppendUint(canonical.AppendArrayLen(b, 2), uint64(lo.Node)), uint64(hi.Node))
	}
	var local [48]byte
	dots := local[:0]
	switch {
	case lo == hi:
		dots = spans{{lo.Seq, lo.Seq}}.append(dots)
	case lo.Node != hi.Node:
		dots = spans{{lo.Seq, lo.Seq}}.append(dots)
		dots = spans{{hi.Seq, hi.Seq}}.append(dots)
	case lo.Seq+1 == hi.Seq:
		dots = spans{{lo.Seq, hi.Seq}}.append(dots)
	default:
		dots = spans{{lo.Seq, lo.Seq}, {hi.Seq, hi.Seq}}.append(dots)
	}
	b = canonical.AppendBin(b, dots)
	dots = appendLiveRun(dots[:0], o.dot, lo.Node)
	if lo.Node != hi.Node {
		dots = appendLiveRun(dots, o.dot, hi.Node)
	}
	b = canonical.AppendBin(b, dots)
	if o.dot.Seq == 0 {
		return canonical.AppendArrayLen(b, 0)
	}
	return s.elementType().codec.Append(canonical.AppendArrayLen(b, 1), o.elem)
}

// appendLiveRun writes the live dots of one writer: d, or none.
func appendLiveRun(b []byte, d Dot, node NodeID) []byte {
	if d.Seq == 0 || d.Node != node {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(append(b, 1), d.Seq-1), 0)
}

// decodeOne reads the delta of one operation. It reports false, and changes
// nothing, if b is anything else, be it a larger set or nothing sound.
func (s *ORSet[E]) decodeOne(b []byte, k Kind) bool {
	r := &reader{canonical.Reader{B: b}}
	r.tuple(5)
	readKind(r, k)
	n := r.arrayLen("nodes", 1)
	if n < 1 || n > 2 {
		return false
	}
	var nodes [2]NodeID
	for i := range n {
		nodes[i] = NodeID(r.Uint())
	}
	if n == 2 && nodes[0] >= nodes[1] {
		return false
	}
	var seen, live [oneDotsMax]Dot
	seenLen := r.fewDots(nodes[:n], &seen)
	liveLen := r.fewDots(nodes[:n], &live)
	if seenLen < 1 || liveLen < 0 || liveLen > 1 || r.arrayLen("elements", 1) != liveLen {
		return false
	}
	var o oneDot[E]
	if liveLen == 1 {
		o.dot, o.elem = live[0], s.elementType().decodeElement(r)
	}
	found := liveLen == 0
	for _, d := range seen[:seenLen] {
		if d == o.dot {
			found = true
		} else {
			o.addGone(d)
		}
	}
	for _, node := range nodes[:n] { // each must have been seen of
		if seen[0].Node != node && seen[seenLen-1].Node != node {
			return false
		}
	}
	if !found || r.Done() != nil {
		return false
	}
	if last := seen[seenLen-1]; n == 1 && seenLen > 2 && last.Seq == seen[0].Seq+uint64(seenLen)-1 && (liveLen == 0 || o.dot == last) {
		elem := o.elem
		if o = (oneDot[E]{gone: last, low: seen[0].Seq}); liveLen == 1 {
			o.advance(seen[0].Seq, last, elem)
		}
	}
	s.full, s.one = nil, o
	return true
}

// fewDots reads a byte string of dots if they are few, or returns -1.
func (r *reader) fewDots(nodes []NodeID, out *[oneDotsMax]Dot) (n int) {
	p := canonical.Blob{B: r.Bin(), OK: true}
	for _, node := range nodes {
		at := uint64(1)
		for range p.Count(2) {
			from := at + p.Next()
			last := p.Next()
			if !p.OK || from < at || from > seqWireMax || last >= uint64(len(out)-n) || from+last > seqWireMax {
				return -1
			}
			for q := from; q <= from+last; q++ {
				out[n] = Dot{node, q}
				n++
			}
			at = from + last + 2
		}
	}
	if r.Err != nil || !p.Done() {
		return -1
	}
	return n
}

func (o *oneDot[E]) claims(yield func(NodeID, uint64) bool) {
	if o.dot.Seq != 0 && !yield(o.dot.Node, o.dot.Seq) || o.gone.Seq != 0 && !yield(o.gone.Node, o.gone.Seq) {
		return
	}
	for _, d := range o.rest() {
		if !yield(d.Node, d.Seq) {
			return
		}
	}
}

// oneDot is the delta of one operation, kept without any index: an add of one
// element, or a remove, with the dots that it replaces. It is also a small value
// (see the top of this file).
//
// Invariant: if low is not 0, more is nil and one of dot and gone is not used.
type oneDot[E any] struct {
	elem E
	dot  Dot    // of elem; no element if its Seq is 0
	gone Dot    // replaced or removed; none if its Seq is 0
	more *[]Dot // further ones, or nil
	low  uint64 // if not 0: all of the writer from here to dot, or to gone, was seen
}

func (o *oneDot[E]) empty() bool { return o.dot.Seq == 0 && o.gone.Seq == 0 }

func (o *oneDot[E]) rest() []Dot {
	if o.more == nil {
		return nil
	}
	return *o.more
}

func (o *oneDot[E]) addGone(d Dot) {
	if o.gone.Seq == 0 {
		o.gone = d
	} else {
		if o.more == nil {
			o.more = new([]Dot)
		}
		*o.more = append(*o.more, d)
	}
}
