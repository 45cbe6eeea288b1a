package page

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"strings"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
)

// view is what the template shows.
type view struct {
	Verdict, Mark, Subtitle, Summary, Command, Target string
	Seed                                              uint64
	CSS                                               template.CSS
	JSON                                              template.JS
	Answers, Environment                              []answer
	Why                                               []string
	Invariants                                        []promise
	Timeline                                          *timeline
	Bars                                              []bar
	Phases                                            []string
	Recovery                                          []recoveryRow
	Curves                                            []curve
	Grid, Percents                                    []label
	Latencies                                         []latencyRow
	Costs                                             []costRow
	Faults                                            []faultRow
	Picture, PictureOf, Settings, Healed              string
}

// Write writes the page of a report.
func Write(w io.Writer, r *chaos.Report) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	v := &view{
		Verdict: r.Verdict, Mark: signOf(r.Verdict), Seed: r.Seed, Command: r.Command, CSS: template.CSS(pageCSS), JSON: template.JS(raw),
		Target: grouped(int(r.Load.Target)), Picture: framed(r.Linear.Picture), PictureOf: r.Linear.PictureOf,
		Subtitle: subtitle(r), Summary: r.Config.Summary(), Answers: headline(r), Why: reasons(r), Environment: environment(r), Settings: settingsText(r),
		Timeline: newTimeline(r), Recovery: recoveryRows(r), Latencies: latencyRows(r), Costs: costRows(r), Faults: faultRows(r), Healed: healedText(r.Healed),
	}
	v.Bars, v.Phases = newBars(r)
	v.Invariants = promises(r)
	v.Curves, v.Grid, v.Percents = newCurves(r)
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, v)
}

// Save writes the page of a report to a file.
func Save(file string, r *chaos.Report) error {
	var b strings.Builder
	if err := Write(&b, r); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(b.String()), 0o666)
}

// subtitle is what the summary does not say of a run.
func subtitle(r *chaos.Report) string {
	c := r.Config
	var parts []string
	if c.Service == nil {
		parts = append(parts, fmt.Sprintf("%d shards", c.Shards))
	}
	if c.Replicas > 0 {
		parts = append(parts, fmt.Sprintf("%d copies each", c.Replicas))
	}
	if c.Work != "" && c.Work != chaos.DefaultWork {
		parts = append(parts, "workloads "+c.Work)
	}
	parts = append(parts, fmt.Sprintf("seed %d", r.Seed), fmt.Sprintf("%.0f s", r.TookMS/1000), r.At.Format("2006-01-02 15:04 MST"))
	return strings.Join(parts, " · ")
}

// headline answers what readers ask first.
func headline(r *chaos.Report) []answer {
	twice := answer{Question: "entities that lived twice", Answer: "?"}
	if r.Config.Service != nil {
		twice.Question = "counts that were answered twice"
	}
	lost := answer{Question: "acknowledged updates lost", Answer: "0", Of: "of " + grouped(int(r.Counters["answered"]))}
	broken := 0
	for _, i := range r.Invariants {
		switch {
		case i.Name == chaos.AnsweredTwice && i.Verdict != chaos.Unknown:
			twice.Answer, twice.Of = grouped(len(i.Violations)), fmt.Sprintf("of %s", grouped(i.Checked))
		case i.Name == chaos.SingleInstance && i.Verdict != chaos.Unknown:
			twice.Answer, twice.Of = grouped(len(i.Violations)), fmt.Sprintf("of %s runs", grouped(i.Checked))
			if len(i.Violations) > 0 {
				twice.Of = "runs beside another, " + twice.Of
			}
		case strings.HasPrefix(i.Name, chaos.NothingLost) && i.Verdict == chaos.Unknown:
			lost.Answer = "?"
		case strings.HasPrefix(i.Name, chaos.NothingLost):
			broken += len(i.Violations)
		}
	}
	if n := r.Linear.Restarts; n > 0 {
		lost.Of += fmt.Sprintf("; %s counts began again, since a fault took every copy", grouped(n))
	}
	if broken > 0 {
		lost.Answer = grouped(broken)
	}
	gaveUp := answer{Question: "requests given up", Answer: grouped(int(r.Counters["given_up"])), Of: "of " + grouped(int(r.Counters["asked"]))}
	if n := r.Availability.NotSent; n > 0 {
		gaveUp.Of += fmt.Sprintf("; %s were not sent", grouped(n))
	}
	if s := r.Config.Service; s != nil && s.Register != nil {
		return []answer{registers(r), available(r), gaveUp, slowest(r)}
	}
	return []answer{twice, lost, available(r), gaveUp, slowest(r)}
}

