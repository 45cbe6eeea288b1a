package peeragetest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestThePageShowsRealTests compares the page for users with the tests of this package: each
// block of Go is a part of them.
func TestThePageShowsRealTests(t *testing.T) {
	page, err := os.ReadFile("../docs/TESTING-YOUR-SERVICE.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("user_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	for _, b := range blocks {
		if !strings.Contains(string(source), b[1]) {
			t.Errorf("user_test.go does not contain:\n%s", b[1])
		}
	}
	if len(blocks) < 5 {
		t.Errorf("only %d blocks were found", len(blocks))
	}
}
