package demo

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/machine"
	"github.com/peerage-go/peerage/internal/harness/terminal"
	"github.com/peerage-go/peerage/internal/history"
)

// What Akka and Pekko expect for the failover of a sharded entity after a crash: 5 s until it
// is detected, then twice stable-after, which is 20 s by default and 7 s by recommendation for
// five nodes. A node that sees more than half of the others crash ends itself. From
// "Expected Failover Time" and "Keep Majority" of pekkoSource, read in November 2026.
const (
	pekkoDetects     = 5 * time.Second
	pekkoStable      = 20 * time.Second
	pekkoStableFive  = 7 * time.Second
	pekkoDefault     = pekkoDetects + 2*pekkoStable
	pekkoRecommended = pekkoDetects + 2*pekkoStableFive
	pekkoSource      = "pekko.apache.org/docs/pekko/current/split-brain-resolver.html"
)

const (
	// labelWidth is the width of what a fact of the verdict is about.
	labelWidth = 21
	// doublesShown is how many doubles are printed.
	doublesShown = 5
)

// Print writes the verdict, and reports whether everything held.
func (v *Verdict) Print(w io.Writer) bool {
	s, errs := terminal.New(w), v.failures()
	killed := 0
	for _, k := range v.kills {
		killed += len(k.names)
	}
	word := s.Paint(terminal.Green, "PASS")
	if errs != nil {
		word = s.Paint(terminal.Red, "FAIL")
	}
	lived := "no counter ever lived twice"
	if len(v.doubles) > 0 {
		lived = "counters lived twice"
	}
	s.Print(0, s.Fold(fmt.Sprintf("\n%s in %.1f s: %d of %d killed, %s.", word, v.took.Seconds(), killed, v.cfg.Nodes, lived))+"\n\n")
	v.printFacts(s)
	if errs != nil {
		s.Print(2, "\n"+s.Paint(terminal.Bold, "What failed")+"\n  "+strings.ReplaceAll(errs.Error(), "\n", "\n  "))
		return false
	}
	v.printComparison(s)
	v.printNext(s)
	return true
}

func (v *Verdict) printFacts(s *terminal.Screen) {
	printFact(s, "Counters living twice", fmt.Sprintf("%d, in %s messages handled", len(v.doubles), comma(v.handled)))
	for _, d := range v.doubles[:min(len(v.doubles), doublesShown)] {
		s.Print(4, "    "+d.String())
	}
	asks := fmt.Sprintf("%s answered, %s given up", comma(v.load.Answered), comma(v.load.GaveUp))
	if v.lost > 0 {
		asks += fmt.Sprintf("; %s died with their caller", comma(v.lost))
	}
	printFact(s, "Asks", asks)
	printFact(s, "Answered again after", v.failoverTimes())
	if v.machine.Overloaded && !v.metBounds() {
		printFact(s, "The machine was busy", fmt.Sprintf("%d of %d seconds; other programs had %.0f %% of it", v.machine.Starved, v.machine.Windows, 100*v.machine.Others))
	}
	printFact(s, v.survivor+" alone serves", fmt.Sprintf("%d of %d shards, %d of %d counters", v.survivorShards, v.shards, v.cfg.Counters-len(v.unserved), v.cfg.Counters))
	if len(v.load.Tries) > 0 {
		printFact(s, "Attempts repeated", harness.Reasons(v.load.Tries))
	}
}

// failoverTimes words the time from each kill until all counters answered again, beside its bound.
func (v *Verdict) failoverTimes() string {
	var times, bounds []string
	for i, k := range v.kills {
		f := harness.HistogramOf(v.failovers[i].Times)
		times = append(times, wholeMillis(f.Percentile(100)))
		bounds = append(bounds, wholeMillis(k.bound()))
	}
	word := "bound"
	if len(bounds) > 1 {
		word = "bounds"
	}
	return fmt.Sprintf("%s ms (%s %s ms: %s)", strings.Join(times, ", "), word, strings.Join(bounds, ", "), harness.Within(v.metBounds()))
}

// printFact writes a label and its text side by side, or one below the other where that is
// too wide.
func printFact(s *terminal.Screen, label, text string) {
	line := fmt.Sprintf("  %-*s  %s", labelWidth, label, text)
	if s.Live() && len(line) >= s.Width() {
		s.Print(2, "  "+label)
		s.Print(6, "      "+text)
		return
	}
	s.Print(labelWidth+4, line)
}

