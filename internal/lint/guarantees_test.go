package lint

import (
	"go/ast"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGuaranteesNameRealTests checks that each test named in GUARANTEES.md,
// docs/TESTING.md and docs/SCENARIOS.md exists: a promise without its test is none.
func TestGuaranteesNameRealTests(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range tree(t) {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				tests[fn.Name.Name] = true
			}
		}
	}
	name := regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")
	for _, page := range []string{"GUARANTEES.md", "docs/TESTING.md", "docs/SCENARIOS.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		found := name.FindAllStringSubmatch(string(text), -1)
		for _, m := range found {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		if page == "GUARANTEES.md" && len(found) < 30 {
			t.Errorf("%s names %d tests only", page, len(found))
		}
	}
}
