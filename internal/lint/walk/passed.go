package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/peerage-go/peerage/"

// block is one counter of a coverage profile: a file of this module, the line at which the
// block begins, and how often it ran.
type block struct {
	file  string
	line  int
	count int
}

// parseBlocks reads a coverage profile in its text form. It leaves out other modules.
func parseBlocks(profile string) ([]block, error) {
	var out []block
	for i, line := range strings.Split(strings.TrimSpace(profile), "\n") {
		if i == 0 && strings.HasPrefix(line, "mode:") {
			continue
		}
		file, rest, ok := strings.Cut(line, ":")
		var b block
		var column, endLine, endColumn, statements int
		if ok {
			_, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &column, &endLine, &endColumn, &statements, &b.count)
			ok = err == nil
		}
		if !ok {
			return nil, fmt.Errorf("line %d of the profile is %q", i+1, line)
		}
		if b.file, ok = strings.CutPrefix(file, module); ok {
			out = append(out, b)
		}
	}
	return out, nil
}

// function is a function that an operation passes through.
type function struct {
	file, name string
	// calls is how often it ran for one operation.
	calls float64
}

type passed struct{ functions []function }

// findPassed returns the functions whose first block ran at least 0.8 n times. The
// operations themselves do not count.
func findPassed(root string, blocks []block, n int) (*passed, error) {
	first := map[function]block{} // by file and name
	starts := map[string][]start{}
	for _, b := range blocks {
		if strings.HasPrefix(b.file, "internal/lint/") {
			continue
		}
		if _, read := starts[b.file]; !read {
			found, err := readFunctions(filepath.Join(root, b.file))
			if err != nil {
				return nil, err
			}
			starts[b.file] = found
		}
		f := function{file: b.file, name: nameAt(starts[b.file], b.line)}
		if was, ok := first[f]; !ok || b.line < was.line {
			first[f] = b
		}
	}
	w := &passed{}
	for f, b := range first {
		if f.calls = float64(b.count) / float64(n); f.calls >= 0.8 {
			w.functions = append(w.functions, f)
		}
	}
	slices.SortFunc(w.functions, func(a, b function) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.name, b.name))
	})
	return w, nil
}

// start is the line at which a function begins.
type start struct {
	line int
	name string
}

func readFunctions(file string) ([]start, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var out []start
	for _, d := range parsed.Decls {
		if f, is := d.(*ast.FuncDecl); is {
			out = append(out, start{set.Position(f.Pos()).Line, f.Name.Name})
		}
	}
	return out, nil
}

// nameAt returns the function that contains a line, with the line where it begins, since
// methods of one file may have one name.
func nameAt(starts []start, line int) string {
	name := "?"
	for _, s := range starts {
		if s.line <= line {
			name = fmt.Sprintf("%s:%d", s.name, s.line)
		}
	}
	return name
}

func (w *passed) files() int {
	return w.countDistinct(func(f function) string { return f.file })
}

func (w *passed) packages() int {
	return w.countDistinct(func(f function) string { return path.Dir(f.file) })
}

func (w *passed) countDistinct(of func(function) string) int {
	seen := map[string]bool{}
	for _, f := range w.functions {
		seen[of(f)] = true
	}
	return len(seen)
}

// calls returns how many functions run for one operation.
func (w *passed) calls() (sum float64) {
	for _, f := range w.functions {
		sum += f.calls
	}
	return sum
}

func (w *passed) printFunctions(out io.Writer) error {
	byFile := map[string][]string{}
	for _, f := range w.functions {
		name, _, _ := strings.Cut(f.name, ":")
		byFile[f.file] = append(byFile[f.file], fmt.Sprintf("%s %.0f", name, f.calls))
	}
	for _, file := range slices.Sorted(maps.Keys(byFile)) {
		if _, err := fmt.Fprintf(out, "%s: %s\n", file, strings.Join(byFile[file], ", ")); err != nil {
			return err
		}
	}
	return nil
}
