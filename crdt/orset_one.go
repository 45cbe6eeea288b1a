package crdt

import "encoding/binary"

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
	b = appendUint(appendArrayLen(b, 5), uint64(k))
	if lo.Node == hi.Node {
		b = appendUint(appendArrayLen(b, 1), uint64(lo.Node))
	} else {
		b = appendUint(appendUint(appendArrayLen(b, 2), uint64(lo.Node)), uint64(hi.Node))
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
	b = appendBin(b, dots)
	dots = appendLiveRun(dots[:0], o.dot, lo.Node)
	if lo.Node != hi.Node {
		dots = appendLiveRun(dots, o.dot, hi.Node)
	}
	b = appendBin(b, dots)
	if o.dot.Seq == 0 {
		return appendArrayLen(b, 0)
	}
	return s.element().codec.Append(appendArrayLen(b, 1), o.elem)
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
	r := &reader{b: b}
	r.tuple(5)
	readKind(r, k)
	n := r.arrayLen("nodes", 1)
	if n < 1 || n > 2 {
		return false
	}
	var nodes [2]NodeID
	for i := range n {
		nodes[i] = NodeID(r.uint())
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
		o.dot, o.elem = live[0], s.element().read(r)
	}
	found := liveLen == 0
	for _, d := range seen[:seenLen] {
		if d == o.dot {
			found = true
		} else {
			o.drop(d)
		}
	}
	for _, node := range nodes[:n] { // each must have been seen of
		if seen[0].Node != node && seen[seenLen-1].Node != node {
			return false
		}
	}
	if !found || r.done() != nil {
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
	p := blob{r.bin(), true}
	for _, node := range nodes {
		at := uint64(1)
		for range p.count(2) {
			from := at + p.next()
			last := p.next()
			if !p.ok || from < at || from > seqWireMax || last >= uint64(len(out)-n) || from+last > seqWireMax {
				return -1
			}
			for q := from; q <= from+last; q++ {
				out[n] = Dot{node, q}
				n++
			}
			at = from + last + 2
		}
	}
	if r.err != nil || !p.done() {
		return -1
	}
	return n
}
