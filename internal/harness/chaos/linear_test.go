package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/harness/faults"
	"github.com/peerage-go/peerage/internal/history"
)

// ran is a handler run from..to that counted to value, answered what its caller saw.
func ran(node, value uint64, from, to clock.Instant) history.Record {
	return history.Record{Op: history.Handled, Node: node, Term: node, Value: value, Start: from, End: to}
}

func saw(value uint64, from, to clock.Instant) history.Record {
	return history.Record{Op: history.Answered, Node: 9, Value: value, Start: from, End: to}
}

func TestCountersAreLinearizable(t *testing.T) {
	lost := []history.Span{{From: 50, To: 60}}
	for name, tc := range map[string]struct {
		records []history.Record
		excused []history.Span
		verdict string
	}{
		"one after the other":                            {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(1, 2, 6, 7), saw(2, 5, 8)}, nil, Passed},
		"an answer that was overtaken while both waited": {[]history.Record{ran(1, 1, 4, 5), saw(1, 2, 9), ran(1, 2, 6, 7), saw(2, 1, 8)}, nil, Passed},
		"a later request has an earlier count":           {[]history.Record{ran(1, 2, 2, 3), saw(2, 1, 4), ran(2, 1, 6, 7), saw(1, 5, 8)}, nil, Failed},
		"a count that was answered twice":                {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(2, 1, 6, 7), saw(1, 5, 8)}, nil, Failed},
		"a run without an answer, lost with its host":    {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(1, 2, 6, 7), ran(2, 2, 9, 10), saw(2, 5, 11)}, nil, Passed},
		"a run without an answer that took effect":       {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(1, 2, 6, 7), ran(2, 3, 9, 10), saw(3, 5, 11)}, nil, Passed},
		"a kill takes the count":                         {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(2, 1, 70, 71), saw(1, 65, 72)}, lost, Passed},
		"a kill takes the count, and that is no excuse":  {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(2, 1, 70, 71), saw(1, 65, 72)}, nil, Failed},
		"a run without an answer at the end":             {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(2, 2, 6, 7), saw(2, 5, 8), ran(2, 2, 9, 10)}, nil, Passed},
		"an answer that no run explains":                 {[]history.Record{ran(1, 1, 2, 3), saw(1, 1, 4), ran(2, 2, 6, 7), saw(2, 5, 8), saw(7, 9, 10)}, nil, Failed},
		"a counter that does not begin at 0":             {[]history.Record{ran(1, 8, 2, 3), saw(8, 1, 4), ran(2, 9, 6, 7), saw(9, 5, 8)}, nil, Failed},
		"nothing":                                        {nil, nil, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{}
			r.linearizable(tc.records, history.Unfounded(tc.records), tc.excused)
			if want := len(tc.excused); r.Linear.Restarts != want {
				t.Errorf("%d counts began again, want %d", r.Linear.Restarts, want)
			}
			if got := r.Invariants[0]; got.Verdict != tc.verdict {
				t.Errorf("%+v, want %s", got, tc.verdict)
			}
			if moved := tc.verdict != Unknown && name != "one after the other" && name != "an answer that was overtaken while both waited"; moved && r.Linear.Picture == "" {
				t.Error("no picture")
			}
		})
	}
}

// The parts of a failover follow each other, and belong to the host of the counter.
func TestFailoversAreDividedIntoParts(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	at := func(op history.Op, node, about uint64, when clock.Instant) history.Record {
		return history.Record{Op: op, Node: node, Sender: about, Start: when * ms}
	}
	records := []history.Record{
		ran(1, 1, 2*ms, 3*ms), // counter 0 lives on node 1, which is killed at 100 ms
		at(history.Suspected, 3, 7, 101),
		at(history.Suspected, 1, 1, 102), // by the killed itself
		at(history.Suspected, 2, 1, 120), at(history.Suspected, 3, 1, 125),
		at(history.Excluded, 2, 1, 126), at(history.Excluded, 3, 1, 127),
		at(history.Created, 2, 0, 130), at(history.HandlerStarted, 2, 0, 132),
		saw(1, 105*ms, 140*ms), saw(2, 106*ms, 141*ms),
	}
	got := failoversIn(records, []uint64{1}, history.Span{From: 100 * ms, To: 1000 * ms})
	if want := (moments{120 * ms, 126 * ms, 130 * ms, 132 * ms, 140 * ms}); len(got) != 1 || got[0] != want {
		t.Errorf("%v, want %v", got, want)
	}
	if none := failoversIn(records, []uint64{5}, history.Span{From: 100 * ms, To: 1000 * ms}); none != nil {
		t.Errorf("another node was killed: %v", none)
	}
}

