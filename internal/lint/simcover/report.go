package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
)

// figures count the statements of a package. Of those that are not reached, explained have a
// reason, and open have none.
type figures struct{ all, reached, explained, open int }

// report compares what was reached with the reasons.
type report struct {
	known *reasons
	dirs  map[string]*figures
	// open are the blocks that were not reached and have no reason.
	open []*block
}

func newReport(blocks []*block, known *reasons) *report {
	r := &report{known: known, dirs: map[string]*figures{}}
	for _, b := range blocks {
		if !known.plays(b.dir()) {
			continue
		}
		f := r.dirs[b.dir()]
		if f == nil {
			f = &figures{}
			r.dirs[b.dir()] = f
		}
		f.all += b.statements
		e := known.find(b)
		switch {
		case b.reached:
			f.reached += b.statements
		case e != nil:
			f.explained += b.statements
			e.statements += b.statements
		default:
			f.open += b.statements
			r.open = append(r.open, b)
		}
	}
	return r
}

// print prints the figures of each package, with list also each statement that has no reason.
func (r *report) print(out io.Writer, list bool) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "core\tstatements\treached\tnot, with a reason\twithout\tbound\treached of those without a reason")
	for _, dir := range slices.Sorted(maps.Keys(r.dirs)) {
		f := r.dirs[dir]
		fmt.Fprintf(w, "%s\t%d\t%d (%.1f %%)\t%d\t%d\t%d\t%.1f %%\n", dir, f.all, f.reached, percentOf(f.reached, f.all), f.explained, f.open, r.known.bounds[dir], percentOf(f.reached, f.all-f.explained))
	}
	w.Flush()
	fmt.Fprintln(out, "\nnot reached, with a reason:")
	for _, e := range r.known.mergeReasons() {
		fmt.Fprintf(out, "  %3d statements: %s\n", e.statements, e.reason)
	}
	fmt.Fprintln(out, "\nnot in the simulator:")
	for _, e := range r.known.unplayed {
		fmt.Fprintf(out, "  %s: %s\n", e.pattern, e.reason)
	}
	for _, b := range r.open {
		if list || r.dirs[b.dir()].open > r.known.bounds[b.dir()] {
			fmt.Fprintf(out, "not reached: %s (line %d, %d statements)\n", b.key, b.line, b.statements)
		}
	}
}

func percentOf(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }

// checkBounds returns an error if more statements of a package lack a reason than its bound allows, or
// if a reason is about no statement of the sources.
func (r *report) checkBounds() error {
	for _, e := range r.known.entries {
		if !e.matches {
			return fmt.Errorf("unreached.txt has a reason for %q, which matches no statement", e.pattern)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(r.dirs)) {
		if open, bound := r.dirs[dir].open, r.known.bounds[dir]; open > bound {
			return fmt.Errorf("%d statements of %s are not reached and have no reason, at most %d may: widen the simulator, or add a reason to internal/lint/simcover/unreached.txt", open, dir, bound)
		}
	}
	return nil
}
