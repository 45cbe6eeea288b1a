package main

import (
	"cmp"
	"math"
	"slices"
)

// lostByService returns the rounds in which a service may lose what it has acknowledged: one
// that keeps it on disk never does, one with copies if half of them or more lose their memory,
// and one that keeps it in memory also if its processes end in order.
func (c *court) lostByService() []span {
	s := c.facts.Config.Service
	switch s.Keeps {
	case "disk":
		return nil
	case "copies":
		return c.facts.halfLost(s.Copies)
	}
	var out []span
	for _, r := range c.facts.Rounds {
		if r.taken() > 0 || r.inOrder() {
			out = append(out, span{r.From, r.To})
		}
	}
	return out
}

// betweenLosses returns the stretches of time between losses, within which nothing may be lost.
func betweenLosses(lost []span) []span {
	var out []span
	from := int64(0)
	for _, s := range lost {
		out = append(out, span{from, s.from})
		from = s.to
	}
	return append(out, span{from, math.MaxInt64})
}

// judgeOutsideCounter judges a counter of a service by its answers alone. An attempt without an
// answer may have raised it once, at any time after its begin.
func (c *court) judgeOutsideCounter(records []record) {
	for _, r := range records {
		if r.kind == counted {
			c.of(countOnce).checked++
			c.of(callersLost).checked++
			c.of(counterLinear).checked++
		}
	}
	for i, in := range betweenLosses(c.lostByService()) {
		var answers []record
		var begins []int64 // of what may have raised the counter without an answer
		for _, r := range records {
			switch {
			case r.kind != counted && r.kind != unsure:
			case r.kind == counted && r.start >= in.from && r.end < in.to:
				answers = append(answers, r)
			case r.kind == unsure || r.start < in.to:
				begins = append(begins, r.start)
			}
		}
		c.judgeAnswers(answers, begins, i)
	}
}

// judgeAnswers judges the answers of a counter in one of its lives. In the first one it began at 0.
func (c *court) judgeAnswers(answers []record, begins []int64, life int) {
	c.judgeReturns(answers)
	slices.SortStableFunc(answers, func(a, b record) int { return cmp.Compare(a.value, b.value) })
	slices.Sort(begins)
	if c.export != nil && len(answers) > 0 {
		from := uint64(0)
		if life > 0 {
			from = answers[0].value - 1
		}
		c.export.addAnswers(answers, begins, life, from)
	}
	// soonest[i] is when the first answer from the i-th count on had come: all lower counts had
	// begun by then.
	soonest := make([]int64, len(answers))
	soon := int64(math.MaxInt64)
	for i := len(answers) - 1; i >= 0; i-- {
		soon = min(soon, answers[i].end)
		soonest[i] = soon
	}
	last, known := uint64(0), life == 0
	for i, a := range answers {
		if i > 0 && a.value == answers[i-1].value {
			c.of(countOnce).breakAt(a.end, "%s had the count of %s", c.describeRecord(a), c.describeRecord(answers[i-1]))
			c.of(counterLinear).breakAt(a.end, "%s had the count of %s", c.describeRecord(a), c.describeRecord(answers[i-1]))
			continue
		}
		// The counts between this one and the last belong to attempts without an answer.
		if missing := a.value - last - 1; known && missing > 0 {
			if missing > uint64(len(begins)) || begins[missing-1] > soonest[i] {
				c.of(counterLinear).breakAt(a.end, "%s counts higher than all attempts that had begun", c.describeRecord(a))
				return
			}
			begins = begins[missing:]
		}
		last, known = a.value, true
	}
}

