package main

import (
	"cmp"
	"slices"
)

// operation is a request that raised a counter by one, with the interval in which it took effect
// as its caller saw it. One without an answer has the interval of its handler, and may have been
// lost with its process.
type operation struct {
	record
	call, ret int64
	sure      bool
}

// lives divides the operations of a counter where its count began again: between two runs that
// do not follow each other, and that a loss of memory lies between.
func lives(h *counterHistory, lost []span) (out [][]operation) {
	var last *run
	for _, r := range h.runs {
		if r.kind != handled {
			continue
		}
		if last == nil || r.value != last.value+1 && anyTouches(lost, last.end, r.start) {
			out = append(out, nil)
		}
		last = r
		op := operation{record: r.record, call: r.start, ret: r.end}
		if r.answer != nil {
			op.call, op.ret, op.sure = r.answer.start, r.answer.end, true
		}
		out[len(out)-1] = append(out[len(out)-1], op)
	}
	return out
}

// judgeLinear judges that an order of the requests of a counter explains its answers. Each
// request returns the count that it reached, so the counts are the only order that can: it does
// if they have no gap and no repetition, and if no request returned before one of a lower count
// was called.
func (c *court) judgeLinear(h *counterHistory) {
	p := c.of(counterLinear)
	for _, a := range h.unfounded {
		p.breakAt(a.start, "no request had the count of %s", c.describeRecord(*a))
	}
	lost := c.anyLost
	if c.facts.copies() > 0 {
		lost = c.mostCopies
	}
	for i, life := range lives(h, lost) {
		p.checked += len(life)
		least := life[0].value
		if i == 0 {
			least = 1
		}
		order := c.orderLife(p, life, least)
		if c.export != nil && len(order) > 0 {
			c.export.addCounter(order[0].entity, i, least-1, order)
		}
	}
}

// orderLife returns the operations of one life in the order of their counts, which begin at
// least. It leaves out those without an answer that the others do not need.
func (c *court) orderLife(p *promise, life []operation, least uint64) (order []operation) {
	slices.SortStableFunc(life, func(a, b operation) int { return cmp.Compare(a.value, b.value) })
	top := -1 // the last operation that has an answer
	for i, op := range life {
		if op.sure {
			top = i
		}
	}
	life = slices.DeleteFunc(life[:top+1], func(op operation) bool { return !op.sure && op.value < least })
	want := least
	var latest *operation // the one that was called last so far
	for i := 0; i < len(life); {
		next := i + 1
		for next < len(life) && life[next].value == life[i].value {
			next++
		}
		op := c.chooseOperation(p, life[i:next], latest)
		if op.value != want {
			p.breakAt(op.start, "the count goes from %d to that of %s", want-1, c.describeRecord(op.record))
		}
		if latest != nil && op.ret < latest.call {
			p.breakAt(op.start, "%s returned at %d, before %s was called at %d with a lower count", c.describeRecord(op.record), op.ret, c.describeRecord(latest.record), latest.call)
		}
		order = append(order, *op)
		if latest == nil || op.call > latest.call {
			latest = op
		}
		want, i = op.value+1, next
	}
	return order
}

// chooseOperation returns the operation that took effect, of those with one count: the one with
// an answer, or without one the first that fits behind latest.
func (c *court) chooseOperation(p *promise, same []operation, latest *operation) *operation {
	var sure, fits *operation
	for i := range same {
		op := &same[i]
		switch {
		case op.sure && sure != nil:
			p.breakAt(op.start, "%s had the count of %s", c.describeRecord(op.record), c.describeRecord(sure.record))
		case op.sure:
			sure = op
		case (fits == nil || op.call < fits.call) && (latest == nil || op.ret >= latest.call):
			fits = op
		}
	}
	switch {
	case sure != nil:
		return sure
	case fits != nil:
		return fits
	}
	return &same[0]
}
