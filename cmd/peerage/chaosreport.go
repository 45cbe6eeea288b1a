package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/history"
)

// The verdicts of a report and of each of its invariants.
const (
	passed  = "PASS"
	failed  = "FAIL"
	unknown = "UNKNOWN"
)

// chaosReport is the result of a run of `peerage chaos`. Times are in milliseconds.
type chaosReport struct {
	Schema     int               `json:"schema"`
	Verdict    string            `json:"verdict"`
	Invariants []invariant       `json:"invariants"`
	Command    string            `json:"command"`
	Seed       uint64            `json:"seed"`
	Env        environment       `json:"environment"`
	TookMS     float64           `json:"took_ms"`
	Rounds     []round           `json:"rounds"`
	Recovery   []recovery        `json:"recovery"`
	Counters   map[string]uint64 `json:"counters"`
	// FailedAttempts counts attempts by reason; their callers tried again.
	FailedAttempts map[string]uint64 `json:"failed_attempts"`
	Calm           quantiles         `json:"latency_calm"`
	Hurt           quantiles         `json:"latency_during_faults"`
	// LateHandlers counts handlers that were running, or just let in, when their process
	// was held, and ended after it went on: G1 allows that, and the token fences their effects.
	LateHandlers int `json:"late_handlers"`
	// MovesMax is the most moves of any shard, in a rolling restart.
	MovesMax int `json:"moves_per_shard_max,omitempty"`
	// Timeline has a bin for each 100 ms since the load stood.
	Timeline []bin `json:"timeline"`
}

// invariant is one promise, how often it was checked, and what broke it.
type invariant struct {
	Name       string   `json:"name"`
	Verdict    string   `json:"verdict"`
	Checked    int      `json:"checked"`
	Violations []string `json:"violations,omitempty"`
}

type environment struct {
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	CPUs     int    `json:"cpus"`
	Load     string `json:"load_average"`
}

// recovery is how long counters were without an answer, over all rounds of a kind.
type recovery struct {
	Kind   string `json:"kind"`
	Rounds int    `json:"rounds"`
	quantiles
	BoundMS float64 `json:"bound_ms"`
	Met     bool    `json:"met"`
}

type quantiles struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50_ms"`
	P90 float64 `json:"p90_ms"`
	P99 float64 `json:"p99_ms"`
	Max float64 `json:"max_ms"`
}

type bin struct {
	Answered int  `json:"answered"`
	GaveUp   int  `json:"gave_up,omitempty"`
	Hurt     bool `json:"hurt,omitempty"`
}

// The bounds that the README advertises for an orderly stop and for a silent node.
const (
	boundOrderly = 100 * time.Millisecond
	boundSilent  = 2500 * time.Millisecond
	// boundServed is the one that always fails a run.
	boundServed = 10 * time.Second
	movesMost   = 2
	// boundHealed is what kernels' retransmission and a new view take after a network has
	// healed. In a ring no removal makes all members reach each other: a counter may be
	// without an answer until then (GUARANTEES.md, G5).
	boundHealed = 1500 * time.Millisecond
)

// bound is the advertised p99 of the time without an answer.
func (r *round) bound() time.Duration {
	switch {
	case r.Kind == faultRing:
		return max(boundFrozen, time.Duration(r.HeldMS)*time.Millisecond+boundHealed)
	case r.Kind == faultStop, r.Kind == faultFreeze, r.Kind.breaksNetwork():
		return boundFrozen
	case r.Kind.needsFiles() && r.Emergency:
		return boundServed
	case !r.rough():
		return boundOrderly
	case r.Emergency:
		return boundEmergency
	}
	return boundMajority
}

