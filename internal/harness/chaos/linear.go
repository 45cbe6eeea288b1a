package chaos

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// Linearizability is the verdict of porcupine on the histories of the counters.
type Linearizability struct {
	Counters int `json:"counters"`
	Requests int `json:"requests"`
	// Restarts is how often a count began again, since a fault had taken all processes that
	// kept it.
	Restarts int `json:"restarts"`
	// Picture is the page that porcupine draws of one counter, around a move of its shard or
	// around the first contradiction. PictureOf names the counter and the stretch.
	Picture   string `json:"picture,omitempty"`
	PictureOf string `json:"picture_of,omitempty"`
}

const (
	// linearPatience bounds the search for an order of all counters; without a result the
	// verdict is UNKNOWN.
	linearPatience = 20 * time.Second
	// pictureRuns is how many requests a picture shows.
	pictureRuns = 60
)

// step is the input of one operation on a counter: it raises the count by one, or sets it
// where a fault may have taken it.
type step struct {
	reset bool
	to    uint64
}

// counterModel is a counter that begins at a count. Each addition returns the new count.
func counterModel(begin uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return begin },
		Step: func(state, input, output any) (bool, any) {
			if s := input.(step); s.reset {
				return true, s.to
			}
			return output.(uint64) == state.(uint64)+1, output
		},
		DescribeOperation: func(input, output any) string {
			if s := input.(step); s.reset {
				return fmt.Sprintf("lost with its host, back to %d", s.to)
			}
			return fmt.Sprintf("add 1: %d", output)
		},
	}
}

// counted is a handler run that took effect, with the answer that showed it, if any.
type counted struct {
	run    history.Record
	answer *history.Record
}

// call and back are the interval in which the run took effect for its caller.
func (c counted) interval() (call, back clock.Instant) {
	if c.answer != nil {
		return c.answer.Start, c.answer.End
	}
	return c.run.Start, c.run.End
}

