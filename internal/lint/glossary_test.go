package lint

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheGlossaryHasHomes checks docs/GLOSSARY.md: each home is a package of the tree or an
// exported name, the words are sorted and unique, and each public package is the home of a
// word.
func TestTheGlossaryHasHomes(t *testing.T) {
	text, err := os.ReadFile("../../docs/GLOSSARY.md")
	if err != nil {
		t.Fatal(err)
	}
	packages, exported := map[string]bool{}, exportedNames(t)
	named := map[string]bool{} // public packages without a word so far
	for _, f := range tree(t) {
		packages[f.pkg] = true
		if f.library() && !in(f.pkg, "internal") {
			named[f.ast.Name.Name] = false
		}
	}
	row := regexp.MustCompile("^\\| ([^|]+) \\| [^|]+ \\| `([^`|]+)` \\|$")
	words, last := 0, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| word ") {
			continue
		}
		m := row.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("not a word, its meaning and its home: %s", line)
			continue
		}
		word, home := strings.ToLower(m[1]), m[2]
		if words++; word <= last {
			t.Errorf("%q does not come after %q", word, last)
		}
		last = word
		if !packages[home] && !exported[home] {
			t.Errorf("the home of %q, %s, is neither a package nor an exported name", word, home)
		}
		name, _, _ := strings.Cut(home[strings.LastIndex(home, "/")+1:], ".")
		if _, public := named[name]; public {
			named[name] = true
		}
	}
	for name, has := range named { // order-free: reports
		if !has {
			t.Errorf("no word has its home in package %s", name)
		}
	}
	if words < 60 {
		t.Errorf("only %d words were found", words)
	}
}