// report checks the records. err is why the script ended early.
func (c *chaosRun) report(records []history.Record, err error) *chaosReport {
	slices.SortStableFunc(records, func(a, b history.Record) int { return cmp.Compare(a.Start, b.Start) })
	r := &chaosReport{
		Schema: 1, Command: c.cfg.command(), Seed: c.cfg.seed, Env: thisEnvironment(), TookMS: ms(time.Since(c.began)),
		Rounds: c.rounds, FailedAttempts: c.fleet.totals().Tries, Counters: map[string]uint64{},
	}
	r.script(c, err)
	r.safety(c, records)
	r.service(c, records)
	r.count(records)
	if c.cfg.rolling {
		r.rollingRestart(c, records)
	}
	r.latencies(c, records)
	r.timeline(c, records)
	r.Verdict = passed
	for _, i := range r.Invariants {
		if i.Verdict == failed || i.Verdict == unknown && r.Verdict == passed {
			r.Verdict = i.Verdict
		}
	}
	return r
}

func (r *chaosReport) add(name string, checked int, violations []string) {
	i := invariant{Name: name, Verdict: passed, Checked: checked, Violations: violations}
	switch {
	case len(violations) > 0:
		i.Verdict = failed
	case checked == 0:
		i.Verdict = unknown
	}
	r.Invariants = append(r.Invariants, i)
}

// script checks that the faults were dealt, and that all nodes agreed after each.
func (r *chaosReport) script(c *chaosRun, err error) {
	effective := 0
	for _, ro := range c.rounds {
		if ro.TookEffect {
			effective++
		}
	}
	i := invariant{Name: "every fault took effect, and all nodes agreed afterwards", Verdict: passed, Checked: effective}
	switch want := c.steps(); {
	case err != nil && strings.Contains(err.Error(), "context canceled"):
		i.Verdict, i.Violations = unknown, []string{"interrupted: " + err.Error()}
	case err != nil:
		i.Verdict, i.Violations = failed, []string{err.Error()}
	case effective < want:
		i.Verdict, i.Violations = unknown, []string{fmt.Sprintf("%d of %d faults had an effect", effective, want)}
	}
	r.Invariants = append(r.Invariants, i)
}

func (c *chaosRun) steps() int {
	if c.cfg.rolling {
		return c.cfg.nodes
	}
	return c.cfg.rounds
}

// safety checks what must hold in every run.
func (r *chaosReport) safety(c *chaosRun, records []history.Record) {
	var rough, beyond []history.Span
	for i := range c.rounds {
		ro := &c.rounds[i]
		if !ro.rough() {
			continue
		}
		rough = append(rough, ro.span())
		if 2*ro.lost() >= c.cfg.replicas {
			beyond = append(beyond, ro.span())
		}
	}
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
	r.add("no counter had two live instances", handled, lines(c, history.Doubles(rest), func(d history.Double) clock.Instant { return d.Again.Start }))
	after := func(l history.Loss) clock.Instant { return l.After.Start }
	kept := c.cfg.replicas > 0
	r.add("nothing acknowledged was lost by an instance or by an orderly move", handled, lines(c, history.Losses(rest, rough, kept), after))
	if kept {
		r.add(fmt.Sprintf("nothing acknowledged was lost while a majority of its %d copies lived", c.cfg.replicas), answered,
			lines(c, history.Forgotten(rest, beyond), after))
	}
	r.add("messages of each process were handled in the order in which it sent them", told,
		lines(c, history.Inversions(records), history.Inversion.When))
	r.data(c, records)
	unfounded := history.Unfounded(records)
	var v []string
	for _, u := range unfounded {
		v = append(v, fmt.Sprintf("%s entity %d: %016x received %d", c.when(u.Start), u.Entity, u.Node, u.Value))
	}
	r.add("every answer was counted by an instance while its caller waited", answered, v)
}

// data checks tokens over all lives of the cluster, and the reads of replicated data.
func (r *chaosReport) data(c *chaosRun, records []history.Record) {
	rest, _ := history.Late(records, c.holds())
	runs := 0
	for _, rec := range rest {
		if rec.Op == history.Handled {
			runs++
		}
	}
	r.add("no token of a shard went back, in any life of the cluster", runs,
		lines(c, history.Regressions(rest), func(g history.Regression) clock.Instant { return g.After.Start }))
	if !c.fleet.files {
		return
	}
	stale, checked := history.StaleReads(records, nil)
	r.add("a register shows no write that was overwritten", checked,
		lines(c, stale, func(s history.Stale) clock.Instant { return s.Read.Start }))
	missing, checked := history.Missing(records)
	var v []string
	for _, m := range missing {
		v = append(v, fmt.Sprintf("%s entry %d of process %016x is gone, at node %016x", c.when(m.Start), m.Entity, m.Sender, m.Node))
	}
	r.add("nothing acknowledged on disk was lost", checked, v)
}

