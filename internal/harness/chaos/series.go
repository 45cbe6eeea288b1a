package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Series has the promises and the figures of several runs, over the number of their processes or
// of several services.
type Series struct {
	Runs     []SeriesRun     `json:"runs"`
	Promises []SeriesPromise `json:"promises"`
	Figures  []SeriesFigure  `json:"figures"`
}

// SeriesRun is one run of a series.
type SeriesRun struct {
	// Service is the name of the user's service, "" for nodes of Peerage.
	Service string  `json:"service,omitempty"`
	Nodes   int     `json:"nodes"`
	Preset  string  `json:"preset,omitempty"`
	Faults  string  `json:"faults"`
	Seed    uint64  `json:"seed"`
	Verdict string  `json:"verdict"`
	Load    float64 `json:"load_per_s"`
}

// Label returns the service, the number of processes and the preset of a run.
func (r *SeriesRun) Label() string {
	parts := []string{countOf(r.Nodes, "node")}
	if r.Service != "" {
		parts = []string{r.Service, countOf(r.Nodes, "process")}
	}
	if r.Preset != "" {
		parts = append(parts, r.Preset)
	}
	return strings.Join(parts, ", ")
}

// SeriesPromise is one promise of all runs, in their order. nil: a run did not check it.
type SeriesPromise struct {
	Name     string           `json:"name"`
	Verdicts []*SeriesVerdict `json:"verdicts"`
}

// SeriesVerdict is what a run found of a promise.
type SeriesVerdict struct {
	Verdict    string `json:"verdict"`
	Checked    int    `json:"checked"`
	Violations int    `json:"violations"`
}

// IsKept reports whether all runs that checked the promise kept it.
func (p *SeriesPromise) IsKept() bool {
	return !slices.ContainsFunc(p.Verdicts, func(v *SeriesVerdict) bool { return v != nil && v.Verdict != Passed })
}

// String returns the verdict, and of a broken promise how often.
func (v *SeriesVerdict) String() string {
	switch {
	case v == nil:
		return "-"
	case v.Verdict == Failed:
		return fmt.Sprintf("%s, %s", v.Verdict, countOf(v.Violations, "time"))
	}
	return v.Verdict
}

// SeriesFigure is one figure of all runs, in their order. nil: a run does not have it.
type SeriesFigure struct {
	Name string `json:"name"`
	// Unit is one of those of Compared.
	Unit   string     `json:"unit"`
	Values []*float64 `json:"values"`
}

// NewSeries returns the figures of runs, sorted by the number of processes, then by preset.
func NewSeries(reports []*Report) *Series {
	reports = slices.Clone(reports)
	slices.SortStableFunc(reports, func(a, b *Report) int {
		return cmp.Or(cmp.Compare(a.Config.Nodes, b.Config.Nodes), cmp.Compare(a.Config.Preset, b.Config.Preset))
	})
	s := &Series{}
	for i, r := range reports {
		s.Runs = append(s.Runs, SeriesRun{serviceName(&r.Config), r.Config.Nodes, r.Config.Preset, r.Config.Kinds, r.Seed, r.Verdict, r.Load.Target})
		s.addPromises(i, len(reports), r)
		for _, f := range r.figures() {
			at := slices.IndexFunc(s.Figures, func(g SeriesFigure) bool { return g.Name == f.name })
			if at < 0 {
				at = len(s.Figures)
				s.Figures = append(s.Figures, SeriesFigure{f.name, f.unit, make([]*float64, len(reports))})
			}
			s.Figures[at].Values[i] = &f.value
		}
	}
	return s
}

// addPromises adds the promises of run i of n.
func (s *Series) addPromises(i, n int, r *Report) {
	for _, inv := range r.Invariants {
		at := slices.IndexFunc(s.Promises, func(p SeriesPromise) bool { return p.Name == inv.Name })
		if at < 0 {
			at = len(s.Promises)
			s.Promises = append(s.Promises, SeriesPromise{inv.Name, make([]*SeriesVerdict, n)})
		}
		v := &SeriesVerdict{Verdict: inv.Verdict, Checked: inv.Checked}
		if inv.Verdict == Failed {
			v.Violations = len(inv.Violations)
		}
		s.Promises[at].Verdicts[i] = v
	}
}

func serviceName(c *Config) string {
	if c.Service == nil {
		return ""
	}
	return c.Service.Name
}

// Verdict returns the worst verdict of the runs.
func (s *Series) Verdict() string {
	worst := Passed
	for _, r := range s.Runs {
		if r.Verdict == Failed || r.Verdict == Unknown && worst == Passed {
			worst = r.Verdict
		}
	}
	return worst
}