// A counter whose moments are recorded late, or not at all, is part of the figures: its first
// answer is known.
func TestNoFailoverIsLeftOut(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	at := func(op history.Op, about uint64, when clock.Instant) history.Record {
		return history.Record{Op: op, Node: 2, Sender: about, Start: when * ms}
	}
	suspected, excluded := at(history.Suspected, 1, 120), at(history.Excluded, 1, 126)
	for name, tc := range map[string]struct {
		marks []history.Record
		want  moments
	}{
		"the evidence is older than the kill":          {[]history.Record{excluded}, moments{126 * ms, 126 * ms, 130 * ms, 132 * ms, 140 * ms}},
		"the view is on record after the new instance": {[]history.Record{suspected, at(history.Excluded, 1, 131)}, moments{120 * ms, 130 * ms, 130 * ms, 132 * ms, 140 * ms}},
		"neither is on record":                         {nil, moments{130 * ms, 130 * ms, 130 * ms, 132 * ms, 140 * ms}},
	} {
		records := append([]history.Record{ran(1, 1, 2*ms, 3*ms), at(history.Created, 0, 130), at(history.HandlerStarted, 0, 132), saw(1, 105*ms, 140*ms)}, tc.marks...)
		if got := failoversIn(records, []uint64{1}, history.Span{From: 100 * ms, To: 1000 * ms}); len(got) != 1 || got[0] != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Six kills of one process have an interval, in which a single slow failover shows; four have
// none.
func TestFailoversHaveIntervals(t *testing.T) {
	const ms = clock.Instant(time.Millisecond)
	campaignOf := func(kills int) (*campaign, []history.Record) {
		c := &campaign{cfg: &Config{}, faults: &faults.Injector{}, ended: clock.Instant(kills+1) * 1000 * ms}
		var records []history.Record
		for i := range kills {
			from := clock.Instant(i+1) * 1000 * ms
			c.faults.Rounds = append(c.faults.Rounds, faults.Round{Kind: faults.Kill, Nodes: []uint64{uint64(i)}, From: from, To: from + 100*ms})
			took := 40 * ms
			if i == 2 {
				took = 400 * ms
			}
			next := uint64(i + 1)
			records = append(records,
				history.Record{Op: history.Handled, Node: uint64(i), Start: from - 10*ms, End: from - 9*ms},
				history.Record{Op: history.Suspected, Node: 99, Sender: uint64(i), Start: from + ms},
				history.Record{Op: history.Excluded, Node: 99, Sender: uint64(i), Start: from + 2*ms},
				history.Record{Op: history.Created, Node: next, Start: from + 3*ms},
				history.Record{Op: history.HandlerStarted, Node: next, Start: from + 4*ms},
				history.Record{Op: history.Answered, Node: 99, Start: from, End: from + took})
		}
		return c, records
	}
	r := &Report{}
	r.failovers(campaignOf(6))
	if len(r.Failovers) != 1 || r.Failovers[0].Rounds != 6 || r.Failovers[0].Total.N != 6 {
		t.Fatalf("%+v", r.Failovers)
	}
	f := r.Failovers[0]
	if f.P50Interval == nil || f.P50Interval.Low != 40 || f.P99Interval == nil || f.P99Interval.Low != 40 || f.P99Interval.High != 400 {
		t.Errorf("p50 %+v, p99 %+v", f.P50Interval, f.P99Interval)
	}
	var out strings.Builder
	r.Print(&out)
	if want := "one killed, 6 rounds, 6 counters: p50 40 ms (40 ms to 40 ms), p99 400 ms (40 ms to 400 ms), max 400 ms\n                   at the median detect 1 ms, decide 1 ms, "; !strings.Contains(out.String(), want) {
		t.Errorf("the report lacks %q:\n%s", want, out.String())
	}
	r = &Report{}
	if r.failovers(campaignOf(4)); r.Failovers[0].P50Interval != nil || r.Failovers[0].Total.P50 != 40 {
		t.Errorf("%+v", r.Failovers[0])
	}
}
