package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/peerage-go/peerage/internal/harness"
)

// Row is one line of the table.
type Row struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Value is the median of the runs; Raw the raw limit's, if there is one.
	Value float64   `json:"value"`
	Runs  []float64 `json:"runs,omitempty"`
	Raw   float64   `json:"raw,omitempty"`
	// Ratio is Value by Raw.
	Ratio  float64 `json:"ratio,omitempty"`
	Target string  `json:"target"`
	Met    bool    `json:"met"`
	Note   string  `json:"note,omitempty"`
}

// Report is the JSON of a run.
type Report struct {
	Schema int                 `json:"schema"`
	Env    harness.Environment `json:"environment"`
	TookMS float64             `json:"took_ms"`
	Quick  bool                `json:"quick"`
	Rows   []Row               `json:"rows"`
}

// figure prints a number with three digits or so.
func figure(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// printTable prints all rows, for people.
func printTable(out io.Writer, env harness.Environment, rows []Row) {
	fmt.Fprintf(out, "\n%s, %s, %d CPUs, load average %s\n\n", env.Go, env.OS, env.CPUs, env.Load)
	fmt.Fprintln(out, "| measure | measured | raw limit | ratio | target | |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	for _, r := range rows {
		raw, ratio := "", ""
		if r.Raw != 0 {
			raw, ratio = figure(r.Raw)+" "+r.Unit, fmt.Sprintf("%.2f", r.Ratio)
		}
		note := harness.Within(r.Met)
		if r.Note != "" {
			note += "; " + r.Note
		}
		fmt.Fprintf(out, "| %s | %s %s | %s | %s | %s | %s |\n", r.Name, figure(r.Value), r.Unit, raw, ratio, r.Target, note)
	}
}

// Save writes the report in JSON; an empty name writes none.
func (r *Report) Save(file string) error {
	if file == "" {
		return nil
	}
	body, err := json.MarshalIndent(r, "", " ")
	return errors.Join(err, os.WriteFile(file, append(body, '\n'), 0o666))
}
