package lint

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/membership"
)

// TestWarningsAreExplained checks that docs/OPERATIONS.md has a row for each line that the
// library logs at level WARN.
func TestWarningsAreExplained(t *testing.T) {
	page := pages(t)["docs/OPERATIONS.md"]
	found := 0
	for _, f := range tree(t) {
		if !f.library() || in(f.pkg, "internal/harness") || in(f.pkg, "internal/sim") {
			continue
		}
		for _, msg := range warningsIn(f.ast) {
			found++
			if !strings.Contains(page, "`"+headOf(msg)+"`") {
				t.Errorf("%s: docs/OPERATIONS.md does not explain the warning %q", f.path, headOf(msg))
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d warnings found: the search is broken", found)
	}
}

// TestCausesOfRemovalsAreExplained checks that docs/OPERATIONS.md has a row for each cause and
// each proof with which the log reports a removed member, and no others.
func TestCausesOfRemovalsAreExplained(t *testing.T) {
	want := map[string]bool{}
	for c := gossip.Cause(0); !strings.HasPrefix(c.String(), "cause("); c++ {
		want[c.String()] = true
	}
	delete(want, gossip.CauseLeft.String()) // is logged as left, not as removed
	delete(want, gossip.CauseDead.String()) // is logged with its proof
	for k := membership.EvidenceGoodbye; k.String() != membership.EvidenceKind(255).String(); k++ {
		want[gossip.CauseDead.String()+": "+k.String()] = true
	}
	_, section, _ := strings.Cut(pages(t)["docs/OPERATIONS.md"], "\n## Why a member was removed\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(section, -1) {
		if !want[row[1]] {
			t.Errorf("docs/OPERATIONS.md explains the cause %q, which does not exist", row[1])
		}
		delete(want, row[1])
	}
	for cause := range want { // order-free: each is reported
		t.Errorf("docs/OPERATIONS.md does not explain the cause %q", cause)
	}
}

// warners are the functions that log a warning, with the place of the text in their arguments.
var warners = map[string]int{"Warn": 0, "WarnContext": 1, "warn": 0, "addWarning": 0, "warnChanged": 0, "refusal": 0}

// warningsIn returns the texts of warnings. Anomalies are the cases of countAnomaly that reach
// its end, and recordEvent takes its level as the last argument.
func warningsIn(n ast.Node) []string {
	var out []string
	add := func(e ast.Expr) {
		if text := literalOf(e); strings.Contains(text, " ") || text == "removed" {
			out = append(out, text)
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && fn.Name.Name == "countAnomaly" {
			ast.Inspect(fn, func(n ast.Node) bool {
				c, ok := n.(*ast.CaseClause)
				if !ok || len(c.Body) > 0 && isReturn(c.Body[len(c.Body)-1]) {
					return true
				}
				for _, e := range c.List {
					add(e)
				}
				return true
			})
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		name := calledName(call)
		if at, ok := warners[name]; ok && at < len(call.Args) {
			add(call.Args[at])
		}
		if name == "writeLine" && len(call.Args) > 1 && strings.HasSuffix(selected(call.Args[0]), "LevelWarn") {
			add(call.Args[1])
		}
		if name == "recordEvent" && len(call.Args) == 5 && selected(call.Args[4]) != "LevelDebug" {
			add(call.Args[0])
		}
		return true
	})
	return out
}

func isReturn(s ast.Stmt) bool { _, ok := s.(*ast.ReturnStmt); return ok }

// calledName returns the last part of the name of the called function.
func calledName(call *ast.CallExpr) string { return selected(call.Fun) }

// selected returns a name, or the last part of a selector.
func selected(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// literalOf returns a string literal, or the first one of a sum.
func literalOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			if err == nil {
				return s
			}
		}
	case *ast.BinaryExpr:
		return literalOf(e.X)
	}
	return ""
}

var (
	logPrefix = regexp.MustCompile(`^(?:sharding|replicator|dashboard): `)
	logTail   = regexp.MustCompile(`[:;.] .*$`)
)

// headOf returns the words with which a line begins, without its package and its advice.
func headOf(msg string) string {
	return logTail.ReplaceAllString(logPrefix.ReplaceAllString(msg, ""), "")
}

// TestErrorLinesNameAConsequence checks that each line that the library logs at level ERROR
// has a second part behind what happened: what follows from it, or what the operator does.
func TestErrorLinesNameAConsequence(t *testing.T) {
	found := 0
	for _, f := range tree(t) {
		if !f.library() || in(f.pkg, "internal/harness") || in(f.pkg, "internal/sim") {
			continue
		}
		for _, msg := range errorLinesIn(f.ast) {
			found++
			if !strings.ContainsAny(logPrefix.ReplaceAllString(msg, ""), ";:") {
				t.Errorf("%s: the line %q names no consequence", f.path, msg)
			}
		}
	}
	if found < 25 {
		t.Errorf("only %d lines found: the search is broken", found)
	}
}

// errorLinesIn returns the texts of lines at level ERROR: the argument of a method Error, or
// the longest text of a call with slog.LevelError.
func errorLinesIn(n ast.Node) []string {
	var out []string
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		longest := ""
		if calledName(call) == "Error" {
			longest = literalOf(call.Args[0])
		}
		if slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return selected(e) == "LevelError" }) {
			for _, e := range call.Args {
				if text := literalOf(e); len(text) > len(longest) {
					longest = text
				}
			}
		}
		if strings.Contains(longest, " ") {
			out = append(out, longest)
		}
		return true
	})
	return out
}
