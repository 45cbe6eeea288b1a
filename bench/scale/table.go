package main

import (
	"fmt"
	"io"
	"math"
)

// column is a figure of the table.
type column struct {
	head  string
	width int
	value func(Row) float64
	show  func(float64) string
}

var (
	viewColumns = []column{
		{"time", 9, func(r Row) float64 { return r.Took }, showSeconds},
		{"sent", 10, func(r Row) float64 { return float64(r.Sum) }, showBytes},
		{"a node", 10, func(r Row) float64 { return float64(r.Sum) / float64(r.Nodes) }, showBytes},
		{"most", 10, func(r Row) float64 { return float64(r.Most) }, showBytes},
		{"leader", 10, func(r Row) float64 { return float64(r.Leader) }, showBytes},
	}
	typeColumns = []column{
		viewColumns[0],
		{"a node", 8, viewColumns[2].value, showBytes},
		{"coordin.", 9, viewColumns[4].value, showBytes},
		{"its core", 8, func(r Row) float64 { return r.Coordinators }, showSeconds},
		{"regions", 8, func(r Row) float64 { return r.Regions }, showSeconds},
		{"wall", 8, func(r Row) float64 { return r.Wall }, showSeconds},
	}
)

// printTable prints rows, grouped by scene, with the growth of each figure with the nodes, or the
// shards. Lines have at most 80 columns.
func printTable(out io.Writer, rows []Row, o options) {
	columns, size, grows := viewColumns, func(r Row) int { return r.Nodes }, "nodes"
	if o.types > 0 {
		columns = typeColumns
	}
	if o.grow {
		size, grows = func(r Row) int { return r.Shards }, "shards"
	}
	fmt.Fprintf(out, "%-17s %6s", "scene", grows)
	for _, c := range columns {
		fmt.Fprintf(out, " %*s", c.width, c.head)
	}
	fmt.Fprintln(out)
	for _, s := range scenesOf(o.types) {
		var x []float64
		var played []Row
		for _, r := range rows {
			if r.Scene != s.name {
				continue
			}
			printRow(out, r, size(r), columns)
			if r.Missing == "" {
				x, played = append(x, float64(size(r))), append(played, r)
			}
		}
		printGrowth(out, x, played, columns)
	}
}

func printRow(out io.Writer, r Row, size int, columns []column) {
	fmt.Fprintf(out, "%-17s %6d", r.Scene, size)
	if r.Missing != "" {
		fmt.Fprintf(out, " not played: %.40s\n", r.Missing)
		return
	}
	for _, c := range columns {
		fmt.Fprintf(out, " %*s", c.width, c.show(c.value(r)))
	}
	fmt.Fprintln(out)
}

// printGrowth prints the exponents of a scene, if it has three sizes.
func printGrowth(out io.Writer, x []float64, rows []Row, columns []column) {
	if len(rows) < 3 {
		return
	}
	fmt.Fprintf(out, "%-17s %6s", "", "growth")
	for _, c := range columns {
		var y []float64
		for _, r := range rows {
			y = append(y, c.value(r))
		}
		fmt.Fprintf(out, " %*s", c.width, showPower(growth(x, y)))
	}
	fmt.Fprintln(out)
}

func showPower(exponent float64) string {
	if math.IsNaN(exponent) {
		return "-"
	}
	return fmt.Sprintf("n^%.2f", exponent)
}

func showSeconds(s float64) string { return fmt.Sprintf("%.2f s", s) }

func showBytes(bytes float64) string {
	switch n := uint64(bytes); {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	default:
		return fmt.Sprintf("%d B", n)
	}
}
