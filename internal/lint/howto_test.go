package lint

import (
	"fmt"
	"go/ast"
	"go/doc"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// howToSections are the headings of every page under docs/howto, in their order.
var howToSections = []string{"The problem", "The design", "The code that matters", "Under a crash", "No promise"}

// TestHowTosShowTheirExamples checks each page under docs/howto: it has the sections of
// such a page, begins with one command that runs an example, and shows Go code of it.
func TestHowTosShowTheirExamples(t *testing.T) {
	all := pages(t)
	found := 0
	for name, text := range all { // order-free: each is judged by itself
		if !strings.HasPrefix(name, "docs/howto/") {
			continue
		}
		found++
		var sections []string
		for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(text, -1) {
			sections = append(sections, m[1])
		}
		if !slices.Equal(sections, howToSections) {
			t.Errorf("%s has the sections %q, want %q", name, sections, howToSections)
		}
		run := regexp.MustCompile("(?s)\n```sh\ngo run \\./(examples/[a-z]+)\n```\n\n```text\n(.*?)```\n\n## ").FindStringSubmatch(text)
		if run == nil {
			t.Errorf("%s does not begin with one command that runs an example, and its output", name)
			continue
		}
		if problem := checkOutput(t, run[1], run[2]); problem != "" {
			t.Errorf("%s: %s", name, problem)
		}
		for _, block := range missingCode(t, run[1], text) {
			t.Errorf("%s shows what %s does not contain:\n%s", name, run[1], block)
		}
	}
	if found < 5 {
		t.Errorf("only %d pages were found", found)
	}
}

// checkOutput compares the output that a page shows with the one that an Example of the
// program expects. Without an Example, the program contains a format for each line.
func checkOutput(t *testing.T, example, shown string) (problem string) {
	t.Helper()
	var formats []*regexp.Regexp
	for _, f := range tree(t) {
		if f.pkg != example {
			continue
		}
		for _, e := range doc.Examples(f.ast) {
			if e.Output != shown {
				return fmt.Sprintf("it shows\n%s\nas output, Example%s expects\n%s", shown, e.Name, e.Output)
			}
			return ""
		}
		if !f.test {
			formats = append(formats, formatsIn(f.ast)...)
		}
	}
	for line := range strings.Lines(shown) {
		if !slices.ContainsFunc(formats, func(r *regexp.Regexp) bool { return r.MatchString(line) }) {
			return fmt.Sprintf("%s prints no line such as %q", example, line)
		}
	}
	return ""
}

// formatsIn returns a pattern for each string of a file that may be a line of output.
func formatsIn(file *ast.File) (all []*regexp.Regexp) {
	verb := regexp.MustCompile(`%[^a-z%]*[a-z]`)
	ast.Inspect(file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok {
			return true
		}
		if text := strings.TrimSuffix(literalOf(lit), "\n"); strings.Contains(text, " ") {
			all = append(all, regexp.MustCompile("^"+verb.ReplaceAllString(regexp.QuoteMeta(text), "[^ ]+")+"\n$"))
		}
		return true
	})
	return all
}

// TestOutputThatAProgramDoesNotPrintIsFound shows that the comparison can fail.
func TestOutputThatAProgramDoesNotPrintIsFound(t *testing.T) {
	for _, tc := range []struct {
		example, shown string
		found          bool
	}{
		{"examples/limiter", "ada: 10 of 60 requests at three nodes passed, the burst is 10\n", false},
		{"examples/limiter", "ada: 10 of 60 requests passed\n", true},
		{"examples/survivor", "visits: 1\nvisits: 2\nvisits: 3\nits node crashes\nvisits: 4\n", false},
		{"examples/survivor", "visits: 1\n", true},
	} {
		if got := checkOutput(t, tc.example, tc.shown); (got != "") != tc.found {
			t.Errorf("%s, %q: %q", tc.example, tc.shown, got)
		}
	}
}

// missingCode returns the Go blocks of a page that no file of an example contains, and a
// note if the page has none.
func missingCode(t *testing.T, example, text string) (missing []string) {
	t.Helper()
	files, err := filepath.Glob("../../" + example + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		code, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(code)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(text, -1)
	for _, b := range blocks {
		if !strings.Contains(source.String(), b[1]) {
			missing = append(missing, b[1])
		}
	}
	if len(blocks) == 0 {
		missing = append(missing, "no Go code at all")
	}
	return missing
}
