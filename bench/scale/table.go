package main

import (
	"fmt"
	"io"
	"math"
)

// printTable prints rows, grouped by scene, with the growth of each figure. Lines have at most 80
// columns.
func printTable(out io.Writer, rows []Row) {
	fmt.Fprintf(out, "%-17s %6s %9s %10s %10s %10s %10s\n", "scene", "nodes", "time", "sent", "a node", "most", "leader")
	for _, s := range scenes {
		for _, r := range rows {
			if r.Scene == s.name {
				printRow(out, r)
			}
		}
		printGrowth(out, rows, s.name)
	}
}

func printRow(out io.Writer, r Row) {
	if r.Missing != "" {
		fmt.Fprintf(out, "%-17s %6d not played: %.40s\n", r.Scene, r.Nodes, r.Missing)
		return
	}
	fmt.Fprintf(out, "%-17s %6d %7.2f s %10s %10s %10s %10s\n", r.Scene, r.Nodes, r.Took,
		showBytes(r.Sum), showBytes(r.Sum/uint64(r.Nodes)), showBytes(r.Most), showBytes(r.Leader))
}

// printGrowth prints the exponents of a scene, if it has three sizes.
func printGrowth(out io.Writer, rows []Row, scene string) {
	var n []float64
	var took, sum, each, most, leader []float64
	for _, r := range rows {
		if r.Scene != scene || r.Missing != "" {
			continue
		}
		n, took, sum = append(n, float64(r.Nodes)), append(took, r.Took), append(sum, float64(r.Sum))
		each = append(each, float64(r.Sum)/float64(r.Nodes))
		most, leader = append(most, float64(r.Most)), append(leader, float64(r.Leader))
	}
	if math.IsNaN(growth(n, sum)) {
		return
	}
	fmt.Fprintf(out, "%-17s %6s %9s %10s %10s %10s %10s\n", "", "growth", showPower(growth(n, took)),
		showPower(growth(n, sum)), showPower(growth(n, each)), showPower(growth(n, most)), showPower(growth(n, leader)))
}

func showPower(exponent float64) string {
	if math.IsNaN(exponent) {
		return "-"
	}
	return fmt.Sprintf("n^%.2f", exponent)
}

func showBytes(n uint64) string {
	switch {
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
