package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// floorsPage has the table of floors: the name of a floor, then the paths of its packages.
const floorsPage = "docs/architecture/house.md"

// floor is a row of the table of floors, with what its packages hold. Tests do not count.
type floor struct {
	name                               string
	paths                              []string
	packages, files, lines, funcs, top int
	// largest is the type with the most methods, top in number.
	largest string
}

// printSizes prints a row for each floor, and one for packages that stand on none.
func printSizes(out io.Writer, m *module) error {
	floors, err := readFloors(m)
	if err != nil {
		return err
	}
	floors = append(floors, &floor{name: "elsewhere"})
	for _, p := range m.packages {
		if err := floorOf(floors, p.dir).addPackage(m, p); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "%-12s %8s %6s %7s %6s  %s\n", "floor", "packages", "files", "lines", "funcs", "most methods")
	for _, f := range floors {
		fmt.Fprintf(out, "%-12s %8d %6d %7d %6d  %d %s\n", f.name, f.packages, f.files, f.lines, f.funcs, f.top, f.largest)
	}
	return nil
}

var quoted = regexp.MustCompile("`([^`]+)`")

// readFloors reads the table of floors: its rows have three cells, and paths in the second.
func readFloors(m *module) ([]*floor, error) {
	at := slices.IndexFunc(m.pages, func(p page) bool { return p.path == floorsPage })
	if at < 0 {
		return nil, fmt.Errorf("%s is missing", floorsPage)
	}
	_, table, ok := strings.Cut(m.pages[at].text, "| floor | where |")
	var out []*floor
	for _, row := range strings.Split(table, "\n")[1:] {
		cells := strings.Split(row, "|")
		if len(cells) < 4 {
			break
		}
		f := &floor{name: strings.TrimSpace(cells[1])}
		for _, q := range quoted.FindAllStringSubmatch(cells[2], -1) {
			if path, isDir := strings.CutSuffix(q[1], "/"); isDir {
				f.paths = append(f.paths, path)
			} else if !strings.Contains(q[1], "/") {
				f.paths = append(f.paths, ".")
			}
		}
		if len(f.paths) > 0 {
			out = append(out, f)
		}
	}
	if !ok || len(out) < 2 {
		return nil, fmt.Errorf("%s has no table of floors", floorsPage)
	}
	return out, nil
}

// floorOf returns the floor with the longest path that contains a package, the last if none.
func floorOf(floors []*floor, dir string) *floor {
	best, longest := floors[len(floors)-1], 0
	for _, f := range floors {
		for _, path := range f.paths {
			if (dir == path || strings.HasPrefix(dir, path+"/")) && len(path) > longest {
				best, longest = f, len(path)
			}
		}
	}
	return best
}

// addPackage counts a package: its lines are those that are not blank, comments included.
func (f *floor) addPackage(m *module, p *pack) error {
	f.packages++
	for _, s := range p.files {
		text, err := os.ReadFile(filepath.Join(m.root, s.path))
		if err != nil {
			return err
		}
		f.files++
		for line := range bytes.Lines(text) {
			if len(bytes.TrimSpace(line)) > 0 {
				f.lines++
			}
		}
		for _, d := range s.ast.Decls {
			if _, is := d.(*ast.FuncDecl); is {
				f.funcs++
			}
		}
	}
	for _, it := range methodCounts(p) {
		if it.value > f.top {
			f.top, f.largest = it.value, it.subject
		}
	}
	return nil
}
