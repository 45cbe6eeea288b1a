package chaos

import (
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/peerage-go/peerage/internal/harness"
)

// violationsShown is how many of each kind are printed; the JSON has all.
const violationsShown = 5

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "\nReport: %d rounds in %.1f s, seed %d, %d processors, load average %s\n", len(r.Rounds), r.TookMS/1000, r.Seed, r.Env.CPUs, r.Env.Load)
	for _, i := range r.Invariants {
		fmt.Fprintf(w, "  %-7s  %s (%s checked)\n", i.Verdict, i.Name, withCommas(i.Checked))
		for n, v := range i.Violations {
			if n == violationsShown {
				fmt.Fprintf(w, "           and %s more\n", withCommas(len(i.Violations)-n))
				break
			}
			fmt.Fprintf(w, "           %s\n", strings.ReplaceAll(v, "\n", "\n           "))
		}
	}
	r.printRequests(w)
	r.printTimes(w)
	fmt.Fprintf(w, "%s: %s\n", r.Verdict, r.verdictText())
}

// printRequests writes what became of the requests.
func (r *Report) printRequests(w io.Writer) {
	n := func(counter string) string { return withCommas(int(r.Counters[counter])) }
	a := r.Availability
	fmt.Fprintf(w, "\n  load             %.0f requests a second, %.0f answered before the first fault\n", r.Load.Target, r.Load.Before)
	fmt.Fprintf(w, "  availability     %.2f %% of %s requests that were due had their answer within %s, %.2f %% ever; %s had no caller, since its process was gone\n",
		percent(a.Prompt, a.Due), withCommas(a.Due), harness.FormatDuration(promptMax), percent(a.Answered, a.Due), withCommas(a.Missed))
	fmt.Fprintf(w, "  requests         %s sent: %s answered, %s given up, %s ended with their caller; %s not sent, since too many were in flight\n",
		n("asked"), n("answered"), n("given_up"), n("caller_ended_first"), n("not_sent"))
	if r.Counters["reliable_accepted"] > 0 {
		fmt.Fprintf(w, "  reliable         %s accepted, %s confirmed, %s handled, %s of them again\n",
			n("reliable_accepted"), n("reliable_confirmed"), n("reliable_handled"), n("reliable_handled_again"))
	}
	fmt.Fprintf(w, "  failed attempts  %s\n", harness.Reasons(r.FailedAttempts))
	fmt.Fprintf(w, "  machine          %v\n", r.Machine)
	if r.LateHandlers > 0 {
		fmt.Fprintf(w, "  late handlers    %d were running, or just let in, when their process was held, and ended afterwards\n", r.LateHandlers)
	}
	if r.MovesMax > 0 {
		fmt.Fprintf(w, "  moves            at most %d of a shard\n", r.MovesMax)
	}
}

// printTimes writes how long users waited.
func (r *Report) printTimes(w io.Writer) {
	millis := harness.FormatMillis
	for _, l := range []struct {
		when string
		of   Latency
	}{{"before", r.Before}, {"faults", r.During}, {"after", r.After}} {
		fmt.Fprintf(w, "  latency, %-7s p50 %s, p90 %s, p99 %s, p99.9 %s, max %s\n", l.when, millis(l.of.P50), millis(l.of.P90), millis(l.of.P99), millis(l.of.P999), millis(l.of.Max))
	}
	for _, k := range r.Recovery {
		fmt.Fprintf(w, "  without answer   %s, %s: p50 %s, p90 %s, p99 %s, max %s (bound %s: %s)\n",
			KindText(k.Kind), countOf(k.Rounds, "round"), millis(k.P50), millis(k.P90), millis(k.P99), millis(k.Max), millis(k.BoundMS), harness.Within(k.Met))
	}
	for _, f := range r.Failovers {
		fmt.Fprintf(w, "  first answer     %s, %s, %s: p50 %s%s, p99 %s%s, max %s\n", KindText(f.Kind), countOf(f.Rounds, "round"),
			countOf(f.Total.N, "counter"), millis(f.Total.P50), harness.FormatInterval(f.P50Interval), millis(f.Total.P99), harness.FormatInterval(f.P99Interval), millis(f.Total.Max))
		var parts []string
		for _, p := range f.Phases {
			parts = append(parts, p.Name+" "+millis(p.P50))
		}
		fmt.Fprintf(w, "                   at the median %s\n", strings.Join(parts, ", "))
	}
}

// verdictText says what the verdict of a run means.
func (r *Report) verdictText() string {
	broken, open := 0, 0
	for _, i := range r.Invariants {
		switch i.Verdict {
		case Failed:
			broken++
		case Unknown:
			open++
		}
	}
	switch {
	case broken > 0:
		return fmt.Sprintf("%d of %s broken", broken, countOf(len(r.Invariants), "promise"))
	case open > 0:
		return fmt.Sprintf("%d of %s not shown", open, countOf(len(r.Invariants), "promise"))
	}
	return countOf(len(r.Invariants), "promise") + " kept"
}

func withCommas(n int) string { return humanize.Comma(int64(n)) }

// countOf words how many things there are.
func countOf(n int, thing string) string {
	return withCommas(n) + " " + english.PluralWord(n, thing, "")
}
