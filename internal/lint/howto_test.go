package lint

import (
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
		run := regexp.MustCompile("\n```sh\ngo run \\./(examples/[a-z]+)\n```\n\n## ").FindStringSubmatch(text)
		if run == nil {
			t.Errorf("%s does not begin with one command that runs an example", name)
			continue
		}
		for _, block := range missingCode(t, run[1], text) {
			t.Errorf("%s shows what %s does not contain:\n%s", name, run[1], block)
		}
	}
	if found < 5 {
		t.Errorf("only %d pages were found", found)
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
