package chaos

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/harness"
)

// Comparison has the figures of two runs beside each other.
type Comparison struct {
	Figures []Compared `json:"figures"`
	// Differ lists the settings, and parts of the environment, in which the runs differ: a
	// ratio may be due to them.
	Differ []string `json:"differ"`
}

// Compared is one figure of two runs. What a run does not have is nil.
type Compared struct {
	Name string `json:"name"`
	// Unit is ms, percent, bytes, or per second.
	Unit string   `json:"unit"`
	Old  *float64 `json:"old"`
	New  *float64 `json:"new"`
	// Ratio is New over Old, nil unless both are known and Old is above 0.
	Ratio *float64 `json:"ratio"`
	// OldInterval and NewInterval are the confidence intervals, if the figures have any.
	OldInterval *harness.Interval `json:"old_interval,omitempty"`
	NewInterval *harness.Interval `json:"new_interval,omitempty"`
}

// The units of Compared.
const (
	UnitMS      = "ms"
	UnitPercent = "percent"
	UnitBytes   = "bytes"
	UnitRate    = "per second"
)

// Compare returns the figures of a run beside those of an earlier one.
func Compare(now, old *Report) *Comparison {
	c := &Comparison{Differ: differences(now, old)}
	was, is := old.figures(), now.figures()
	names := slices.Clone(is)
	for _, f := range was {
		if !slices.ContainsFunc(is, f.isSame) {
			names = append(names, f)
		}
	}
	for _, f := range names {
		out := Compared{Name: f.name, Unit: f.unit}
		if i := slices.IndexFunc(was, f.isSame); i >= 0 {
			out.Old, out.OldInterval = &was[i].value, was[i].interval
		}
		if i := slices.IndexFunc(is, f.isSame); i >= 0 {
			out.New, out.NewInterval = &is[i].value, is[i].interval
		}
		if out.Old != nil && out.New != nil && *out.Old > 0 {
			ratio := *out.New / *out.Old
			out.Ratio = &ratio
		}
		c.Figures = append(c.Figures, out)
	}
	return c
}

// reportFigure is one figure of a report.
type reportFigure struct {
	name, unit string
	value      float64
	interval   *harness.Interval
}

// isSame reports whether two figures are of the same kind.
func (f reportFigure) isSame(g reportFigure) bool { return f.name == g.name }

// figures returns the figures of a report by which runs are compared.
func (r *Report) figures() (out []reportFigure) {
	add := func(name, unit string, value float64, interval *harness.Interval) {
		out = append(out, reportFigure{name, unit, value, interval})
	}
	add("load, answered before the first fault", UnitRate, r.Load.Before, nil)
	if a := r.Availability; a.Due > 0 {
		add("answered within "+harness.FormatDuration(promptMax), UnitPercent, percent(a.Prompt, a.Due), nil)
		add("answered ever", UnitPercent, percent(a.Answered, a.Due), nil)
	}
	for _, l := range []struct {
		when string
		of   Latency
	}{{"before faults", r.Before}, {"during faults", r.During}, {"after faults", r.After}} {
		if l.of.N == 0 {
			continue
		}
		add("latency "+l.when+", p50", UnitMS, l.of.P50, nil)
		add("latency "+l.when+", p99", UnitMS, l.of.P99, nil)
		add("latency "+l.when+", max", UnitMS, l.of.Max, nil)
	}
	for _, f := range r.Failovers {
		if f.Total.N == 0 {
			continue
		}
		name := "first answer after " + f.Kind
		add(name+", p50", UnitMS, f.Total.P50, f.P50Interval)
		add(name+", p99", UnitMS, f.Total.P99, f.P99Interval)
		add(name+", max", UnitMS, f.Total.Max, nil)
	}
	for _, k := range r.Recovery {
		add("without answer, "+k.Kind+", p50", UnitMS, k.P50, nil)
		add("without answer, "+k.Kind+", p99", UnitMS, k.P99, nil)
	}
	if h := r.Healed; h.Places > 0 {
		add("memory of a node, at the end", UnitBytes, float64(h.MemoryAfter)/float64(h.Places), nil)
	}
	return append(out, r.costFigures()...)
}

// costFigures returns the mean cost of a place in times without a fault.
func (r *Report) costFigures() []reportFigure {
	var sum Cost
	places := 0.0
	for _, c := range r.Costs {
		if !c.During {
			places++
			sum.CPUPercent += c.CPUPercent
			sum.SentPerS += c.SentPerS
			sum.MemoryMaxBytes = max(sum.MemoryMaxBytes, c.MemoryMaxBytes)
		}
	}
	if places == 0 {
		return nil
	}
	return []reportFigure{
		{"processor of a node", UnitPercent, sum.CPUPercent / places, nil},
		{"memory of a node, at most", UnitBytes, float64(sum.MemoryMaxBytes), nil},
		{"sent by a node, per second", UnitBytes, sum.SentPerS / places, nil},
	}
}

// differences lists the settings and the parts of the environment that are not equal.
func differences(now, old *Report) (out []string) {
	type both struct{ now, old any }
	for _, b := range []both{{now.Config, old.Config}, {now.Env, old.Env}} {
		is, was := fieldsOf(b.now), fieldsOf(b.old)
		all := maps.Clone(is)
		maps.Copy(all, was)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if name != "load_average" && is[name] != was[name] {
				out = append(out, fmt.Sprintf("%s: %s, was %s", name, cmp.Or(is[name], "none"), cmp.Or(was[name], "none")))
			}
		}
	}
	return out
}

// fieldsOf returns the fields of a struct in JSON, by their names.
func fieldsOf(v any) map[string]string {
	raw := map[string]json.RawMessage{}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, &raw)
	}
	if err != nil { // structs of settings are JSON objects
		return nil
	}
	out := map[string]string{}
	for name, value := range raw {
		out[name] = string(value)
	}
	return out
}
