package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `package a

func (c *Core[T]) Step() int {
	if c.broken {
		// A comment.
		panic("S1")
	}
	return 1
}

func (c Core) isEvent() {}
`

// report runs the command on a tree with one source, a profile and reasons.
func runOn(t *testing.T, profile, reasons string) (string, error) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"internal/core/a/a.go": source, "profile": "mode: set\n" + profile, "internal/lint/simcover/unreached.txt": reasons,
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	err := runCommand(&out, root, options{profile: filepath.Join(root, "profile")})
	return out.String(), err
}

const (
	stepRuns  = module + "internal/core/a/a.go:3.30,4.14 1 1\n" + module + "internal/core/a/a.go:8.2,8.10 1 1\n"
	panicRuns = module + "internal/core/a/a.go:4.14,7.3 3 1\n"
	panicOnly = module + "internal/core/a/a.go:4.14,7.3 3 0\n"
)

func TestAStatementWithoutAReasonFails(t *testing.T) {
	out, err := runOn(t, stepRuns+panicOnly, "bound internal/core/a 2\n")
	if err == nil || !strings.Contains(err.Error(), "3 statements of internal/core/a are not reached and have no reason, at most 2 may") {
		t.Errorf("got %v", err)
	}
	if want := `not reached: internal/core/a/a.go Core.Step: panic("S1") (line 4, 3 statements)`; !strings.Contains(out, want) || !strings.Contains(out, "2 (40.0 %)") {
		t.Errorf("no %q in\n%s", want, out)
	}
	if _, err := runOn(t, stepRuns+panicOnly, "bound internal/core/a 3\n"); err != nil {
		t.Errorf("within its bound: %v", err)
	}
	if _, err := runOn(t, stepRuns+panicOnly+panicRuns, ""); err != nil {
		t.Errorf("reached by one of two binaries: %v", err)
	}
}

func TestAReasonIsForStatementsOfTheSources(t *testing.T) {
	out, err := runOn(t, stepRuns+panicOnly, "# assertions\n*Core.*: panic(* | only a bug gets there\n")
	if err != nil || !strings.Contains(out, "3 statements: only a bug gets there") || !strings.Contains(out, "100.0 %") {
		t.Errorf("got %v\n%s", err, out)
	}
	if _, err := runOn(t, stepRuns+panicRuns, "*Core.*: panic(* | only a bug gets there\n"); err != nil {
		t.Errorf("a reason for what is reached, in rare runs: %v", err)
	}
	for reasons, want := range map[string]string{
		"* Gone.*: * | a reason\n": `"* Gone.*: *", which matches no statement`, "*Core.*: *\n": "no reason in", "*Core.* | \n": "no reason in", "bound internal/core/a x\n": "invalid syntax",
	} {
		if _, err := runOn(t, stepRuns+panicRuns, reasons); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", reasons, err, want)
		}
	}
	out, err = runOn(t, panicOnly, "unplayed internal/core/a | it has no shell\n")
	if err != nil || !strings.Contains(out, "internal/core/a: it has no shell") {
		t.Errorf("got %v\n%s", err, out)
	}
}

func TestWrongProfilesAreRefused(t *testing.T) {
	for _, line := range []string{"nonsense", module + "a/a.go:1.2 3 4", module + "gone/a.go:1.2,3.4 1 1"} {
		if _, err := runOn(t, line+"\n", ""); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}

func TestPatterns(t *testing.T) {
	for pattern, want := range map[string]bool{
		"a b: c": true, "a *": true, "*: c": true, "*b*": true, "a*: *c": true, "a": false, "b*": false, "*b": false, "*c*b*": false, "a b: c*": true, "a b: c*c": false,
	} {
		if got := matchPattern(pattern, "a b: c"); got != want {
			t.Errorf("%q: %v", pattern, got)
		}
	}
}

// Each package that the list names is there, and each core is played or has a reason.
func TestEveryCoreIsInTheList(t *testing.T) {
	known, err := readReasons("unreached.txt")
	if err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob("../../core/*")
	if err != nil || len(dirs) < 10 {
		t.Fatalf("%v, %v", dirs, err)
	}
	for _, dir := range dirs {
		name := "internal/core/" + filepath.Base(dir)
		if _, bound := known.bounds[name]; bound != known.plays(name) {
			t.Errorf("%s must have either a bound or a reason why it is not played", name)
		}
	}
	if want := len(known.bounds) + len(known.unplayed); want != len(dirs) {
		t.Errorf("the list has %d packages, the tree %d", want, len(dirs))
	}
}