// holds returns which nodes were held, and when.
func (c *chaosRun) holds() []history.Hold {
	var out []history.Hold
	for _, r := range c.rounds {
		for _, id := range r.Nodes {
			if r.HeldTo != 0 {
				out = append(out, history.Hold{Node: id, Span: history.Span{From: r.HeldFrom, To: r.HeldTo}})
			}
		}
	}
	return out
}

// lines formats each violation with its time and its round.
func lines[V fmt.Stringer](c *chaosRun, violations []V, at func(V) clock.Instant) []string {
	var out []string
	for _, v := range violations {
		out = append(out, c.when(at(v))+" "+v.String())
	}
	return out
}

func thisEnvironment() environment {
	e := environment{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU()}
	info, _ := debug.ReadBuildInfo()
	e.Commit, e.Modified = commitOf(info)
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		e.Load = strings.TrimSpace(string(b))
	}
	return e
}

// violationsShown is how many of each kind are printed; the JSON has all.
const violationsShown = 5

// print writes the report for people.
func (r *chaosReport) print(w io.Writer) {
	fmt.Fprintf(w, "\nReport: %d rounds in %.1f s, seed %d, %d CPUs, load average %s\n", len(r.Rounds), r.TookMS/1000, r.Seed, r.Env.CPUs, r.Env.Load)
	for _, i := range r.Invariants {
		fmt.Fprintf(w, "  %-7s  %s (%d checked)\n", i.Verdict, i.Name, i.Checked)
		for n, v := range i.Violations {
			if n == violationsShown {
				fmt.Fprintf(w, "           and %d more\n", len(i.Violations)-n)
				break
			}
			fmt.Fprintf(w, "           %s\n", strings.ReplaceAll(v, "\n", "\n           "))
		}
	}
	fmt.Fprintf(w, "  requests         ")
	for _, k := range slices.Sorted(maps.Keys(r.Counters)) {
		fmt.Fprintf(w, "%s %d  ", k, r.Counters[k])
	}
	fmt.Fprintf(w, "\n  failed attempts  %s\n", reasons(r.FailedAttempts))
	for _, k := range r.Recovery {
		fmt.Fprintf(w, "  without answer   %-28s %3d rounds: p50 %.0f, p90 %.0f, p99 %.0f, max %.0f ms (bound %.0f: %s)\n",
			k.Kind, k.Rounds, k.P50, k.P90, k.P99, k.Max, k.BoundMS, within(k.Met))
	}
	fmt.Fprintf(w, "  latency, calm    p50 %.1f, p90 %.1f, p99 %.1f, max %.1f ms\n", r.Calm.P50, r.Calm.P90, r.Calm.P99, r.Calm.Max)
	fmt.Fprintf(w, "  latency, faults  p50 %.1f, p90 %.1f, p99 %.1f, max %.1f ms\n", r.Hurt.P50, r.Hurt.P90, r.Hurt.P99, r.Hurt.Max)
	if r.LateHandlers > 0 {
		fmt.Fprintf(w, "  late handlers    %d were running, or just let in, when their process was held, and ended afterwards\n", r.LateHandlers)
	}
	if r.MovesMax > 0 {
		fmt.Fprintf(w, "  moves            at most %d of a shard\n", r.MovesMax)
	}
	fmt.Fprintln(w, r.Verdict)
}

// save writes the report in JSON; an empty name writes none.
func (r *chaosReport) save(file string) error {
	if file == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o666)
}

func (r *chaosReport) exitCode() int {
	switch r.Verdict {
	case passed:
		return exitOK
	case failed:
		return exitFailed
	}
	return exitUsage // as the usage documents: the run proves nothing
}
