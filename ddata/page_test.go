package ddata_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestThePageShowsTheManual compares the page for users with the manual: the Go code of the one
// stands in the other.
func TestThePageShowsTheManual(t *testing.T) {
	page, err := os.ReadFile("../docs/DDATA.md")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	plain := regexp.MustCompile("(?m)^//\t?").ReplaceAllString(string(manual), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if !strings.Contains(plain, b[1]) {
			t.Errorf("doc.go does not contain:\n%s", b[1])
		}
	}
	if len(blocks) != 1 {
		t.Errorf("%d blocks were found, want 1", len(blocks))
	}
}
