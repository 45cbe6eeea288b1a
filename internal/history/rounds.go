package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Span is a stretch of time, from From up to and without To.
type Span struct{ From, To clock.Instant }

func (s Span) touches(from, to clock.Instant) bool { return from.Before(s.To) && s.From.Before(to) }

func touched(spans []Span, from, to clock.Instant) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.touches(from, to) })
}

// Hold is a time during which the process of a node was held by the system.
type Hold struct {
	Node uint64
	Span Span
}

// holdSlack bounds how long a process still runs after SIGSTOP was sent.
const holdSlack = 100 * time.Millisecond

// Late separates the handler runs that G1 does not cover: those running, or just
// admitted, when their process was held. It returns the records with running ones cut to
// end where they began and admitted ones removed, and the original runs as late. Any
// other handler that begins after its process was held is not late, however soon; see
// admitted.
func Late(records []Record, holds []Hold) (rest, late []Record) {
	rest, late = admitted(records, holds)
	for i := range rest {
		r := &rest[i]
		if r.Op == Handled && slices.ContainsFunc(holds, func(h Hold) bool {
			return h.Node == r.Node && r.Start.Before(h.Span.From.Add(holdSlack)) && h.Span.From.Before(r.End) && !r.End.Before(h.Span.To)
		}) {
			late = append(late, *r)
			r.End = r.Start
		}
	}
	return rest, late
}

// admittedMax is how many instances of one process may be between lease check and handler
// when it is held: at most one per running thread, for some 100 ns of each message.
const admittedMax = 4

// admitted separates the runs whose instance had checked its lease and was held before
// the handler's first instruction. Of each entity that is at most the first run to begin
// after its process continued, and only within holdSlack of that. A later allocation must
// have run before it, and its request must have been sent before the hold. An answer proves
// nothing: the connection to a held process ends, and its callers ask elsewhere. A node
// that checks its lease wrongly admits more than that, and more than admittedMax: then none
// of its runs is late.
func admitted(records []Record, holds []Hold) (rest, late []Record) {
	for _, h := range holds {
		if runs := admittedIn(records, h); len(runs) <= admittedMax {
			late = append(late, runs...)
		}
	}
	rest = slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return slices.ContainsFunc(late, func(l Record) bool {
			return (r.ranHandler() || r.Op == HandlerStarted) && r.Node == l.Node && r.Entity == l.Entity && r.Start == l.Start
		})
	})
	return rest, late
}

// ranHandler reports whether an instance handled a request or a message.
func (r *Record) ranHandler() bool { return r.Op == Handled || r.Op == Told }

// admittedIn returns the runs that could have been admitted before one hold.
func admittedIn(records []Record, h Hold) (runs []Record) {
	first := map[uint32]Record{}
	for _, r := range records {
		f, known := first[r.Entity]
		if r.ranHandler() && r.Node == h.Node && !r.Start.Before(h.Span.To) && (!known || r.Start.Before(f.Start)) {
			first[r.Entity] = r
		}
	}
	for _, entity := range slices.Sorted(maps.Keys(first)) {
		r := first[entity]
		// Without a successor the node just continues.
		follows := func(o Record) bool {
			return o.ranHandler() && o.Entity == entity && tokenLess(r, o) && o.Start.Before(r.Start)
		}
		sentBefore := r.Sent != 0 && r.Sent.Before(h.Span.From.Add(holdSlack))
		if sentBefore && r.Start.Before(h.Span.To.Add(holdSlack)) && slices.ContainsFunc(records, follows) {
			runs = append(runs, r)
		}
	}
	return runs
}

// Loss is a handler run whose effect the next run of the same entity misses: a request
// that was acknowledged, or might have been, was lost.
type Loss struct{ Before, After Record }

func (l Loss) String() string {
	if l.Before.Op == 0 {
		return fmt.Sprintf("entity %d: the first count is %d, on node %016x (token %d/%d) at %d", l.After.Entity, l.After.Value, l.After.Node, l.After.Term, l.After.Seq, l.After.End)
	}
	return fmt.Sprintf("entity %d: node %016x (token %d/%d) counted to %d at %d, then node %016x (token %d/%d) counted %d at %d",
		l.After.Entity, l.Before.Node, l.Before.Term, l.Before.Seq, l.Before.Value, l.Before.End,
		l.After.Node, l.After.Term, l.After.Seq, l.After.Value, l.After.End)
}

