package main

import (
	"cmp"
	"slices"
	"time"
)

const (
	// signalDelay is how long after its signal a pause begins, or ends, at the latest.
	signalDelay = int64(100 * time.Millisecond)
	// admittedMost is how many handlers of one process a pause may hold back between the check
	// of the lease and their first instruction.
	admittedMost = 4
)

// run is one run of a handler. A handler without an end has only a begin.
type run struct {
	record
	// answer is the answer that the run gave, if a caller had one.
	answer *record
}

// counterHistory is what is known of one counter.
type counterHistory struct {
	runs    []*run // in the order of their start
	tells   []record
	answers []*record
	// unfounded are answers that no run explains.
	unfounded []*record
}

// historyOf sorts the records of a counter, and finds the run that gave each answer.
func historyOf(records []record) *counterHistory {
	h := &counterHistory{}
	type identity struct {
		node  uint64
		token token
		start int64
	}
	ended := map[identity]bool{}
	for _, r := range records {
		if r.kind == handled {
			ended[identity{r.node, r.token, r.start}] = true
		}
	}
	for i := range records {
		switch r := records[i]; r.kind {
		case handled:
			h.runs = append(h.runs, &run{record: r})
		case handlerStarted:
			if !ended[identity{r.node, r.token, r.start}] {
				r.end = r.start
				h.runs = append(h.runs, &run{record: r})
			}
		case told:
			h.tells = append(h.tells, r)
		case answered:
			h.answers = append(h.answers, &records[i])
		}
	}
	h.matchAnswers()
	return h
}

// matchAnswers gives each answer a run of its own that had the same count and lies between
// question and answer. As many answers as possible have one: the runs come in the order of
// their start, and each takes, of the answers asked before it, the one that came first behind
// its end.
func (h *counterHistory) matchAnswers() {
	runs, answers := map[uint64][]*run{}, map[uint64][]*record{}
	for _, r := range h.runs {
		if r.kind == handled {
			runs[r.value] = append(runs[r.value], r)
		}
	}
	for _, a := range h.answers { // in the order of their start
		answers[a.value] = append(answers[a.value], a)
	}
	for value, waiting := range answers {
		var open []*record // asked before the run, by their end
		for _, r := range runs[value] {
			for len(waiting) > 0 && waiting[0].start <= r.start {
				i, _ := slices.BinarySearchFunc(open, waiting[0].end, endsAt)
				open, waiting = slices.Insert(open, i, waiting[0]), waiting[1:]
			}
			i, _ := slices.BinarySearchFunc(open, r.end, endsAt)
			if i < len(open) {
				r.answer = open[i]
				open = slices.Delete(open, i, i+1)
			}
		}
		h.unfounded = append(append(h.unfounded, open...), waiting...)
	}
	slices.SortFunc(h.unfounded, func(a, b *record) int { return compareStarts(*a, *b) })
}

// endsAt compares the end of a record with an instant.
func endsAt(r *record, end int64) int { return cmp.Compare(r.end, end) }

// heldBack returns the handler that the pause of a round may have held back, after its instance
// had checked its lease: the first one of the counter at the paused process to begin afterwards,
// soon after the end of the pause, if its message was sent before the pause, and a later
// allocation had run before it.
func (h *counterHistory) heldBack(r *round) (record, bool) {
	if r.HeldTo == 0 {
		return record{}, false
	}
	var first *record
	look := func(x *record) {
		if x.start >= r.HeldTo && slices.Contains(r.Nodes, x.node) && (first == nil || x.start < first.start) {
			first = x
		}
	}
	for _, x := range h.runs {
		if x.kind == handled {
			look(&x.record)
		}
	}
	for i := range h.tells {
		look(&h.tells[i])
	}
	if first == nil || first.sent == 0 || first.sent >= r.HeldFrom+signalDelay || first.start >= r.HeldTo+signalDelay {
		return record{}, false
	}
	succeeded := slices.ContainsFunc(h.runs, func(x *run) bool {
		return x.kind == handled && first.token.less(x.token) && x.start < first.start
	})
	succeeded = succeeded || slices.ContainsFunc(h.tells, func(x record) bool {
		return first.token.less(x.token) && x.start < first.start
	})
	return *first, succeeded
}

// countAdmitted counts the handlers that each pause may have held back.
func (c *court) countAdmitted(groups [][]int) error {
	paused := slices.ContainsFunc(c.facts.Rounds, func(r round) bool { return r.HeldTo != 0 })
	if !paused {
		return nil
	}
	return bySubject(c.src, groups, func(s subject, records []record) {
		if s.space != ofEntity {
			return
		}
		h := historyOf(records)
		for i := range c.facts.Rounds {
			if _, found := h.heldBack(&c.facts.Rounds[i]); found {
				c.admitted[i]++
			}
		}
	})
}

// excusePauses takes out what G1 allows a paused process: the end of a handler that ran when the
// pause began, and a handler that it held back, unless there were too many in one pause.
func (c *court) excusePauses(h *counterHistory) {
	for i := range c.facts.Rounds {
		r := &c.facts.Rounds[i]
		late, found := h.heldBack(r)
		if !found || c.admitted[i] > admittedMost {
			continue
		}
		same := func(x record) bool { return x.file == late.file && x.number == late.number }
		h.runs = slices.DeleteFunc(h.runs, func(x *run) bool { return same(x.record) })
		h.tells = slices.DeleteFunc(h.tells, same)
	}
	for i := range c.facts.Rounds {
		r := &c.facts.Rounds[i]
		for _, x := range h.runs {
			if r.HeldTo != 0 && slices.Contains(r.Nodes, x.node) && x.start < r.HeldFrom+signalDelay && x.end > r.HeldFrom && x.end >= r.HeldTo {
				x.end = x.start
			}
		}
	}
}

