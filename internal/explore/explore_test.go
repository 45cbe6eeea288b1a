package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// TestExplorations plays each plan: a sample of its states, or all in a campaign.
func TestExplorations(t *testing.T) {
	all := total{taken: map[string]int{}}
	for _, p := range plans(false) {
		r := play(&p, testsize.Runs(300, 1500, statesMax))
		if r.wrong != "" {
			t.Fatalf("%s\n%s: %s", r.x.retold(), p.name, r.wrong)
		}
		if testsize.Full() && r.x.cut {
			t.Errorf("%s: not at its end after %d states", p.name, r.x.states)
		}
		for action, n := range r.x.taken { // order-free: a sum
			all.taken[action] += n
		}
	}
	if missing := all.untaken(); testsize.Full() && len(missing) > 0 {
		t.Errorf("no plan took the actions %q", missing)
	}
	for action := range all.taken { // order-free: each is judged by itself
		if !slices.ContainsFunc(links, func(l link) bool { return l.action == action }) && action != proceed.String() {
			t.Errorf("the action %q has no link to the code", action)
		}
	}
}

// TestStepsShareNothing: a step changes no other state, and leads to one state.
func TestStepsShareNothing(t *testing.T) {
	for _, p := range plans(false) {
		x := newExplorer(&p, 200)
		x.watch = func(before, after *world, a action) {
			again := x.after(before, a)
			x.spend(again, a)
			for i, n := range before.nodes {
				if digestOf(x, n) != before.ids[i] {
					t.Fatalf("%s: %v changes node %d of the state before", p.name, a, n.id)
				}
			}
			if digestOf(x, before.cluster) != before.past {
				t.Fatalf("%s: %v changes the record of the state before", p.name, a)
			}
			if again.digest() != after.digest() {
				t.Fatalf("%s: %v leads to two states", p.name, a)
			}
		}
		if wrong := x.explore(); wrong != "" {
			t.Fatal(wrong)
		}
	}
}

// TestAFailureIsRetold: the path to a failed check is printed, and ends with that check's state.
func TestAFailureIsRetold(t *testing.T) {
	p := plans(false)[0]
	x := newExplorer(&p, 1000)
	steps := 0
	x.watch = func(_, after *world, a action) {
		if steps++; steps == 40 {
			after.fail("a planned failure")
		}
	}
	if wrong := x.explore(); wrong != "a planned failure" {
		t.Fatalf("the exploration ended with %q", wrong)
	}
	if lines := strings.Count(x.retold(), "-- "); lines != len(x.path) || lines == 0 {
		t.Errorf("%d actions are retold, the path has %d", lines, len(x.path))
	}
}

func TestTheCommandPlaysOnePlan(t *testing.T) {
	var out, errs strings.Builder
	if code := runCommand([]string{"-plan", "a move"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "longest path") {
		t.Errorf("exit code %d:\n%s%s", code, out.String(), errs.String())
	}
	if code := runCommand([]string{"-plan", "no such plan"}, &out, &errs); code != 2 || !strings.Contains(errs.String(), "no such plan") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

// functions returns the functions and methods of a package under internal/core.
func functions(t *testing.T, pkg string) map[string]bool {
	out := map[string]bool{}
	dir := "../core/" + pkg
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), dir+"/"+f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				out[pkg+"."+receiver(fn)+fn.Name.Name] = true
			}
		}
	}
	return out
}

func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name + "."
	}
	return ""
}

// TestActionsAreLinkedToCode: each function that an action names exists, and the page of the
// specification has the same table, and all plans.
func TestActionsAreLinkedToCode(t *testing.T) {
	data, err := os.ReadFile("../../docs/SPECIFICATION.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	known := map[string]bool{}
	for _, pkg := range []string{"coordinator", "region", "view"} {
		for fn := range functions(t, pkg) { // order-free: into a set
			known[fn] = true
		}
	}
	for _, l := range links {
		for _, fn := range l.code {
			if !known[fn] {
				t.Errorf("%s: there is no function %s", l.action, fn)
			}
		}
		if row := fmt.Sprintf("| %s | `%s` |\n", l.action, strings.Join(l.code, "`, `")); !strings.Contains(page, row) {
			t.Errorf("docs/SPECIFICATION.md lacks the row %s", row)
		}
	}
	for _, p := range plans(false) {
		if !strings.Contains(page, "\n| "+p.name+" |") {
			t.Errorf("docs/SPECIFICATION.md lacks the plan %q", p.name)
		}
	}
	for _, line := range strings.Split(page, "\n") {
		for _, word := range strings.Split(line, "`") {
			if strings.HasPrefix(word, "view.") && !known[word] {
				t.Errorf("docs/SPECIFICATION.md: there is no function %s", word)
			}
		}
	}
}