// Losses returns the losses of entities that count their requests by one. Within an
// instance each run counts one more than the run before it. So does the first run of the
// next instance, since the state travels with the shard, unless the time between the two
// touches one of rough: there processes were killed or held, and state in their memory
// was lost. A new count then begins with 1. If counts are kept elsewhere, it begins with at
// most one more than the highest count so far (Forgotten checks the least).
func Losses(records []Record, rough []Span, kept bool) []Loss {
	runs := handlerRuns(records)
	runs = slices.DeleteFunc(runs, func(r Record) bool { return r.Op != Handled })
	slices.SortStableFunc(runs, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Start, b.Start))
	})
	var out []Loss
	highest := uint64(0)
	for i := 1; i < len(runs); i++ {
		a, b := runs[i-1], runs[i]
		if a.Entity != b.Entity {
			highest = 0
			continue
		}
		if highest = max(highest, a.Value); b.Value == a.Value+1 {
			continue
		}
		same := sameToken(a, b) && a.Node == b.Node
		if !same && (b.Value == 1 || kept && b.Value <= highest+1) && touched(rough, a.End, b.Start) {
			continue
		}
		out = append(out, Loss{a, b})
	}
	return out
}

// WrongBegins returns the first run of each entity whose first count is not 1: the counts
// below it belong to no request.
func WrongBegins(records []Record) (out []Loss) {
	first := map[uint32]Record{}
	for _, r := range records {
		if f, known := first[r.Entity]; r.Op == Handled && (!known || r.Start.Before(f.Start)) {
			first[r.Entity] = r
		}
	}
	for _, entity := range slices.Sorted(maps.Keys(first)) {
		if r := first[entity]; r.Value != 1 {
			out = append(out, Loss{After: r})
		}
	}
	return out
}

// Forgotten returns the runs that miss a count which was acknowledged before they began,
// for entities that count their requests by one and whose counts must survive kills;
// Before is then the answer. In each span of beyond more copies were lost than tolerated:
// no answer given before the span's end binds a run after its begin.
func Forgotten(records []Record, beyond []Span) []Loss {
	runs := map[uint32][]Record{}
	answers := map[uint32][]Record{}
	for _, r := range records {
		switch r.Op {
		case Handled:
			runs[r.Entity] = append(runs[r.Entity], r)
		case Answered:
			answers[r.Entity] = append(answers[r.Entity], r)
		}
	}
	var out []Loss
	for _, entity := range slices.Sorted(maps.Keys(runs)) {
		out = append(out, forgotten(runs[entity], answers[entity], beyond)...)
	}
	return out
}

// forgotten looks at one entity.
func forgotten(runs, answers []Record, beyond []Span) (out []Loss) {
	slices.SortFunc(runs, func(a, b Record) int { return cmp.Compare(a.Start, b.Start) })
	slices.SortFunc(answers, func(a, b Record) int { return cmp.Compare(a.End, b.End) })
	var top Record // the highest count that was acknowledged and binds
	for _, run := range runs {
		for len(answers) > 0 && answers[0].End.Before(run.Start) {
			if a := answers[0]; a.Value >= top.Value || touched(beyond, top.End, a.End) {
				top = a
			}
			answers = answers[1:]
		}
		if run.Value <= top.Value && !touched(beyond, top.End, run.Start) {
			out = append(out, Loss{top, run})
		}
	}
	return out
}

// Unfounded returns the answers that no handler run explains: the answer's count was
// reached by no instance between question and answer, or each run that reached it explains
// another answer.
func Unfounded(records []Record) []Record {
	type key struct {
		entity uint32
		value  uint64
	}
	runs, answers := map[key][]Record{}, map[key][]Record{}
	for _, r := range records {
		switch k := (key{r.Entity, r.Value}); r.Op {
		case Handled:
			runs[k] = append(runs[k], r)
		case Answered:
			answers[k] = append(answers[k], r)
		}
	}
	var out []Record
	for k, all := range answers { // order-free: sorted below
		out = append(out, unexplained(all, runs[k])...)
	}
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Value, b.Value))
	})
	return out
}

