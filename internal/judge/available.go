package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// servedWithin is how long a counter may be without an answer.
const servedWithin = int64(10 * time.Second)

// judgeService judges how one counter was served, and counts what the load had of it.
func (c *court) judgeService(records []record) {
	p := c.of(allAnswered)
	var ends []int64
	for _, r := range records {
		switch r.kind {
		case asked:
			p.checked++
		case failed:
			p.breakAt(r.start, "its caller gave up: %s", c.describeRecord(r))
		case answered:
			ends = append(ends, r.end)
			if r.start >= c.facts.CalmFrom && r.end < c.calmEnd() {
				c.promptly++
			}
		}
	}
	if entity := records[0].entity; int(entity) < c.facts.Config.Counters {
		slices.Sort(ends)
		c.judgeSilence(int64(entity), ends)
		c.met++
	}
}

// judgeMissing judges the counters of which there is no record: they had no answer.
func (c *court) judgeMissing() {
	for n := c.met; n < c.facts.Config.Counters; n++ {
		c.judgeSilence(unrecorded, nil)
	}
}

// unrecorded stands for a counter of which there is no record.
const unrecorded = -1

// judgeSilence judges that a counter was answered soon after each fault. Ends are sorted.
func (c *court) judgeSilence(entity int64, ends []int64) {
	p := c.of(servedAgain)
	for i := range c.facts.Rounds {
		in := c.facts.watched(i)
		p.checked++
		last := in.from
		first, _ := slices.BinarySearchFunc(ends, in.from, func(a, b int64) int { return cmp.Compare(a, b) })
		for _, end := range ends[first:] {
			if end >= in.to {
				break
			}
			if end-last > servedWithin {
				p.breakAt(last, "%s had no answer from %d to %d", nameOf(entity), last, end)
			}
			last = end
		}
		if in.to-last > servedWithin {
			p.breakAt(last, "%s had no answer from %d to %d", nameOf(entity), last, in.to)
		}
	}
}

// nameOf names a counter for a violation.
func nameOf(entity int64) string {
	if entity == unrecorded {
		return "a counter without a record"
	}
	return fmt.Sprintf("counter %d", entity)
}
