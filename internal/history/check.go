package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Double is a moment at which an entity had two instances acting, or an older
// instance acted after a newer one had: both break G1.
type Double struct {
	Entity       uint32
	First, Again Record
}

func (d Double) String() string {
	return fmt.Sprintf("entity %d: node %016x (token %d/%d) acted %d..%d, node %016x (token %d/%d) acted %d..%d",
		d.Entity, d.First.Node, d.First.Term, d.First.Seq, d.First.Start, d.First.End,
		d.Again.Node, d.Again.Term, d.Again.Seq, d.Again.Start, d.Again.End)
}

// Doubles returns every pair of handler runs of one entity that prove two live
// instances: runs that overlap in time, and runs whose token is lower than that
// of a run that began before them. Runs of one entity never overlap even within
// one instance, so any overlap counts.
func Doubles(records []Record) []Double {
	runs := handlerRuns(records)
	slices.SortStableFunc(runs, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.Entity, b.Entity), cmp.Compare(a.Start, b.Start))
	})
	var out []Double
	var last Record // the run of this entity that ends latest so far
	var top Record  // the run of this entity with the highest token so far
	for i, r := range runs {
		if i == 0 || r.Entity != last.Entity {
			last, top = r, r
			continue
		}
		switch {
		case r.Start.Before(last.End):
			out = append(out, Double{r.Entity, last, r})
		case tokenLess(r, top):
			out = append(out, Double{r.Entity, top, r})
		case sameToken(r, top) && r.Node != top.Node:
			out = append(out, Double{r.Entity, top, r})
		}
		if last.End.Before(r.End) {
			last = r
		}
		if tokenLess(top, r) {
			top = r
		}
	}
	return out
}

// handlerRuns returns the handler runs, those included that never ended: their process
// died in them, at the latest when its history ends, so only their start is certain.
func handlerRuns(records []Record) []Record {
	type key struct {
		node      uint64
		entity    uint32
		term, seq uint64
		start     clock.Instant
	}
	ended := map[key]bool{}
	var runs []Record
	for _, r := range records {
		if r.Op == Handled {
			ended[key{r.Node, r.Entity, r.Term, r.Seq, r.Start}] = true
			runs = append(runs, r)
		}
	}
	for _, r := range records {
		if r.Op == HandlerStarted && !ended[key{r.Node, r.Entity, r.Term, r.Seq, r.Start}] {
			r.End = r.Start
			runs = append(runs, r)
		}
	}
	return runs
}

func tokenLess(a, b Record) bool {
	return cmp.Or(cmp.Compare(a.Term, b.Term), cmp.Compare(a.Seq, b.Seq)) < 0
}

func sameToken(a, b Record) bool { return a.Term == b.Term && a.Seq == b.Seq }

// Failover describes how entities recovered after processes were killed at an instant.
type Failover struct {
	// Moved counts the entities whose last instance before the kill ran on a killed
	// node.
	Moved int
	// Unanswered lists those moved entities from which no survivor received an answer
	// until the end of the history.
	Unanswered []uint32
	// Times holds, for each moved entity that answered, the time from the kill to the
	// first answer that a surviving caller received from a new instance, sorted.
	Times []time.Duration
}

// Failovers measures the kill of nodes at the instant at: until is the next
// disturbance, or clock.Never.
func Failovers(records []Record, killed map[uint64]bool, at, until clock.Instant) Failover {
	home := map[uint32]Record{}
	for _, r := range records {
		if r.Op == Handled && r.End.Before(at) && home[r.Entity].End.Before(r.End) {
			home[r.Entity] = r
		}
	}
	// An answer counts when it came from an instance that began to act after the
	// kill: a survivor may receive an answer that the killed node had sent before.
	began := map[uint32]clock.Instant{}
	for _, r := range records {
		if r.Op == Handled && r.Start.After(at) && r.Start.Before(until) && !killed[r.Node] {
			if b, ok := began[r.Entity]; !ok || r.Start.Before(b) {
				began[r.Entity] = r.Start
			}
		}
	}
	first := map[uint32]clock.Instant{}
	for _, r := range records {
		b, ok := began[r.Entity]
		if r.Op != Answered || killed[r.Node] || !ok || !r.End.After(b) || !r.End.Before(until) {
			continue
		}
		if f, ok := first[r.Entity]; !ok || r.End.Before(f) {
			first[r.Entity] = r.End
		}
	}
	var f Failover
	for entity, last := range home {
		if !killed[last.Node] {
			continue
		}
		f.Moved++
		if end, ok := first[entity]; ok {
			f.Times = append(f.Times, end.Sub(at))
		} else {
			f.Unanswered = append(f.Unanswered, entity)
		}
	}
	slices.Sort(f.Times)
	slices.Sort(f.Unanswered)
	return f
}