// printComparison says what the best-known alternative takes, by its own manual.
func (v *Verdict) printComparison(s *terminal.Screen) {
	text := fmt.Sprintf("\nAkka and Pekko expect %.0f s for this after one crash, or %.0f s as recommended for five nodes.",
		pekkoDefault.Seconds(), pekkoRecommended.Seconds())
	for _, k := range v.kills {
		if k.emergency {
			text += " If most crash, all end."
			break
		}
	}
	s.Print(0, s.Fold(text))
	if source := "(" + pekkoSource + ")"; len(source) < s.Width() {
		s.Print(0, s.Paint(terminal.Dim, source))
	}
}

// printNext names what to try next.
func (v *Verdict) printNext(s *terminal.Screen) {
	s.Print(0, "\n"+s.Paint(terminal.Bold, "Next"))
	for _, next := range [][2]string{
		{"demo --at-once", "kill all but one at the same instant"},
		{"chaos --preset n-1 --rounds 3 --report out.html", "the same under load, measured, with a page to show"},
	} {
		if v.cfg.AtOnce && strings.Contains(next[0], "--at-once") {
			next = [2]string{"demo", "kill them one after another"}
		}
		line := v.cfg.Command + " " + next[0]
		if s.Live() && len(line)+2 >= s.Width() { // it must still be good to copy
			line = strings.Replace(line, " --report", " \\\n      --report", 1)
		}
		s.Print(6, "  "+s.Paint(terminal.Cyan, line)+"\n      "+next[1])
	}
	s.Print(6, "  docs/GUIDE.md: a service of your own on three processes")
}

// Result is the verdict in JSON.
type Result struct {
	Schema    int           `json:"schema"`
	Verdict   string        `json:"verdict"`
	Failures  []string      `json:"failures,omitempty"`
	Nodes     int           `json:"nodes"`
	TookMS    float64       `json:"took_ms"`
	Doubles   int           `json:"doubles"`
	Handled   uint64        `json:"handler_runs"`
	Answered  uint64        `json:"answered"`
	GaveUp    uint64        `json:"gave_up"`
	Lost      uint64        `json:"lost_with_their_caller"`
	Kills     []FailoverRow `json:"kills"`
	Survivor  string        `json:"survivor"`
	Shards    int           `json:"survivor_shards"`
	ShardsAll int           `json:"shards"`
	Unserved  []uint32      `json:"unserved_counters"`
	// Machine is how busy the machine was: late answers of an overloaded one say little.
	Machine machine.Summary `json:"machine"`
}

// FailoverRow is one kill in a Result.
type FailoverRow struct {
	Killed []string `json:"killed"`
	// Emergency is set if no majority survived.
	Emergency bool `json:"emergency"`
	Moved     int  `json:"moved"`
	// The times run from the kill to the first answers of the counters that moved.
	harness.Quantiles
	BoundMS float64 `json:"bound_ms"`
	Met     bool    `json:"met"`
}

// Result returns the verdict for programs.
func (v *Verdict) Result() *Result {
	r := &Result{
		Schema: 1, Verdict: "PASS", Nodes: v.cfg.Nodes, TookMS: harness.Milliseconds(v.took), Doubles: len(v.doubles), Handled: v.handled,
		Answered: v.load.Answered, GaveUp: v.load.GaveUp, Lost: v.lost, Survivor: v.survivor, Shards: v.survivorShards, ShardsAll: v.shards,
		Unserved: append([]uint32{}, v.unserved...), Kills: []FailoverRow{}, Machine: v.machine,
	}
	if errs := v.failures(); errs != nil {
		r.Verdict, r.Failures = "FAIL", strings.Split(errs.Error(), "\n")
	}
	for i, k := range v.kills {
		r.Kills = append(r.Kills, failoverRow(k, v.failovers[i]))
	}
	return r
}

func failoverRow(k kill, f history.Failover) FailoverRow {
	times := harness.HistogramOf(f.Times)
	return FailoverRow{
		Killed: k.names, Emergency: k.emergency, Moved: f.Moved, Quantiles: times.Quantiles(),
		BoundMS: harness.Milliseconds(k.bound()), Met: times.Percentile(99) <= k.bound(),
	}
}

func comma(n uint64) string { return humanize.Comma(int64(n)) }

func inMillis(d time.Duration) string { return wholeMillis(d) + " ms" }

func wholeMillis(d time.Duration) string { return comma(uint64(math.Round(harness.Milliseconds(d)))) }
