package lint

import (
	"go/ast"
	"os"
	"regexp"
	"testing"
)

// TestGuaranteesNameRealTests checks that each test and Example named in
// GUARANTEES.md and the pages of docs exists: a promise without its test is none.
func TestGuaranteesNameRealTests(t *testing.T) {
	tests := testNames(tree(t))
	name := regexp.MustCompile("`((?:Test|Example)[A-Z][A-Za-z0-9_]*)`")
	for _, page := range []string{"GUARANTEES.md", "docs/TESTING.md", "docs/SCENARIOS.md", "docs/FEATURES.md", "docs/DDATA.md"} {
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
		if (page == "GUARANTEES.md" || page == "docs/FEATURES.md") && len(found) < 30 {
			t.Errorf("%s names %d tests only", page, len(found))
		}
	}
}

// testNames returns the names of the tests, Examples, fuzz targets and benchmarks.
func testNames(files []*file) map[string]bool {
	names := map[string]bool{}
	for _, f := range files {
		if !f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && testName.MatchString(fn.Name.Name) {
				names[fn.Name.Name] = true
			}
		}
	}
	return names
}
