package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/machine"
)

// Row is what a run shows of one figure of one node.
type Row struct {
	Node   string  `json:"node"`
	Figure string  `json:"figure"`
	Unit   string  `json:"unit,omitempty"`
	Mean   float64 `json:"mean"`
	// SlopePerHour is the slope of the line, SlopeError its standard error; Growth is by how
	// much the line rises over the samples, Allowance by how much it may.
	SlopePerHour float64 `json:"slope_per_hour"`
	SlopeError   float64 `json:"slope_error"`
	Growth       float64 `json:"growth"`
	// Unseen is the largest rise that the samples do not rule out.
	Unseen    float64 `json:"unseen"`
	Allowance float64 `json:"allowance"`
	Verdict   Verdict `json:"verdict"`
}

// Report is what a run shows.
type Report struct {
	At      time.Time           `json:"at"`
	Env     harness.Environment `json:"environment"`
	Seconds float64             `json:"seconds"`
	Seed    uint64              `json:"seed"`
	Nodes   int                 `json:"nodes"`
	// Faults counts the rounds by kind, Ended the processes that ended.
	Faults  map[string]uint64   `json:"faults"`
	Ended   int                 `json:"processes_ended"`
	Load    harness.Totals      `json:"load"`
	Machine machine.Summary     `json:"machine"`
	Rows    []Row               `json:"rows"`
	Samples map[string][]sample `json:"samples"`
	Verdict Verdict             `json:"verdict"`
}

// judgeNode adds the rows of one node, from its samples after the warm-up.
func (r *Report) judgeNode(node string, all []sample) {
	for i := range figures {
		hours, values := seriesOf(all, func(s *sample) float64 { return s.Values[i] })
		r.addRow(node, &figures[i], fitTrend(hours, values, lowest))
	}
	hours, rates := logRates(all)
	r.addRow(node, &logFigure, fitTrend(hours, rates, meanOf))
}

// addRow adds the row of a figure. The worst row is the verdict of the run: FAIL, then UNKNOWN.
func (r *Report) addRow(node string, f *figure, l trend) {
	row := Row{
		Node: node, Figure: f.name, Unit: f.unit, Mean: l.mean, SlopePerHour: l.slope, SlopeError: l.err,
		Growth: l.growth(), Unseen: l.unseen(), Allowance: f.allowance(l.startLevel(), time.Duration(r.Seconds)*time.Second),
	}
	row.Verdict = l.verdictWithin(row.Allowance)
	r.Rows = append(r.Rows, row)
	if r.Verdict == "" || row.Verdict == Fail || row.Verdict == Unknown && r.Verdict == Pass {
		r.Verdict = row.Verdict
	}
}

// String formats the report as a table, with the verdict in the last line.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "figure\tnode\tmean\tslope/h\t± error\tgrowth\tallowed\tunit\tverdict\t")
	for i := range figures {
		r.writeRows(w, figures[i].name)
	}
	r.writeRows(w, logFigure.name)
	w.Flush()
	fmt.Fprintf(&b, "\n%.0f s, seed %d; faults: %s; %d processes ended\n", r.Seconds, r.Seed, harness.Reasons(r.Faults), r.Ended)
	fmt.Fprintf(&b, "load: %d asked, %d answered, %d given up; failed attempts: %s\n", r.Load.Asked, r.Load.Answered, r.Load.GaveUp, harness.Reasons(r.Load.Tries))
	fmt.Fprintf(&b, "%smachine: %s\n%s\n", r.formatLimit(), r.Machine, r.Verdict)
	return b.String()
}

// formatLimit says which leaks of heap the run could not have shown: the largest rise that may pass,
// for each request and for each process that ended while samples were taken.
func (r *Report) formatLimit() string {
	worst, hours := 0.0, 0.0
	for _, row := range r.Rows {
		if row.Figure == figures[0].name {
			worst = max(worst, row.Allowance, row.Unseen)
		}
	}
	for _, all := range r.Samples {
		if len(all) > 0 {
			hours = max(hours, all[len(all)-1].Hours-all[0].Hours)
		}
	}
	sampled := hours * time.Hour.Seconds() / max(r.Seconds, 1)
	asked, ended := float64(r.Load.Asked)*sampled/float64(max(r.Nodes, 1)), float64(r.Ended)*sampled
	if worst == 0 || asked < 1 || ended < 1 {
		return ""
	}
	return fmt.Sprintf("not shown: a leak of heap below %.0f B for each of %.0f requests of a node, or %.0f B for each of %.0f processes that ended\n",
		worst*kib/asked, asked, worst*kib/ended, ended)
}

// writeRows writes the rows of one figure.
func (r *Report) writeRows(w *tabwriter.Writer, name string) {
	for _, row := range r.Rows {
		if row.Figure == name {
			fmt.Fprintf(w, "%s\t%s\t%.1f\t%+.1f\t%.1f\t%+.1f\t%.1f\t%s\t%s\t\n", row.Figure, row.Node, row.Mean, row.SlopePerHour, row.SlopeError, row.Growth, row.Allowance, row.Unit, row.Verdict)
		}
	}
}

// save writes the report to a file.
func (r *Report) save(name string) error {
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(name, append(b, '\n'), 0o666)
}