// judgeCounter judges the records of one counter of the nodes.
func (c *court) judgeCounter(records []record) {
	h := historyOf(records)
	for _, r := range records {
		switch r.kind {
		case handled:
			c.of(oneInstance).checked++
			c.of(nothingLost).checked++
			c.of(tokensRise).checked++
		case answered:
			c.of(answersFounded).checked++
			c.of(copiesKeep).checked++
		case told:
			c.of(inOrder).checked++
		}
	}
	for _, a := range h.unfounded {
		c.of(answersFounded).breakAt(a.start, "no run of a handler explains %s", c.describeRecord(*a))
	}
	c.excusePauses(h)
	c.judgeInstances(h)
	c.judgeTokens(h)
	c.judgeCounts(h)
	if c.facts.copies() > 0 {
		c.judgeCopies(h)
	}
	c.judgeOrder(h)
	c.judgeLinear(h)
	c.judgeMoves(h)
}

// judgeInstances judges that no two runs overlap, and that none has a token below an earlier
// one, or the same token on another node.
func (c *court) judgeInstances(h *counterHistory) {
	p := c.of(oneInstance)
	var longest, highest *run
	for _, r := range h.runs {
		switch {
		case longest == nil:
			longest, highest = r, r
			continue
		case r.start < longest.end:
			p.breakAt(r.start, "%s ran when %s began", c.describeRecord(longest.record), c.describeRecord(r.record))
		case r.token.less(highest.token), r.token == highest.token && r.node != highest.node:
			p.breakAt(r.start, "%s began after %s", c.describeRecord(r.record), c.describeRecord(highest.record))
		}
		if r.end > longest.end {
			longest = r
		}
		if highest.token.less(r.token) {
			highest = r
		}
	}
}

// judgeTokens judges that tokens rise, also if runs overlap.
func (c *court) judgeTokens(h *counterHistory) {
	p := c.of(tokensRise)
	var highest *run
	for _, r := range h.runs {
		switch {
		case highest == nil, highest.token.less(r.token):
			highest = r
		case r.token.less(highest.token), r.node != highest.node:
			p.breakAt(r.start, "%s began after %s", c.describeRecord(r.record), c.describeRecord(highest.record))
		}
	}
}

// judgeCounts judges that each run counts one more than the run before it, the first one to 1.
// The count begins again where its process may have lost its memory: with 1, or with copies at
// most one above the highest count so far.
func (c *court) judgeCounts(h *counterHistory) {
	p := c.of(nothingLost)
	var last *run
	highest := uint64(0)
	for _, r := range h.runs {
		if r.kind != handled {
			continue
		}
		switch {
		case last == nil && r.value != 1:
			p.breakAt(r.start, "the first run is %s, want value 1", c.describeRecord(r.record))
		case last == nil || r.value == last.value+1:
		case last.node == r.node && last.token == r.token,
			!anyTouches(c.anyLost, last.end, r.start),
			c.facts.copies() == 0 && r.value != 1,
			r.value > highest+1:
			p.breakAt(r.start, "%s follows %s", c.describeRecord(r.record), c.describeRecord(last.record))
		}
		last, highest = r, max(highest, r.value)
	}
}

// judgeCopies judges that each run counts above all answers that came before it began, unless
// a majority of the copies was lost since.
func (c *court) judgeCopies(h *counterHistory) {
	p := c.of(copiesKeep)
	answers := slices.Clone(h.answers)
	slices.SortStableFunc(answers, func(a, b *record) int { return cmp.Compare(a.end, b.end) })
	spans := c.mostCopies
	var highest *record // of the answers since the last span
	since, next := int64(0), 0
	for _, r := range h.runs {
		if r.kind != handled {
			continue
		}
		for len(spans) > 0 && spans[0].from < r.start {
			since, spans = spans[0].to, spans[1:]
			if highest != nil && highest.end < since {
				highest = nil
				for _, a := range answers[:next] { // those that came in the span's last moment
					if a.end >= since && (highest == nil || a.value > highest.value) {
						highest = a
					}
				}
			}
		}
		for ; next < len(answers) && answers[next].end < r.start; next++ {
			if a := answers[next]; a.end >= since && (highest == nil || a.value > highest.value) {
				highest = a
			}
		}
		if highest != nil && r.value <= highest.value {
			p.breakAt(r.start, "%s counts no higher than %s", c.describeRecord(r.record), c.describeRecord(*highest))
		}
	}
}

// judgeOrder judges that the messages of each process were handled in the order of their
// numbers, over all instances. Gaps are allowed.
func (c *court) judgeOrder(h *counterHistory) {
	p := c.of(inOrder)
	highest := map[uint64]record{}
	for _, r := range h.tells {
		if last, found := highest[r.sender]; found && r.value <= last.value {
			p.breakAt(r.start, "%s follows %s", c.describeRecord(r), c.describeRecord(last))
			continue
		}
		highest[r.sender] = r
	}
}

// judgeMoves judges that no shard moved more than twice, in a rolling restart.
func (c *court) judgeMoves(h *counterHistory) {
	p := c.of(fewMoves)
	tokens := map[token]bool{}
	var last *run
	for _, r := range h.runs {
		if r.kind == handled && r.start < c.facts.Ended && r.end > c.facts.CalmFrom {
			tokens[r.token], last = true, r
		}
	}
	if p.checked++; len(tokens) > 3 {
		p.breakAt(last.start, "%d moves until %s", len(tokens)-1, c.describeRecord(last.record))
	}
}
