package main

import (
	"os"
	"strings"
	"testing"
)

func Example() {
	main()
	// Output: the butler greets Grace Hopper, guest number 2
}

// TestReadmeShowsThisProgram compares the program with the README's, so that the
// one that is shown is the one that runs.
func TestReadmeShowsThisProgram(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "```go\n"+string(program)+"```\n") {
		t.Error("README.md does not show examples/hello/main.go as it is")
	}
}