// countedRuns returns the runs of one counter that took effect, in the order of their start. A
// run without an answer may have been lost with its process: it took effect if the next one
// counts on from it. Of two runs that one answer would explain, the later one gave it: its
// caller had tried again.
func countedRuns(runs, answers []history.Record) []counted {
	slices.SortStableFunc(runs, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	byValue := map[uint64][]*history.Record{}
	for i := range answers {
		byValue[answers[i].Value] = append(byValue[answers[i].Value], &answers[i])
	}
	var out []counted
	for _, run := range slices.Backward(runs) {
		c := counted{run: run}
		for i, a := range byValue[run.Value] {
			if a != nil && !run.Start.Before(a.Start) && !a.End.Before(run.End) {
				c.answer, byValue[run.Value][i] = a, nil
				break
			}
		}
		last := len(out) - 1
		if c.answer == nil && (last < 0 || out[last].run.Value != run.Value+1) {
			continue
		}
		out = append(out, c)
	}
	slices.Reverse(out)
	return out
}

// operationsOf returns the operations of a counter for porcupine. Excused are the spans in which
// its count may be lost.
func operationsOf(all []counted, excused []history.Span) []porcupine.Operation {
	var out []porcupine.Operation
	var lanes []clock.Instant // when the last operation of each client returned
	add := func(call, back clock.Instant, input step, output uint64) {
		lane := slices.IndexFunc(lanes, func(free clock.Instant) bool { return free.Before(call) })
		if lane < 0 {
			lane, lanes = len(lanes), append(lanes, 0)
		}
		lanes[lane] = back
		out = append(out, porcupine.Operation{ClientId: lane, Input: input, Output: output, Call: int64(call), Return: int64(back)})
	}
	for i, c := range all {
		if i > 0 {
			before := all[i-1].run
			if c.run.Value != before.Value+1 && touchesAny(excused, before.End, c.run.Start) {
				add(before.End, c.run.Start, step{reset: true, to: c.run.Value - 1}, 0)
			}
		}
		call, back := c.interval()
		add(call, back, step{}, c.run.Value)
	}
	return out
}

func touchesAny(spans []history.Span, from, to clock.Instant) bool {
	return slices.ContainsFunc(spans, func(s history.Span) bool { return from.Before(s.To) && s.From.Before(to) })
}

// linearizable checks that each counter behaved like one counter that all callers share, from 0
// on. Unfounded are the answers with a count that no run explains.
func (r *Report) linearizable(records, unfounded []history.Record, excused []history.Span) {
	runs, answers := map[uint32][]history.Record{}, map[uint32][]history.Record{}
	for _, rec := range records {
		switch rec.Op {
		case history.Handled:
			runs[rec.Entity] = append(runs[rec.Entity], rec)
		case history.Answered:
			answers[rec.Entity] = append(answers[rec.Entity], rec)
		}
	}
	i := Invariant{Name: "each counter is linearizable", Verdict: Passed}
	for _, u := range unfounded {
		i.Verdict = Failed
		i.Violations = append(i.Violations, fmt.Sprintf("counter %d: no request had the answer %d, received by %016x at %d", u.Entity, u.Value, u.Node, u.End))
	}
	deadline := time.Now().Add(linearPatience)
	shown := history.Record{}
	var picture []counted
	for entity, all := range inKeyOrder(runs) {
		counts := countedRuns(all, answers[entity])
		if len(counts) == 0 {
			continue
		}
		r.Linear.Counters++
		r.Linear.Requests += len(counts)
		ops := operationsOf(counts, excused)
		r.Linear.Restarts += len(ops) - len(counts)
		result := porcupine.CheckOperationsTimeout(counterModel(0), ops, max(time.Until(deadline), time.Millisecond))
		at := firstMove(counts)
		switch {
		case result == porcupine.Illegal:
			i.Verdict = Failed
			at = firstContradiction(counts, excused)
			i.Violations = append(i.Violations, fmt.Sprintf("counter %d: no order of its requests explains its answers", entity))
		case result == porcupine.Unknown && i.Verdict == Passed:
			i.Verdict = Unknown
			i.Violations = append(i.Violations, fmt.Sprintf("counter %d: no result within %v", entity, linearPatience))
		}
		if at > 0 && (picture == nil || len(i.Violations) == len(unfounded)+1 && result == porcupine.Illegal) {
			from := max(0, min(at-pictureRuns/2, len(counts)-pictureRuns))
			picture, shown = counts[from:min(len(counts), from+pictureRuns)], counts[at].run
		}
	}
	if i.Checked = r.Linear.Requests; i.Checked == 0 {
		i.Verdict = Unknown
	}
	r.Invariants = append(r.Invariants, i)
	r.drawLinear(picture, shown, excused)
}

// inKeyOrder ranges over a map in the order of its keys.
func inKeyOrder[V any](m map[uint32]V) func(yield func(uint32, V) bool) {
	keys := make([]uint32, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return func(yield func(uint32, V) bool) {
		for _, k := range keys {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// firstMove returns the index of the first run under another token than the run before it, 0
// if the counter did not move.
func firstMove(all []counted) int {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1].run, all[i].run; a.Term != b.Term || a.Seq != b.Seq {
			return i
		}
	}
	return 0
}

// firstContradiction returns the index of the first run that does not count on from the one
// before it, or 1.
func firstContradiction(all []counted, excused []history.Span) int {
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1].run, all[i].run; b.Value != a.Value+1 && !touchesAny(excused, a.End, b.Start) {
			return i
		}
	}
	return min(1, len(all)-1)
}

// drawLinear adds the picture of a stretch of one counter.
func (r *Report) drawLinear(stretch []counted, around history.Record, excused []history.Span) {
	if len(stretch) == 0 {
		return
	}
	model := counterModel(stretch[0].run.Value - 1)
	_, info := porcupine.CheckOperationsVerbose(model, operationsOf(stretch, excused), linearPatience)
	var page bytes.Buffer
	if err := porcupine.Visualize(model, info, &page); err != nil {
		return // the verdict stands without its picture
	}
	r.Linear.Picture = page.String()
	r.Linear.PictureOf = fmt.Sprintf("counter %d, %d requests around count %d", around.Entity, len(stretch), around.Value)
}
