package lint

import (
	"bytes"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// neverCalled lists the calls that a library in someone's process never makes.
var neverCalled = map[string]string{
	"os.Exit":                 "a guest does not end its host",
	"log.Fatal":               "a guest does not end its host",
	"log.Fatalf":              "a guest does not end its host",
	"signal.Notify":           "signals belong to the host",
	"signal.NotifyContext":    "signals belong to the host",
	"slog.Default":            "the logger comes in",
	"slog.SetDefault":         "the logger comes in",
	"http.ListenAndServe":     "http.Handler goes out",
	"prometheus.MustRegister": "the registerer comes in",
	"http.Handle":             "http.Handler goes out",
	"http.HandleFunc":         "http.Handler goes out",
}

// TestLibrariesAreGuests checks the library packages for globals' side effects
// and for calls that belong to the host.
func TestLibrariesAreGuests(t *testing.T) {
	for _, f := range tree(t) {
		if !f.library() {
			continue
		}
		for _, decl := range f.ast.Decls {
			guestDecl(t, f, decl)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if why := neverCalled[name(call.Fun)]; why != "" {
				t.Errorf("%s:%d: %s: %s", f.path, f.line(call), name(call.Fun), why)
			}
			return true
		})
	}
}

func guestDecl(t *testing.T, f *file, decl ast.Decl) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name == "init" {
			t.Errorf("%s:%d: init has side effects on the host", f.path, f.line(d))
		}
	case *ast.GenDecl:
		if d.Tok != token.VAR {
			return
		}
		for _, spec := range d.Specs {
			for _, id := range spec.(*ast.ValueSpec).Names {
				if id.IsExported() && !strings.HasPrefix(id.Name, "Err") {
					t.Errorf("%s:%d: exported variable %s: anyone may change it", f.path, f.line(id), id.Name)
				}
			}
		}
	}
}

// name returns pkg.Func of a call's function, "" for anything else.
func name(e ast.Expr) string {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	pkg, ok := sel.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return pkg.Name + "." + sel.Sel.Name
}

// TestTestsDoNotSleep forbids time.Sleep in tests: a sleeping test is slow on a
// quick machine and red on a busy one.
func TestTestsDoNotSleep(t *testing.T) {
	for _, f := range tree(t) {
		if !f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && name(call.Fun) == "time.Sleep" {
				t.Errorf("%s:%d: a test sleeps", f.path, f.line(call))
			}
			return true
		})
	}
}

// TestSourcesHaveNoPlantedBugs keeps planted bugs out of shipped code, the simulator
// included: they are patches under testdata, and only tests and patched copies switch them on.
func TestSourcesHaveNoPlantedBugs(t *testing.T) {
	word := regexp.MustCompile(`(?i)mutant|blunder|planted`)
	tag := regexp.MustCompile(`(?m)^//go:build planted$`)
	for _, f := range tree(t) {
		if f.pkg == "internal/planted" || in(f.pkg, "internal/lint") || in(f.pkg, "internal/mutate") {
			continue
		}
		if at := word.FindIndex(f.src); !f.test && at != nil {
			t.Errorf("%s:%d: a source speaks of planted bugs", f.path, 1+bytes.Count(f.src[:at[0]], []byte("\n")))
		}
		for _, spec := range f.ast.Imports {
			if spec.Path.Value == `"`+module+`/internal/planted"` && !(f.test && tag.Match(f.src)) {
				t.Errorf("%s:%d: only tests with the tag planted import internal/planted", f.path, f.line(spec))
			}
			if spec.Path.Value == `"`+module+`/internal/mutate/switches"` && f.pkg != "internal/mutate" {
				t.Errorf("%s:%d: only rewritten copies import the switches of mutants", f.path, f.line(spec))
			}
		}
	}
}
