package lint

import (
	"strings"
	"testing"
)

// TestTheIndexListsAllPages checks that docs/README.md links to every page under docs and
// to those at the root.
func TestTheIndexListsAllPages(t *testing.T) {
	all := pages(t)
	index, found := all["docs/README.md"]
	if !found {
		t.Fatal("there is no docs/README.md")
	}
	for page := range all { // order-free: each is judged by itself
		name, below := strings.CutPrefix(page, "docs/")
		if !below {
			name = "../" + page
		}
		if page == "docs/README.md" || !below && strings.Contains(page, "/") {
			continue
		}
		if !strings.Contains(index, "]("+name+")") {
			t.Errorf("docs/README.md does not link to %s", page)
		}
	}
}