// judgeReturns judges that a request that was called after another one had returned has a higher
// count. The answers are in the order of their start.
func (c *court) judgeReturns(answers []record) {
	byEnd := slices.Clone(answers)
	slices.SortStableFunc(byEnd, func(a, b record) int { return cmp.Compare(a.end, b.end) })
	var highest *record
	for _, a := range answers {
		for len(byEnd) > 0 && byEnd[0].end < a.start {
			if highest == nil || byEnd[0].value > highest.value {
				highest = &byEnd[0]
			}
			byEnd = byEnd[1:]
		}
		if highest != nil && a.value < highest.value {
			c.of(callersLost).breakAt(a.end, "%s counts lower than %s", c.describeRecord(a), c.describeRecord(*highest))
			c.of(counterLinear).breakAt(a.end, "%s counts lower than %s", c.describeRecord(a), c.describeRecord(*highest))
		}
	}
}

// stay is what is known of the time in which a register had one value.
type stay struct {
	value uint64
	// from is the first end of the value's write and reads, to the last begin among them: if from
	// is before to, the register had the value in between.
	from, to int64
	// begun is when its write began, seenBy when its first read had ended.
	begun, seenBy int64
	written, read bool
	example       record
}

// judgeOutsideRegister judges that an order of the writes and reads of a register explains what
// was read. Each value is written once. So an order exists if of no two values each one must
// have been there before the other.
func (c *court) judgeOutsideRegister(records []record) {
	p := c.of(registerLinear)
	for _, r := range records {
		if r.kind == wrote || r.kind == seen {
			p.checked++
		}
	}
	if c.export != nil {
		c.export.addRegister(records, c.lostByService())
	}
	for i, in := range betweenLosses(c.lostByService()) {
		c.judgeStays(p, staysOf(records, in), in.from, i == 0)
	}
}

// staysOf collects the values that a register had between two losses, in the order in which they
// were first met.
func staysOf(records []record, in span) []*stay {
	index := map[uint64]*stay{}
	var out []*stay
	for _, r := range records {
		open := r.kind == unsure
		if r.kind != wrote && r.kind != seen && !open || r.start >= in.to || !open && r.end < in.from {
			continue
		}
		if r.kind == seen && (r.start < in.from || r.end >= in.to) {
			continue
		}
		s := index[r.value]
		if s == nil {
			s = &stay{value: r.value, from: math.MaxInt64, seenBy: math.MaxInt64, example: r}
			index[r.value], out = s, append(out, s)
		}
		if r.kind == seen {
			s.read, s.example = true, r
			s.seenBy, s.from, s.to = min(s.seenBy, r.end), min(s.from, r.end), max(s.to, r.start)
			continue
		}
		s.written, s.begun = true, max(r.start, in.from)
		s.to = max(s.to, s.begun)
		if !open && r.end < in.to {
			s.from = min(s.from, r.end)
		}
	}
	return out
}

// judgeStays judges the values of a register between two losses. If first is set, it had the
// value 0 before.
func (c *court) judgeStays(p *promise, stays []*stay, since int64, first bool) {
	initial := false
	stays = slices.DeleteFunc(stays, func(s *stay) bool {
		switch {
		case !s.written && (initial || first && s.value != 0):
			p.breakAt(s.to, "%s shows a value that no caller wrote", c.describeRecord(s.example))
			return true
		case !s.written: // it is the value from before
			initial, s.from = true, since-1
		case s.read && s.seenBy < s.begun:
			p.breakAt(s.to, "%s shows a value before its write began", c.describeRecord(s.example))
			return true
		}
		return false
	})
	slices.SortStableFunc(stays, func(a, b *stay) int { return cmp.Compare(a.from, b.from) })
	// latest[i] is the stay that lasts longest, of the first i+1.
	latest := make([]*stay, len(stays))
	for i, s := range stays {
		// A value u was there before s if u.from < s.to, and s before u if s.from < u.to.
		n, _ := slices.BinarySearchFunc(stays[:i], s.to, func(u *stay, to int64) int { return cmp.Compare(u.from, to) })
		if n > 0 && latest[n-1].to > s.from {
			p.breakAt(latest[n-1].to, "%s shows a value that had been overwritten by that of %s", c.describeRecord(latest[n-1].example), c.describeRecord(s.example))
		}
		if latest[i] = s; i > 0 && latest[i-1].to > s.to {
			latest[i] = latest[i-1]
		}
	}
}
