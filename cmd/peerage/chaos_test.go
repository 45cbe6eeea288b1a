package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/chaos"
)

func TestChaosOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	file := filepath.Join(t.TempDir(), "report.json")
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--nodes", "3", "--rounds", "4", "--seed", "3", "--out", file}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r chaos.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.Verdict != chaos.Passed || r.Seed != 3 || len(r.Rounds) != 4 || r.Counters["answered"] == 0 || len(r.Timeline) == 0 || len(r.Recovery) == 0 {
		t.Errorf("the report says %s", b)
	}
}

func TestRollingRestartOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--rolling", "--nodes", "3", "--seed", "3"}, &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s%s", code, out.String(), errs.String())
	}
}

// Scripts rely on the exit code of a verdict.
func TestVerdictsHaveExitCodes(t *testing.T) {
	for verdict, want := range map[string]int{chaos.Passed: exitOK, chaos.Failed: exitFailed, chaos.Unknown: exitUsage} {
		if code := chaosExitCode(verdict); code != want {
			t.Errorf("%s: exit code %d, want %d", verdict, code, want)
		}
	}
}
