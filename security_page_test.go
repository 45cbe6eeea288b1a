package peerage_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecurityPageCompiles builds the Go lines that SECURITY.md offers to copy, in a
// program that starts a node with them.
func TestSecurityPageCompiles(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, found := strings.Cut(string(page), "```go\n")
	if block, _, _ = strings.Cut(block, "```"); !found || !strings.Contains(block, "// ...\n") {
		t.Fatal("the page has no lines to build")
	}
	program := `package main

import (
	"context"
	"os"

	"github.com/peerage-go/peerage"
)

func start(ctx context.Context) (*peerage.Node, error) {
` + strings.Replace(block, "// ...\n", "if err != nil {\n\t\treturn nil, err\n\t}\n", 1) + `
	return peerage.Start(ctx, cfg)
}

func main() { _, _ = start(context.Background()) }
`
	// Only a file inside the module sees its packages; vet compiles it and writes nothing.
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	source := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := `{"Replace": {"` + filepath.Join(here, "internal", "securitypage", "main.go") + `": "` + source + `"}}`
	if err := os.WriteFile(overlay, []byte(replace), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", overlay, "-o", os.DevNull, "./internal/securitypage")
	if out, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, program)
	}
}
