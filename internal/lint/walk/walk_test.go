package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package p

func once() {}

func often() {
	if true {
		once()
	}
}

type t struct{}

func (t) rarely() {}
`

func TestFunctionsThatRunForEachOperationAreCounted(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	blocks, err := parseBlocks(strings.Join([]string{
		"mode: atomic",
		module + "p.go:3.14,3.15 1 10",
		module + "p.go:6.10,8.3 1 500",
		module + "p.go:5.14,6.10 1 25",
		module + "p.go:13.20,13.21 1 7",
		"example.org/other/o.go:1.1,2.2 1 10",
	}, "\n"))
	if err != nil || len(blocks) != 4 {
		t.Fatalf("%d blocks, %v; want 4", len(blocks), err)
	}
	w, err := findPassed(root, blocks, 10)
	if err != nil {
		t.Fatal(err)
	}
	// The block within often ran 50 times for each operation, its first block 2.5 times.
	var out strings.Builder
	if err := w.printFunctions(&out); err != nil || out.String() != "p.go: often 2, once 1\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	if w.files() != 1 || w.packages() != 1 || w.calls() != 3.5 {
		t.Errorf("%d files, %d packages, %v calls; want 1, 1, 3.5", w.files(), w.packages(), w.calls())
	}
}

func TestAProfileThatIsNoneIsRefused(t *testing.T) {
	for _, line := range []string{"p.go", "p.go:1.2", module + "p.go:1.1,2.x 1 1"} {
		if _, err := parseBlocks("mode: atomic\n" + line); err == nil || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", line, err)
		}
	}
}
