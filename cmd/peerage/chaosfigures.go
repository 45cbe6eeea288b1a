package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// when names the round in which an instant lies.
func (c *chaosRun) when(at clock.Instant) string {
	for i := range c.rounds {
		if r := &c.rounds[i]; at.Before(r.To) {
			if at.Before(r.From) {
				return fmt.Sprintf("before round %d (%s of %s):", r.Number, r.Kind, r.places())
			}
			return fmt.Sprintf("in round %d (%s of %s), %v after it began:", r.Number, r.Kind, r.places(), toMS(at.Sub(r.From)))
		}
	}
	return "after the last round:"
}

// watched is the time from the begin of round i until the next one.
func (c *chaosRun) watched(i int) history.Span {
	to := c.ended
	if i+1 < len(c.rounds) {
		to = c.rounds[i+1].From
	}
	return history.Span{From: c.rounds[i].From, To: to}
}

// service checks that every counter was served again after each round, and how soon.
func (r *chaosReport) service(c *chaosRun, records []history.Record) {
	var late, slow []string
	times := map[string][]time.Duration{}
	bounds := map[string]time.Duration{}
	rounds := map[string]int{}
	for i := range c.rounds {
		ro := &c.rounds[i]
		in := c.watched(i)
		for _, g := range history.Gaps(during(records, in), c.cfg.counters, in) {
			if g.Length() > boundServed {
				late = append(late, fmt.Sprintf("%s entity %d: no answer for %v", c.when(g.Span.From), g.Entity, toMS(g.Length())))
			}
		}
		kind := string(ro.Kind)
		switch {
		case ro.Kind.needsFiles() && ro.Emergency:
			kind += ", all killed"
		case ro.Kind.needsFiles() && ro.Killed > 0:
			kind += ", one killed"
		case ro.Emergency:
			kind += ", no majority left"
		}
		times[kind] = append(times[kind], c.recovery(records, i)...)
		bounds[kind] = max(bounds[kind], ro.bound())
		rounds[kind]++
	}
	r.add(fmt.Sprintf("every counter was answered again within %v of every fault", boundServed), len(c.rounds)*c.cfg.counters, late)
	kinds := make([]string, 0, len(times))
	for k := range times {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		q := quantilesOf(times[k])
		rec := recovery{Kind: k, Rounds: rounds[k], quantiles: q, BoundMS: ms(bounds[k]), Met: q.P99 <= ms(bounds[k])}
		if !rec.Met {
			slow = append(slow, fmt.Sprintf("%s: p99 %.0f ms, bound %.0f ms", k, q.P99, rec.BoundMS))
		}
		r.Recovery = append(r.Recovery, rec)
	}
	if c.cfg.enforce {
		r.add("the p99 of every kind of fault keeps its bound", len(r.Recovery), slow)
	}
}

// recovery returns how long the counters that round i concerned had no answer: from
// the kill on when their host was killed, the longest silence otherwise.
func (c *chaosRun) recovery(records []history.Record, i int) []time.Duration {
	ro, in := &c.rounds[i], c.watched(i)
	if ro.Kind == faultKill || ro.Kind == faultKillMany || ro.Kind == faultKillRest {
		killed := map[uint64]bool{}
		for _, id := range ro.Nodes {
			killed[id] = true
		}
		before := history.Span{From: in.From.Add(-lookBack), To: in.To}
		return history.Failovers(during(records, before), killed, in.From, in.To).Times
	}
	var out []time.Duration
	for _, g := range history.Gaps(during(records, in), c.cfg.counters, in) {
		out = append(out, g.Length())
	}
	return out
}

// lookBack is how long before a kill a counter's host is looked for.
const lookBack = 3 * time.Second

// during returns the records, sorted by start, that may touch a span: requests last
// at most as long as their caller's patience.
func during(records []history.Record, in history.Span) []history.Record {
	find := func(at clock.Instant) int {
		i, _ := slices.BinarySearchFunc(records, at, func(r history.Record, at clock.Instant) int { return int(r.Start - at) })
		return i
	}
	return records[find(in.From.Add(-callerPatience-attemptPatience)):find(in.To)]
}

// rollingRestart checks the additional guarantees of a rolling restart.
func (r *chaosReport) rollingRestart(c *chaosRun, records []history.Record) {
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
	r.add("no ask failed, not even once", asks, v)
	var moved []string
	in := history.Span{From: c.calmFrom, To: c.ended}
	for i, n := range history.Homes(records, c.cfg.counters, in) {
		r.MovesMax = max(r.MovesMax, n-1)
		if n-1 > movesMost {
			moved = append(moved, fmt.Sprintf("the shard of entity %d moved %d times", i, n-1))
		}
	}
	if !c.cfg.inPlace {
		r.add(fmt.Sprintf("no shard moved more than %d times", movesMost), c.cfg.counters, moved)
	}
}

// count fills the counters and checks that no caller gave up.
func (r *chaosReport) count(records []history.Record) {
	var asked, answered, gaveUp, handled uint64
	for _, rec := range records {
		switch rec.Op {
		case history.Asked:
			asked++
		case history.Answered:
			answered++
		case history.Failed:
			gaveUp++
		case history.Handled:
			handled++
		}
	}
	r.Counters = map[string]uint64{
		"asked": asked, "answered": answered, "given_up": gaveUp, "handled": handled,
		"caller_ended_first": asked - answered - gaveUp,
	}
	var v []string
	if gaveUp > 0 {
		v = append(v, fmt.Sprintf("%d requests were given up after %v of retries", gaveUp, callerPatience))
	}
	r.add("every request was answered, unless its caller's process ended first", int(asked), v)
}

func (r *chaosReport) latencies(c *chaosRun, records []history.Record) {
	var calm, hurt []time.Duration
	next := 0
	for _, rec := range records { // sorted by start, as the rounds are
		if rec.Op != history.Answered || rec.Start.Before(c.calmFrom) {
			continue
		}
		for next < len(c.rounds) && c.rounds[next].To.Before(rec.Start) {
			next++
		}
		if next < len(c.rounds) && c.rounds[next].From.Before(rec.End) {
			hurt = append(hurt, rec.End.Sub(rec.Start))
		} else {
			calm = append(calm, rec.End.Sub(rec.Start))
		}
	}
	r.Calm, r.Hurt = quantilesOf(calm), quantilesOf(hurt)
}

const binLength = 100 * time.Millisecond

func (r *chaosReport) timeline(c *chaosRun, records []history.Record) {
	if c.calmFrom == 0 {
		return
	}
	r.Timeline = make([]bin, int(c.ended.Sub(c.calmFrom)/binLength)+1)
	at := func(t clock.Instant) int { return min(max(int(t.Sub(c.calmFrom)/binLength), 0), len(r.Timeline)-1) }
	for _, rec := range records {
		switch rec.Op {
		case history.Answered:
			r.Timeline[at(rec.End)].Answered++
		case history.Failed:
			r.Timeline[at(rec.End)].GaveUp++
		}
	}
	for i := range c.rounds {
		for b := at(c.rounds[i].From); b <= at(c.rounds[i].To); b++ {
			r.Timeline[b].Hurt = true
		}
	}
}

func quantilesOf(times []time.Duration) quantiles {
	if len(times) == 0 {
		return quantiles{}
	}
	slices.Sort(times)
	f := history.Failover{Times: times}
	return quantiles{
		N: len(times), P50: ms(f.Percentile(50)), P90: ms(f.Percentile(90)), P99: ms(f.Percentile(99)), Max: ms(f.Percentile(100)),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
