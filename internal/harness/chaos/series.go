package chaos

import (
	"cmp"
	"slices"
)

// Series has the figures of several runs over the number of their processes.
type Series struct {
	Runs    []SeriesRun    `json:"runs"`
	Figures []SeriesFigure `json:"figures"`
}

// SeriesRun is one run of a series.
type SeriesRun struct {
	Nodes   int     `json:"nodes"`
	Preset  string  `json:"preset,omitempty"`
	Faults  string  `json:"faults"`
	Seed    uint64  `json:"seed"`
	Verdict string  `json:"verdict"`
	Load    float64 `json:"load_per_s"`
}

// Label returns the number of processes and the preset of a run.
func (r *SeriesRun) Label() string {
	if r.Preset == "" {
		return countOf(r.Nodes, "node")
	}
	return countOf(r.Nodes, "node") + ", " + r.Preset
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
		s.Runs = append(s.Runs, SeriesRun{r.Config.Nodes, r.Config.Preset, r.Config.Kinds, r.Seed, r.Verdict, r.Load.Target})
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
