// The walk command counts the functions and files that an operation passes through: those
// that ran at least 0.8 times for each of n operations, by coverage counters. It shows how
// much of the library a reader has to open to follow the operation. Run it from the
// module's root:
//
//	go run ./internal/lint/walk                  # a row for each operation
//	go run ./internal/lint/walk -list handoff    # the functions of one
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

// repeats is how often each operation is performed: often enough that what runs by a timer
// beside it stays below 0.8 a time.
func repeats() []struct {
	op string
	n  int
} {
	return []struct {
		op string
		n  int
	}{{"ask-local", 3000}, {"ask-remote", 3000}, {"majority-write", 3000}, {"view-change", 20}, {"first-ask", 1000}, {"handoff", 1000}}
}

func main() {
	list := flag.String("list", "", "print the functions of this operation")
	flag.Parse()
	root, err := filepath.Abs(".")
	if err == nil {
		err = walk(os.Stdout, root, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

// walk builds the operations with coverage, runs each, and prints what it passed through.
func walk(out io.Writer, root, list string) error {
	work, err := os.MkdirTemp("", "walk")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	binary := filepath.Join(work, "operations")
	err = runIn(root, "go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...", "-o", binary, "./internal/lint/walk/operations")
	if err != nil {
		return err
	}
	if list == "" {
		fmt.Fprintf(out, "%-15s %9s %6s %9s %6s\n", "operation", "functions", "files", "packages", "calls")
	}
	for _, r := range repeats() {
		if list != "" && r.op != list {
			continue
		}
		blocks, err := countBlocks(root, work, binary, r.op, r.n)
		if err != nil {
			return err
		}
		w, err := findPassed(root, blocks, r.n)
		if err != nil {
			return err
		}
		if list != "" {
			return w.printFunctions(out)
		}
		fmt.Fprintf(out, "%-15s %9d %6d %9d %6.0f\n", r.op, len(w.functions), w.files(), w.packages(), w.calls())
	}
	if list != "" {
		return fmt.Errorf("-list %q is no operation", list)
	}
	return nil
}

// countBlocks runs an operation n times, and returns how often each block ran.
func countBlocks(root, work, binary, op string, n int) ([]block, error) {
	dir := filepath.Join(work, op)
	text := filepath.Join(work, op+".txt")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := runIn(root, binary, "-op", op, "-n", fmt.Sprint(n), "-dir", dir); err != nil {
		return nil, err
	}
	if err := runIn(root, "go", "tool", "covdata", "textfmt", "-i", dir, "-o", text); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(text)
	if err != nil {
		return nil, err
	}
	return parseBlocks(string(data))
}

func runIn(root, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}