// registers is how many answers of a service's registers contradict each other.
func registers(r *chaos.Report) answer {
	a := answer{Question: "contradictions between answers", Answer: "?"}
	for _, i := range r.Invariants {
		if i.Name == chaos.RegistersLinearizable && i.Verdict != chaos.Unknown {
			a.Answer, a.Of = grouped(len(i.Violations)), "of "+grouped(i.Checked)
		}
	}
	return a
}

// available is the share of the requests that had their answer promptly.
func available(r *chaos.Report) answer {
	a, av := answer{Question: "answered within 100 ms", Answer: "?"}, r.Availability
	if av.Due > 0 {
		a.Answer, a.Of = fmt.Sprintf("%.1f %%", math.Floor(1000*float64(av.Prompt)/float64(av.Due))/10), "of "+grouped(av.Due)+" that were due"
		if av.Missed > 0 {
			a.Of += fmt.Sprintf("; the processes of %s were gone", grouped(av.Missed))
		}
	}
	return a
}

// slowest is how long the worst kind of fault kept counters without an answer.
func slowest(r *chaos.Report) answer {
	a := answer{Question: "first answer after a kill, p99", Answer: "?", Of: "no kill"}
	worst := 0.0
	for _, f := range r.Failovers {
		if f.Total.N > 0 && f.Total.P99 >= worst {
			worst, a.Answer, a.Of = f.Total.P99, harness.FormatMillis(f.Total.P99), fmt.Sprintf("of %s counters", grouped(f.Total.N))
		}
	}
	if worst > 0 {
		return a
	}
	a.Question = "longest time without an answer"
	for _, k := range r.Recovery {
		if k.Max >= worst {
			worst, a.Answer, a.Of = k.Max, harness.FormatMillis(k.Max), chaos.KindText(k.Kind)
		}
	}
	return a
}

// reasons lists the promises that are not kept, or not shown to be.
func reasons(r *chaos.Report) (out []string) {
	for _, i := range r.Invariants {
		switch i.Verdict {
		case chaos.Failed:
			out = append(out, fmt.Sprintf("✗ Broken promise: %s. %s", i.Name, firstOf(i.Violations)))
		case chaos.Unknown:
			out = append(out, fmt.Sprintf("? Promise that was not shown: %s. %s", i.Name, firstOf(i.Violations)))
		}
	}
	return out
}

func firstOf(texts []string) string {
	if len(texts) == 0 {
		return "Nothing was checked."
	}
	return texts[0]
}

func environment(r *chaos.Report) []answer {
	e := r.Env
	commit := e.Commit
	if commit == "" {
		commit = "not recorded in this build"
	} else if e.Modified {
		commit += ", with uncommitted changes"
	}
	out := []answer{
		{Question: "commit", Answer: commit},
		{Question: "built with", Answer: e.Go + ", " + e.OS},
		{Question: "machine", Answer: strings.Trim(fmt.Sprintf("%d processors, %s", e.CPUs, e.Processor), ", ")},
		{Question: "kernel", Answer: e.Kernel},
		{Question: "load average", Answer: e.Load},
		{Question: "load", Answer: fmt.Sprintf("%.0f requests per second due, %.0f answered before the first fault", r.Load.Target, r.Load.Before)},
		{Question: "in flight", Answer: fmt.Sprintf("at most %d requests of a process, of %d allowed; %s that were due were not sent", r.Availability.InFlightMost, r.Availability.InFlightMax, grouped(r.Availability.NotSent))},
		{Question: "meanwhile", Answer: r.Machine.String()},
		{Question: "failed attempts", Answer: attempts(r)},
	}
	if r.Histories != "" {
		out = append(out, answer{Question: "histories", Answer: r.Histories})
	}
	return append(out, answer{Question: "schema", Answer: fmt.Sprint(r.Schema)})
}

func settingsText(r *chaos.Report) string {
	b, err := json.MarshalIndent(r.Config, "", "  ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// promise is a row of the table of promises.
type promise struct {
	Verdict, Mark, Name string
	Checked, Count      string
	Violations          []string
}

// violationsShown is how many violations of a promise are listed; the JSON has all.
const violationsShown = 8

func promises(r *chaos.Report) (out []promise) {
	for _, i := range r.Invariants {
		p := promise{Verdict: i.Verdict, Mark: signOf(i.Verdict), Name: i.Name, Checked: grouped(i.Checked), Violations: i.Violations}
		if i.Verdict != chaos.Unknown {
			p.Count = grouped(len(i.Violations))
		}
		if n := len(i.Violations); n > violationsShown {
			p.Violations = append(i.Violations[:violationsShown:violationsShown], fmt.Sprintf("and %s more", grouped(n-violationsShown)))
		}
		out = append(out, p)
	}
	return out
}

// Style returns the style sheet of pages: colours for light and dark, and the parts that all
// pages have.
func Style() string { return pageCSS }
