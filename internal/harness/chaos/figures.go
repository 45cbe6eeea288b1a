package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/harness/load"
	"github.com/peerage-go/peerage/internal/history"
)

// service checks that every counter was served again after each round, and how soon.
func (r *Report) service(c *campaign, records []history.Record) {
	var late, slow []string
	times := map[string][]time.Duration{}
	bounds := map[string]time.Duration{}
	rounds := map[string]int{}
	for i := range c.faults.Rounds {
		ro := &c.faults.Rounds[i]
		in := c.watched(i)
		for _, g := range history.Gaps(during(records, in), c.cfg.Counters, in) {
			if g.Length() > harness.BoundServed {
				late = append(late, fmt.Sprintf("%s entity %d: no answer for %v", c.when(g.Span.From), g.Entity, toMS(g.Length())))
			}
		}
		kind := kindOf(ro)
		times[kind] = append(times[kind], c.recovery(records, i)...)
		bounds[kind] = max(bounds[kind], boundOf(ro))
		if c.cfg.Service != nil {
			bounds[kind] = harness.BoundServed // its own are not known here
		}
		rounds[kind]++
	}
	r.addAvailability(fmt.Sprintf("every counter was answered again within %v of every fault", harness.BoundServed), len(c.faults.Rounds)*c.cfg.Counters, late)
	kinds := make([]string, 0, len(times))
	for k := range times {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		q := harness.HistogramOf(times[k]).Quantiles()
		rec := Recovery{Kind: k, Rounds: rounds[k], Quantiles: q, BoundMS: harness.Milliseconds(bounds[k]), Met: q.P99 <= harness.Milliseconds(bounds[k])}
		if !rec.Met {
			slow = append(slow, fmt.Sprintf("%s: p99 %.0f ms, bound %.0f ms", k, q.P99, rec.BoundMS))
		}
		r.Recovery = append(r.Recovery, rec)
	}
	if c.cfg.Enforce {
		r.addAvailability("the p99 of every kind of fault keeps its bound", len(r.Recovery), slow)
	}
}

// recovery returns how long the counters that round i concerned had no answer: from
// the kill on when their host was killed, the longest silence otherwise.
func (c *campaign) recovery(records []history.Record, i int) []time.Duration {
	ro, in := &c.faults.Rounds[i], c.watched(i)
	if ro.Kind.Kills() && c.cfg.Service == nil {
		killed := map[uint64]bool{}
		for _, id := range ro.Nodes {
			killed[id] = true
		}
		before := history.Span{From: in.From.Add(-lookBack), To: in.To}
		return history.Failovers(during(records, before), killed, in.From, in.To).Times
	}
	var out []time.Duration
	for _, g := range history.Gaps(during(records, in), c.cfg.Counters, in) {
		out = append(out, g.Length())
	}
	return out
}

// lookBack is how far before a kill the search for a counter's host begins.
const lookBack = 3 * time.Second

// requestMax bounds the time from the instant at which a request was due until its end: the
// patience of its caller, the last attempt, and the longest hold of its process.
const requestMax = load.CallerPatience + load.AttemptPatience + faults.HeldMax

// during returns the records, sorted by start, that may touch a span.
func during(records []history.Record, in history.Span) []history.Record {
	find := func(at clock.Instant) int {
		i, _ := slices.BinarySearchFunc(records, at, func(r history.Record, at clock.Instant) int { return int(r.Start - at) })
		return i
	}
	return records[find(in.From.Add(-requestMax)):find(in.To)]
}

// countRequests fills the counters and checks that no caller gave up.
func (r *Report) countRequests(records []history.Record) {
	var asked, answered, gaveUp, handled, notSent uint64
	for _, rec := range records {
		switch rec.Op {
		case history.Asked:
			asked++
		case history.Answered:
			answered++
		case history.Failed:
			gaveUp++
		case history.NotSent:
			notSent++
		case history.Handled:
			handled++
		}
	}
	r.Counters = map[string]uint64{
		"asked": asked, "answered": answered, "given_up": gaveUp, "handled": handled,
		"caller_ended_first": asked - answered - gaveUp, "not_sent": notSent,
	}
	r.countReliable(records)
	var v []string
	if gaveUp > 0 {
		v = append(v, fmt.Sprintf("%d requests were given up after %v of retries", gaveUp, load.CallerPatience))
	}
	r.addAvailability("every request was answered, unless its caller's process ended first", int(asked), v)
}

// Latency is of requests that had an answer, from the instant at which each was due.
type Latency struct {
	harness.Quantiles
	// Curve is the distribution.
	Curve []harness.Step `json:"curve,omitempty"`

	counts *harness.Histogram
}

// latencies tells requests before the first fault from those that touch a fault, and from
// those that lie after or between faults.
func (r *Report) latencies(c *campaign, records []history.Record) {
	var before, during, after []time.Duration
	next := 0
	for _, rec := range records { // sorted by start, as the rounds are
		if rec.Op != history.Answered || rec.Start.Before(c.calmFrom) {
			continue
		}
		for next < len(c.faults.Rounds) && c.faults.Rounds[next].To.Before(rec.Start) {
			next++
		}
		took := rec.End.Sub(rec.Start)
		switch {
		case next < len(c.faults.Rounds) && c.faults.Rounds[next].From.Before(rec.End):
			during = append(during, took)
		case next == 0:
			before = append(before, took)
		default:
			after = append(after, took)
		}
	}
	r.Before, r.During, r.After = latencyOf(before), latencyOf(during), latencyOf(after)
}

func latencyOf(times []time.Duration) Latency {
	h := harness.HistogramOf(times)
	return Latency{h.Quantiles(), h.Curve(), h}
}

