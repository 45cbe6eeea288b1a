package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/testsize"
)

// The example of docs/CHAOS.md: a program of a user is built, hurt and judged.
func TestChaosOfAUsersService(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	t.Parallel()
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "votes"), "../../examples/votes").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	spec, err := os.ReadFile("../../examples/votes/chaos.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manual, err := os.ReadFile("../../docs/CHAOS.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(spec)) {
		if line, _, _ = strings.Cut(line, " #"); !strings.HasPrefix(line, "#") && !strings.Contains(string(manual), strings.TrimSpace(line)) {
			t.Errorf("docs/CHAOS.md lacks %q", line)
		}
	}
	file, page := filepath.Join(dir, "chaos.yaml"), filepath.Join(dir, "out.html")
	if err := os.WriteFile(file, spec, 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	rounds := strconv.Itoa(testsize.Runs(0, 1, 3))
	code := run([]string{"chaos", "--service", file, "--nodes", "3", "--rounds", rounds, "--seed", "3", "--every", "100ms", "--report", page}, &out, &errs)
	if code == exitFailed {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	for _, want := range []string{"PASS     no two requests had the same count", "PASS     nothing acknowledged was lost as its callers saw it", "PASS     each counter is linearizable"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report does not say %q:\n%s%s", want, out.String(), errs.String())
		}
	}
	html, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3 processes of votes", "counts that were answered twice", "--service " + file} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for flags, want := range map[string]string{"--faults=drain": "not with --service", "--workload=set": "--workload"} {
		out.Reset()
		errs.Reset()
		if code := run([]string{"chaos", "--service", file, flags}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d: %s", flags, code, errs.String())
		}
	}
}
