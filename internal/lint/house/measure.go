package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// measure is one figure of the house: a value for each subject, none of which may be
// above limit without an exception.
type measure struct {
	name  string // of the exceptions' lines
	title string // for the table
	items []item
	limit int
	// goal is the bound in words, for the table.
	goal string
	// total is today's figure over the whole module, in words.
	total string
	// met is set if the bound of the whole module holds although subjects are above
	// limit: a rate over all words.
	met bool
}

// item is a subject's value: a package's files, a type's methods.
type item struct {
	subject string
	value   int
	// limit replaces the measure's limit if it is not 0.
	limit int
	// where lists places to look at.
	where []string
}

// overBound returns the items above their limit, highest first.
func (m *measure) overBound() []item {
	var over []item
	for _, it := range m.items {
		if it.value > m.limitOf(it) {
			over = append(over, it)
		}
	}
	slices.SortFunc(over, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.subject, b.subject))
	})
	return over
}

func (m *measure) limitOf(it item) int {
	if it.limit != 0 {
		return it.limit
	}
	return m.limit
}

// printTable prints a row for each measure in at most 80 columns, and each subject above
// its limit if list is set.
func printTable(out io.Writer, measures []*measure, list bool) {
	fmt.Fprintf(out, "%-36s %-15s %-15s %s\n", "measure", "today", "bound", "exceptions")
	for _, m := range measures {
		over := m.overBound()
		state := fmt.Sprint(len(over))
		if len(over) == 0 || m.met {
			state = "met"
		}
		fmt.Fprintf(out, "%-36s %-15s %-15s %s\n", m.title, m.total, m.goal, state)
		if !list {
			continue
		}
		for _, it := range over {
			fmt.Fprintf(out, "    %5d  %s\n", it.value, it.subject)
			for _, w := range it.where {
				fmt.Fprintf(out, "           %s\n", w)
			}
		}
	}
}