// Load is the open load of a run, in requests per second.
type Load struct {
	// Target is the rate at which requests are due, Before the rate of answers between the
	// instant at which the load stood and the first fault.
	Target float64 `json:"target_per_s"`
	Before float64 `json:"before_faults_per_s"`
}

// loadLeast is the part of the target that a run must have answered before the first
// fault. A run with less is void: its faults met a cluster that was not at work.
const loadLeast = 0.9

// checkLoad checks that the cluster kept up with the load before the first fault.
func (r *Report) checkLoad(c *campaign, records []history.Record) {
	if c.cfg.Every == 0 {
		return
	}
	until := c.ended
	if len(c.faults.Rounds) > 0 {
		until = c.faults.Rounds[0].From
	}
	answered := 0
	for _, rec := range records {
		if rec.Op == history.Answered && !rec.Start.Before(c.calmFrom) && rec.End.Before(until) {
			answered++
		}
	}
	seconds := until.Sub(c.calmFrom).Seconds()
	r.Load = Load{Target: c.cfg.rate()}
	i := Invariant{Name: "the load stood before the first fault", Verdict: Passed, Checked: answered}
	if seconds > 0 {
		r.Load.Before = float64(answered) / seconds
	}
	if r.Load.Before < loadLeast*r.Load.Target {
		i.Verdict = Unknown
		i.Violations = []string{fmt.Sprintf("%.0f answers per second of %.0f: the run is void; use fewer --counters, a longer --every, or a faster machine", r.Load.Before, r.Load.Target)}
	}
	r.Invariants = append(r.Invariants, i)
}

const (
	binLength = 100 * time.Millisecond
	// promptMax is within what time after it was due a request counts as available.
	promptMax = 100 * time.Millisecond
)

// timeline fills the bins of the run. Its processes still ask while they are stopped: what was
// due then is in no bin.
func (r *Report) timeline(c *campaign, records []history.Record) {
	if c.calmFrom == 0 {
		return
	}
	r.Timeline = make([]Bin, int(c.ended.Sub(c.calmFrom)/binLength)+1)
	at := func(t clock.Instant) *Bin {
		return &r.Timeline[min(max(int(t.Sub(c.calmFrom)/binLength), 0), len(r.Timeline)-1)]
	}
	for _, rec := range records {
		if rec.Start.Before(c.calmFrom) || !rec.Start.Before(c.ended) {
			continue
		}
		switch rec.Op {
		case history.NotSent:
			at(rec.Start).Due++
			r.Availability.NotSent++
		case history.Asked:
			at(rec.Start).Due++
		case history.Answered:
			at(rec.End).Answered++
			took := rec.End.Sub(rec.Start)
			b := at(rec.Start)
			if b.SlowestMS = max(b.SlowestMS, harness.Milliseconds(took)); took <= promptMax {
				b.Prompt++
			}
		case history.Failed:
			at(rec.End).GaveUp++
		}
	}
	for _, due := range missedRequests(records, c.cfg.Counters, c.cfg.Every, history.Span{From: c.calmFrom, To: c.ended}) {
		at(due).Missed++
	}
	r.availability(c)
	for _, ro := range c.faults.Rounds {
		r.Faults = append(r.Faults, FaultSpan{
			Round: ro.Number, Kind: ro.Kind, Detail: ro.Text(),
			FromMS: harness.Milliseconds(ro.From.Sub(c.calmFrom)), ToMS: harness.Milliseconds(ro.To.Sub(c.calmFrom)), TookEffect: ro.TookEffect,
		})
	}
}

// missedRequests returns when requests were due that no process sent, since the process whose
// turn it was had ended. The requests of a counter are due at a fixed interval, whoever sends
// them: where two of them are farther apart, those between are missing. The records must be
// sorted by Start.
func missedRequests(records []history.Record, counters int, every time.Duration, in history.Span) (missed []clock.Instant) {
	if every <= 0 {
		return nil
	}
	due := make([][]clock.Instant, counters)
	for _, r := range records {
		known := r.Op == history.Asked || r.Op == history.NotSent
		if known && int(r.Entity) < counters && !r.Start.Before(in.From) && r.Start.Before(in.To) {
			due[r.Entity] = append(due[r.Entity], r.Start)
		}
	}
	for _, sent := range due {
		next := in.From
		if len(sent) > 0 {
			next = in.From.Add(sent[0].Sub(in.From) % every)
		}
		for _, at := range append(sent, in.To) {
			for ; at.Sub(next) >= every/2; next = next.Add(every) {
				missed = append(missed, next)
			}
			next = max(next, at.Add(every))
		}
	}
	return missed
}

// availability sums up the timeline.
func (r *Report) availability(c *campaign) {
	a := &r.Availability
	a.InFlightMax, a.InFlightMost = c.inFlightMax(), int(c.totals().InFlightMost)
	for _, b := range r.Timeline {
		a.Prompt += b.Prompt
		a.Answered += b.Answered
		a.Missed += b.Missed
		a.Due += b.Wanted()
	}
}

// percent returns how many percent n is of all, 0 of none.
func percent(n, all int) float64 {
	if all == 0 {
		return 0
	}
	return 100 * float64(n) / float64(all)
}

// countReliable counts the reliable messages, if there were any, and how often one was handled
// again.
func (r *Report) countReliable(records []history.Record) {
	type message struct {
		entity         uint32
		sender, number uint64
	}
	handled := map[message]bool{}
	for _, rec := range records {
		switch rec.Op {
		case history.Accepted:
			r.Counters["reliable_accepted"]++
		case history.Confirmed:
			r.Counters["reliable_confirmed"]++
		case history.Delivered:
			m := message{rec.Entity, rec.Sender, rec.Value}
			name := "reliable_handled"
			if handled[m] {
				name = "reliable_handled_again"
			}
			handled[m] = true
			r.Counters[name]++
		}
	}
}
