package lint

import (
	"go/ast"
	"regexp"
	"testing"
)

// TestGuaranteesNameRealTests checks that each test and Example named on a page exists: a
// promise without its test is none.
func TestGuaranteesNameRealTests(t *testing.T) {
	tests := testNames(tree(t))
	name := regexp.MustCompile("`((?:Test|Example)[A-Z][A-Za-z0-9_]*)`")
	for page, text := range pages(t) { // order-free: reports errors
		found := name.FindAllStringSubmatch(text, -1)
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
