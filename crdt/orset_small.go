package crdt

import "slices"

// A set that has seen changes of one writer alone, in one run, with one element or none,
// needs no index: it is kept in the form of a delta of one operation, with the first of
// the dots beside the last. Most sets, flags and registers of an application never leave
// this form. Other changes convert the set to the indexed form, permanently.

// run returns the dots that o has seen if they are of one writer and have no gap.
func (o *oneDot[E]) run() (node NodeID, low, top uint64, ok bool) {
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
		return &ORSet[E]{elem: s.element(), one: *o}
	}
	writer, low, top, ok := o.run()
	if !ok || writer != node || top >= seqMax || o.dot.Seq != 0 && o.elem != e && !slices.Contains(old, o.elem) {
		return nil
	}
	d := &ORSet[E]{elem: s.element(), one: oneDot[E]{elem: e, dot: Dot{node, top + 1}, gone: o.dot}}
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
	_, low, _, ok := s.one.run()
	if ok {
		d = &ORSet[E]{elem: s.element(), one: oneDot[E]{gone: s.one.dot}}
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
			ch.add(o.elem)
		}
		return true, true
	}
	node, low, top, ok := o.run()
	if !ok || x.low != 0 || x.more != nil {
		return false, false
	}
	last, live := Dot{node, top}, o.dot.Seq != 0
	within := func(d Dot) bool { return d.Node == node && d.Seq >= low && (d.Seq < top || d == last && !live) }
	switch {
	case x.dot == Dot{node, top + 1} && (x.gone == last || x.gone.Seq == 0 && !live):
		if !live || o.elem != x.elem {
			ch.add(x.elem)
		}
		if live && o.elem != x.elem {
			ch.remove(o.elem)
		}
		o.advance(low, x.dot, x.elem)
		return true, true
	case x.dot.Seq == 0 && live && x.gone == last:
		ch.remove(o.elem)
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
		hash, _ := s.element().hashAndSize(o.elem)
		sum = dotHash(o.dot.Node, o.dot.Seq, hash)
	}
	if node, low, top, ok := o.run(); ok {
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
	switch node, low, top, ok := o.run(); {
	case ok && o.dot.Seq == 0 && dead(node):
		g.add(spanHash(node, low, top))
	case !ok && o.gone.Seq != 0 && o.gone.Node != o.dot.Node && dead(o.gone.Node):
		g.add(spanHash(o.gone.Node, o.gone.Seq, o.gone.Seq))
	}
	return g
}