// unexplained returns the answers without a run, of those with one count. The answers choose
// in the order of their ends: each takes, of the runs that lie within it, the one that began
// first. A later answer may end later, so it can use every run that is left, if that began
// late enough.
func unexplained(answers, runs []Record) (out []Record) {
	byEnd := func(a, b Record) int { return cmp.Compare(a.End, b.End) }
	slices.SortStableFunc(answers, byEnd)
	slices.SortStableFunc(runs, byEnd)
	var ended []clock.Instant // the starts of runs that had ended, sorted
	for _, a := range answers {
		for len(runs) > 0 && !a.End.Before(runs[0].End) {
			i, _ := slices.BinarySearch(ended, runs[0].Start)
			ended, runs = slices.Insert(ended, i, runs[0].Start), runs[1:]
		}
		i, _ := slices.BinarySearch(ended, a.Start)
		if i == len(ended) {
			out = append(out, a)
			continue
		}
		ended = slices.Delete(ended, i, i+1)
	}
	return out
}

// Gap is the longest time during which an entity answered no caller.
type Gap struct {
	Entity uint32
	Span   Span
	// Open: no answer ended it before the end of the span.
	Open bool
}

// Length returns how long it lasted.
func (g Gap) Length() time.Duration { return g.Span.To.Sub(g.Span.From) }

// Gaps returns the longest gap of each entity 0..entities-1 within a span, in the
// order of the entities. The edges of the span count as answers.
func Gaps(records []Record, entities int, in Span) []Gap {
	ends := make([][]clock.Instant, entities)
	for _, r := range records {
		if r.Op == Answered && int(r.Entity) < entities && in.From.Before(r.End) && r.End.Before(in.To) {
			ends[r.Entity] = append(ends[r.Entity], r.End)
		}
	}
	out := make([]Gap, entities)
	for i := range out {
		slices.Sort(ends[i])
		out[i] = longest(uint32(i), ends[i], in)
	}
	return out
}

func longest(entity uint32, ends []clock.Instant, in Span) Gap {
	g := Gap{Entity: entity, Span: Span{in.From, in.From}}
	last := in.From
	for _, end := range append(ends, in.To) {
		if end.Sub(last) > g.Length() {
			g.Span, g.Open = Span{last, end}, end == in.To
		}
		last = end
	}
	return g
}

// Homes returns, for each entity 0..entities-1, how many allocations of its shard
// acted within a span: one more than the number of moves.
func Homes(records []Record, entities int, in Span) []int {
	type key struct {
		entity    uint32
		term, seq uint64
	}
	seen := map[key]bool{}
	out := make([]int, entities)
	for _, r := range records {
		k := key{r.Entity, r.Term, r.Seq}
		if r.Op == Handled && int(r.Entity) < entities && in.touches(r.Start, r.End) && !seen[k] {
			seen[k] = true
			out[r.Entity]++
		}
	}
	return out
}

// Handoffs returns, for every move of an entity from one allocation to the next whose
// first handler run ended within a span, the time from the end of the last run before it,
// sorted. Times without requests are included.
func Handoffs(records []Record, in Span) []time.Duration {
	var runs []Record
	for _, r := range records {
		if r.Op == Handled {
			runs = append(runs, r)
		}
	}
	slices.SortStableFunc(runs, func(a, b Record) int { return cmp.Compare(a.End, b.End) })
	last := map[uint32]Record{}
	var out []time.Duration
	for _, r := range runs {
		before, known := last[r.Entity]
		last[r.Entity] = r
		if known && (before.Term != r.Term || before.Seq != r.Seq) && in.touches(r.End, r.End) {
			out = append(out, r.End.Sub(before.End))
		}
	}
	slices.Sort(out)
	return out
}
