package lint

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestAssertionsAreListed compares the assertions of the tree with the table of
// docs/TESTING.md, and the table with the statements of GUARANTEES.md: each has an assertion,
// or is in the row of those that no single step can break.
func TestAssertionsAreListed(t *testing.T) {
	page, err := os.ReadFile("../../docs/TESTING.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	ids := map[string]bool{}
	row := regexp.MustCompile("^\\| ([A-Z][A-Za-z0-9, ]*) \\| `(internal/[a-z/]+)`: `([A-Za-z.]+)` \\| [^|]+ \\| `Test[A-Za-z]+` \\|$")
	without := regexp.MustCompile(`^\| ([A-Z][A-Za-z0-9, ]*) \| none: [^|]+ \|[^|]*\| [^|]+ \|$`)
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if m := row.FindStringSubmatch(line); m != nil {
			listed[m[1]+" "+m[2]+" "+m[3]], ids[m[1]] = true, true
		} else if m := without.FindStringSubmatch(line); m != nil {
			for id := range strings.SplitSeq(m[1], ", ") {
				ids[id] = true
			}
		}
	}
	for site, where := range assertions(t) { // order-free: reports
		if !listed[site] {
			t.Errorf("%s: docs/TESTING.md does not list %s", where, site)
		}
		delete(listed, site)
	}
	for site := range listed { // order-free: reports
		t.Errorf("docs/TESTING.md lists %s, which is not asserted", site)
	}
	for _, want := range documentedInvariants(t) {
		if !slices.ContainsFunc(want, func(id string) bool { return ids[id] }) {
			t.Errorf("%v is neither asserted nor in the row of those without assertions", want)
		}
	}
}

// assertions returns all calls of assert.Broken, as "id package Type.function", with their
// places. Each must be guarded by assert.Enabled, or the condition would cost something.
func assertions(t *testing.T) map[string]string {
	found := map[string]string{}
	for _, f := range tree(t) {
		if f.test || f.pkg == "internal/assert" {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			inspectGuarded(fn.Body, strings.HasPrefix(fn.Name.Name, "assert"), func(call *ast.CallExpr, guarded bool) {
				called := name(call.Fun)
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "assert") && !guarded {
					t.Errorf("%s:%d: %s is called without assert.Enabled", f.path, f.line(call), sel.Sel.Name)
				}
				if called != "assert.Broken" {
					return
				}
				if !guarded {
					t.Errorf("%s:%d: an assertion without assert.Enabled", f.path, f.line(call))
				}
				id := strings.Trim(call.Args[0].(*ast.BasicLit).Value, `"`)
				found[id+" "+f.pkg+" "+methodName(fn)] = f.path
			})
		}
	}
	if len(found) < 20 {
		t.Fatalf("only %d assertions were found", len(found))
	}
	return found
}

// inspectGuarded visits the calls below n, and reports whether an if statement with
// assert.Enabled encloses each.
func inspectGuarded(n ast.Node, guarded bool, visit func(*ast.CallExpr, bool)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if !guarded && mentionsEnabled(n.Cond) {
				inspectGuarded(n.Body, true, visit)
				return false
			}
		case *ast.CallExpr:
			visit(n, guarded)
		}
		return true
	})
}

// mentionsEnabled reports whether a condition begins with assert.Enabled.
func mentionsEnabled(cond ast.Expr) bool {
	for {
		b, ok := cond.(*ast.BinaryExpr)
		if !ok {
			return name(cond) == "assert.Enabled"
		}
		cond = b.X
	}
}

// methodName returns Type.method, or the name of a function.
func methodName(fn *ast.FuncDecl) string {
	if typ := receiverType(fn); typ != nil {
		return typ.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}

// receiverType returns the name of the type that has a method, nil for a function.
func receiverType(fn *ast.FuncDecl) *ast.Ident {
	if fn.Recv == nil {
		return nil
	}
	typ := fn.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x
		default:
			return nil
		}
	}
}

// documentedInvariants returns the statements of GUARANTEES.md with the invariants they
// rest on, one of which must be asserted, and each invariant that any page of ours numbers.
func documentedInvariants(t *testing.T) (all [][]string) {
	page, err := os.ReadFile("../../GUARANTEES.md")
	if err != nil {
		t.Fatal(err)
	}
	checks, err := os.ReadFile("../../docs/TESTING.md")
	if err != nil {
		t.Fatal(err)
	}
	scenarios, err := os.ReadFile("../../docs/SCENARIOS.md")
	if err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`\b[SGL][0-9]+\b`)
	for line := range strings.Lines(string(page)) {
		if !strings.HasPrefix(line, "## ") {
			continue
		}
		if in := id.FindAllString(line, -1); len(in) > 0 {
			all = append(all, in)
		} else {
			all = append(all, []string{strings.TrimSpace(strings.TrimPrefix(line, "## "))})
		}
	}
	for _, one := range id.FindAllString(string(page)+string(scenarios)+string(checks), -1) {
		if one[0] == 'S' || one[0] == 'L' {
			all = append(all, []string{one})
		}
	}
	return all
}
