package lint

import (
	"bytes"
	"go/ast"
	"regexp"
	"sort"
	"testing"
)

const (
	fileLinesMax     = 600
	funcLinesMax     = 70
	funcLinesMedian  = 12
	exceptionsAtMost = 0
)

// longFuncs are the functions that may be longer than the rest. The list may
// only shrink: lower exceptionsAtMost with it.
var longFuncs = map[string]string{}

// TestFilesAndFunctionsStaySmall counts lines. Tests may have long tables, so
// only their files are counted.
func TestFilesAndFunctionsStaySmall(t *testing.T) {
	if len(longFuncs) > exceptionsAtMost {
		t.Errorf("%d exceptions stand in longFuncs, at most %d may", len(longFuncs), exceptionsAtMost)
	}
	var lengths []int
	for _, f := range tree(t) {
		if n := bytes.Count(f.src, []byte("\n")); n > fileLinesMax {
			t.Errorf("%s has %d lines, at most %d", f.path, n, fileLinesMax)
		}
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := f.fset.Position(fn.End()).Line - f.line(fn) + 1
			lengths = append(lengths, n)
			if n > funcLinesMax && longFuncs[f.path+":"+fn.Name.Name] == "" {
				t.Errorf("%s:%d: %s has %d lines, at most %d", f.path, f.line(fn), fn.Name.Name, n, funcLinesMax)
			}
		}
	}
	sort.Ints(lengths)
	if m := lengths[len(lengths)/2]; m > funcLinesMedian {
		t.Errorf("the median function has %d lines, at most %d", m, funcLinesMedian)
	}
}

var unfinished = regexp.MustCompile(`(?i)\b(TO` + `DO|FIX` + `ME|X` + `XX|HA` + `CK)\b`)

// TestNothingIsLeftUnfinished looks for notes to self in comments.
func TestNothingIsLeftUnfinished(t *testing.T) {
	for _, f := range tree(t) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if unfinished.MatchString(c.Text) {
					t.Errorf("%s:%d: unfinished by its own word: %s", f.path, f.line(c), c.Text)
				}
			}
		}
	}
}
