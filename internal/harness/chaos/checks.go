package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/history"
)

// rollingRestart checks the additional guarantees of a rolling restart.
func (r *Report) rollingRestart(c *campaign, records []history.Record) {
	var v []string
	asks := 0
	for _, rec := range records {
		if rec.Op == history.Answered {
			asks++
		}
	}
	for reason, n := range r.FailedAttempts { // order-free: sorted below
		v = append(v, fmt.Sprintf("%d asks failed: %s", n, reason))
	}
	slices.Sort(v)
	r.addAvailability("no ask failed, not even once", asks, v)
	var moved []string
	in := history.Span{From: c.calmFrom, To: c.ended}
	for i, n := range history.Homes(records, c.cfg.Counters, in) {
		r.MovesMax = max(r.MovesMax, n-1)
		if n-1 > movesMost {
			moved = append(moved, fmt.Sprintf("the shard of entity %d moved %d times", i, n-1))
		}
	}
	if !c.cfg.InPlace {
		r.addInvariant(fmt.Sprintf("no shard moved more than %d times", movesMost), c.cfg.Counters, moved)
	}
}

// checkFaults checks that the faults were dealt, and that all nodes agreed after each.
func (r *Report) checkFaults(c *campaign, err error) {
	effective := 0
	for _, ro := range c.faults.Rounds {
		if ro.TookEffect {
			effective++
		}
	}
	i := Invariant{Name: "every fault took effect, and all nodes agreed afterwards", Verdict: Passed, Checked: effective, Availability: true}
	switch want := c.steps(); {
	case err != nil && strings.Contains(err.Error(), "context canceled"):
		i.Verdict, i.Violations = Unknown, []string{"interrupted: " + err.Error()}
	case err != nil && c.calmFrom == 0:
		i.Verdict, i.Violations = Unknown, []string{"the processes did not come up: " + err.Error()}
	case err != nil:
		i.Verdict, i.Violations = Failed, []string{err.Error()}
	case effective < want:
		i.Verdict, i.Violations = Unknown, []string{fmt.Sprintf("%d of %d faults had an effect", effective, want)}
	}
	r.Invariants = append(r.Invariants, i)
}

// safety checks what must hold in every run.
func (r *Report) safety(c *campaign, records []history.Record) {
	var rough, beyond []history.Span
	for i := range c.faults.Rounds {
		ro := &c.faults.Rounds[i]
		if !ro.LosesMemory() {
			continue
		}
		rough = append(rough, ro.Span())
		if 2*(ro.Lost()+c.removedBeside(ro, records)) > c.cfg.replicas() { // a majority of the copies
			beyond = append(beyond, ro.Span())
		}
	}
	rough = append(rough, c.removals(records)...)
	handled, answered, told := 0, 0, 0
	for _, rec := range records {
		switch rec.Op {
		case history.Told:
			told++
		case history.Handled:
			handled++
		case history.Answered:
			answered++
		}
	}
	rest, late := history.Late(records, c.holds())
	r.LateHandlers = len(late)
	r.addInvariant(SingleInstance, handled, formatViolations(c, history.Doubles(rest), func(d history.Double) clock.Instant { return d.Again.Start }))
	after := func(l history.Loss) clock.Instant { return l.After.Start }
	kept := c.cfg.replicas() > 0
	r.addInvariant(NothingLost+"by an instance or by an orderly move", handled, formatViolations(c, append(history.WrongBegins(rest), history.Losses(rest, rough, kept)...), after))
	if kept {
		r.addInvariant(fmt.Sprintf(NothingLost+"unless a majority of its %d copies was", c.cfg.replicas()), answered,
			formatViolations(c, history.Forgotten(rest, beyond), after))
	}
	r.addInvariant("messages of each process were handled in the order in which it sent them", told,
		formatViolations(c, history.Inversions(rest), history.Inversion.When))
	if c.fleet.Reliable {
		r.reliable(c, records, rough)
	}
	excused := rough
	if kept {
		excused = beyond
	}
	unfounded := history.Unfounded(records)
	r.linearizable(rest, unfounded, excused)
	r.data(c, records)
	var v []string
	for _, u := range unfounded {
		v = append(v, fmt.Sprintf("%s entity %d: %016x received %d", c.when(u.Start), u.Entity, u.Node, u.Value))
	}
	r.addInvariant("every answer was counted by an instance while its caller waited", answered, v)
}

// removals returns the instants at which a member was removed on an overloaded machine. Nodes
// that wait too long for a processor are removed although no fault concerned them, and what
// they alone had in memory is lost with them, as after a kill.
func (c *campaign) removals(records []history.Record) (spans []history.Span) {
	if !c.machine.Overloaded {
		return nil
	}
	for _, rec := range records {
		if rec.Op == history.Excluded {
			spans = append(spans, history.Span{From: rec.Start, To: rec.Start + 1})
		}
	}
	return spans
}

// removedBeside returns how many members were removed on an overloaded machine during a rough round
// that did not hurt them. Copies on them are lost beside those that the round took.
func (c *campaign) removedBeside(ro *faults.Round, records []history.Record) int {
	if !c.machine.Overloaded {
		return 0
	}
	removed := map[uint64]bool{}
	for _, rec := range records {
		if rec.Op == history.Excluded && !rec.Start.Before(ro.From) && rec.Start.Before(ro.To) && !slices.Contains(ro.Nodes, rec.Sender) {
			removed[rec.Sender] = true
		}
	}
	return len(removed)
}

// data checks tokens over all lives of the cluster, and the reads of replicated data.
func (r *Report) data(c *campaign, records []history.Record) {
	rest, _ := history.Late(records, c.holds())
	runs := 0
	for _, rec := range rest {
		if rec.Op == history.Handled {
			runs++
		}
	}
	r.addInvariant("no token of a shard went back, in any life of the cluster", runs,
		formatViolations(c, history.Regressions(rest), func(g history.Regression) clock.Instant { return g.After.Start }))
	if c.fleet.Files || c.fleet.Registers > 0 {
		r.registers(c, records)
	}
	if c.fleet.Set {
		r.elements(c, records)
	}
	if !c.fleet.Files {
		return
	}
	missing, checked := history.Missing(records)
	var v []string
	for _, m := range missing {
		v = append(v, fmt.Sprintf("%s entry %d of process %016x is gone, at node %016x", c.when(m.Start), m.Entity, m.Sender, m.Node))
	}
	r.addInvariant("nothing acknowledged on disk was lost", checked, v)
}
