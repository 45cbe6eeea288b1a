package history

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// Miscount is an answer of a counter that no order of its requests explains, as callers
// outside of the cluster see it.
type Miscount struct {
	Entity uint32
	// Answer is the answer, Before the earlier one that contradicts it.
	Answer, Before Record
	// Why is one of the reasons below.
	Why string
}

// The reasons of a Miscount.
const (
	// AnsweredTwice: two requests had the same count.
	AnsweredTwice = "had the count that another request had"
	// WentBack: a request that began after another had ended had a lower count: what was
	// acknowledged is lost.
	WentBack = "began later and had a lower count"
	// NeverAsked: the count is higher than all requests that had begun.
	NeverAsked = "had a higher count than was asked for"
)

func (m Miscount) String() string {
	return fmt.Sprintf("entity %d: a request %d..%d with the answer %d %s (%d..%d, answer %d)",
		m.Entity, m.Answer.Start, m.Answer.End, m.Answer.Value, m.Why, m.Before.Start, m.Before.End, m.Before.Value)
}

// When returns when the answer came.
func (m Miscount) When() clock.Instant { return m.Answer.End }

// Miscounts returns the answers that prove that a counter was not one counter which every
// request raised by one: it decides whether the history of each counter is linearizable. An
// attempt without an answer may have taken effect once at any time after its begin, or never.
// What was acknowledged before the end of an excused span may be lost in it: answers on its
// two sides, and those that touch it, are not compared. The records must be sorted by Start.
func Miscounts(records []Record, excused []Span) (out []Miscount, checked int) {
	counted, unsure := map[uint32][]Record{}, map[uint32][]clock.Instant{}
	for _, r := range records {
		switch r.Op {
		case Counted:
			counted[r.Entity] = append(counted[r.Entity], r)
			checked++
		case Unsure:
			unsure[r.Entity] = append(unsure[r.Entity], r.Start)
		}
	}
	for entity, all := range counted { // order-free: sorted below
		from := clock.Instant(0)
		for _, span := range append(slices.Clone(excused), Span{From: 1<<63 - 1}) {
			var life []Record
			wild := slices.Clone(unsure[entity])
			for _, r := range all {
				switch {
				case !r.Start.Before(from) && r.End.Before(span.From):
					life = append(life, r)
				case r.Start.Before(span.From):
					wild = append(wild, r.Start) // it may count for this life
				}
			}
			out = append(out, miscountsIn(life, wild, from == 0)...)
			from = max(from, span.To)
		}
	}
	slices.SortFunc(out, func(a, b Miscount) int {
		return cmp.Or(cmp.Compare(a.Answer.End, b.Answer.End), cmp.Compare(a.Entity, b.Entity))
	})
	return out, checked
}

// miscountsIn checks one life of a counter. If first is set, the counter began at 0.
func miscountsIn(life []Record, wild []clock.Instant, first bool) (out []Miscount) {
	byEnd := slices.SortedFunc(slices.Values(life), func(a, b Record) int { return cmp.Compare(a.End, b.End) })
	var highest Record
	next := 0
	for _, r := range life { // sorted by start
		for ; next < len(byEnd) && byEnd[next].End.Before(r.Start); next++ {
			if byEnd[next].Value > highest.Value {
				highest = byEnd[next]
			}
		}
		if r.Value < highest.Value {
			out = append(out, Miscount{r.Entity, r, highest, WentBack})
		}
	}
	byValue := slices.SortedStableFunc(slices.Values(life), func(a, b Record) int { return cmp.Compare(a.Value, b.Value) })
	// deadlines[i] is the first end of an answer from the i-th value on: what is counted
	// below that value had begun by then.
	deadlines := make([]clock.Instant, len(byValue))
	for i, r := range slices.Backward(byValue) {
		deadlines[i] = r.End
		if i+1 < len(byValue) {
			deadlines[i] = min(r.End, deadlines[i+1])
		}
	}
	slices.Sort(wild)
	used, last := 0, Record{}
	for i, r := range byValue {
		switch {
		case i > 0 && r.Value == last.Value:
			out = append(out, Miscount{r.Entity, r, last, AnsweredTwice})
			continue
		case i > 0 || first:
			missing := r.Value - last.Value - 1
			if missing > uint64(len(wild)-used) || missing > 0 && deadlines[i].Before(wild[used+int(missing)-1]) {
				return append(out, Miscount{r.Entity, r, last, NeverAsked})
			}
			used += int(missing)
		}
		last = r
	}
	return out
}
