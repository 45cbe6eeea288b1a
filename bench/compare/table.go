package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// row is a line of the table.
type row struct {
	name string
	of   func(values map[string]figure) (float64, bool)
	show func(v float64) string
}

func number(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func millis(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.1f s", v/1000)
	}
	return fmt.Sprintf("%.0f ms", v)
}

func of(name string, value func(f figure) float64) func(map[string]figure) (float64, bool) {
	return func(values map[string]figure) (float64, bool) {
		f, ok := values[name]
		if !ok {
			return 0, false
		}
		return value(f), true
	}
}

func perSecond(f figure) float64 { return float64(f.Count) / f.Seconds }

// cpuMicros is the processor time of a message, of both processes.
func cpuMicros(f figure) float64 { return f.CPU * 1e6 / float64(f.Count) }

// waitOf returns a quantile of the waits of the entities whose process was killed.
func waitOf(q float64) func(figure) float64 {
	return func(f figure) float64 {
		var ms []float64
		for _, w := range f.Waits {
			ms = append(ms, w.Millis)
		}
		slices.Sort(ms)
		return ms[min(int(q*float64(len(ms))), len(ms)-1)]
	}
}

func rows() (rs []row) {
	for _, callers := range asked {
		name := fmt.Sprint("ask ", callers)
		noun := "callers"
		if callers == 1 {
			noun = "caller"
		}
		rs = append(rs,
			row{fmt.Sprintf("asks, %d %s, a second", callers, noun), of(name, perSecond), number},
			row{"its p50, us", of(name, func(f figure) float64 { return f.P50 }), number},
			row{"its p99, us", of(name, func(f figure) float64 { return f.P99 }), number},
			row{"its processor time, us", of(name, cpuMicros), number},
			row{"failed", of(name, func(f figure) float64 { return float64(f.Failed) }), number})
	}
	return append(rs,
		row{fmt.Sprintf("tells, %d senders, a second", tellSenders), of("tell", perSecond), number},
		row{"its processor time, us", of("tell", cpuMicros), number},
		row{"lost", of("tell", func(f figure) float64 { return float64(f.Failed) }), number},
		row{"SIGKILL of one of three: longest wait, median", of("kill", waitOf(0.5)), millis},
		row{"the longest", of("kill", waitOf(1)), millis})
}

// printTable prints the median of each figure over the runs, with the least and the most.
func printTable(w io.Writer, o *options, all []measured) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| median of %d (least to most) | %s |\n|---|%s\n", o.runs, strings.Join(o.systems, " | "), strings.Repeat("---|", len(o.systems)))
	for _, r := range rows() {
		fmt.Fprintf(&b, "| %s |", r.name)
		for _, s := range o.systems {
			fmt.Fprintf(&b, " %s |", cell(r, s, all))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(r row, system string, all []measured) string {
	var vs []float64
	for i := range all {
		if v, ok := r.of(all[i].Values); ok && all[i].System == system {
			vs = append(vs, v)
		}
	}
	if len(vs) == 0 {
		return ""
	}
	slices.Sort(vs)
	median := r.show((vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2)
	if least, most := r.show(vs[0]), r.show(vs[len(vs)-1]); least != most {
		return fmt.Sprintf("%s (%s to %s)", median, least, most)
	}
	return median
}
