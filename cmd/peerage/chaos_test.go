package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness/chaos"
)

func TestChaosOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	t.Parallel()
	dir := t.TempDir()
	file, page := filepath.Join(dir, "report.json"), filepath.Join(dir, "page.html")
	var out, errs bytes.Buffer
	if code := run([]string{"chaos", "--nodes", "3", "--rounds", "4", "--seed", "3", "--faults", "kill,stop,drain", "--out", file, "--report", page, "--keep", filepath.Join(dir, "kept")}, &out, &errs); code != exitOK {
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
	if len(r.Costs) == 0 || r.Costs[0].CPUPercent <= 0 || r.Costs[0].SentPerS <= 0 || r.Linear.Counters != 32 || r.Linear.Picture == "" {
		t.Errorf("costs %+v, linearizability of %d counters", r.Costs, r.Linear.Counters)
	}
	if len(r.Failovers) == 0 || r.Failovers[0].Total.N == 0 || r.Failovers[0].Phases[0].P50 <= 0 {
		t.Errorf("failovers %+v", r.Failovers)
	}
	if r.CalmFrom <= 0 || r.CalmFrom > r.Rounds[0].From || r.Ended < r.Rounds[3].To {
		t.Errorf("calm from %d until %d, rounds %+v", r.CalmFrom, r.Ended, r.Rounds)
	}
	first, _, _ := strings.Cut(strings.SplitAfter(out.String(), "\nReport: ")[1], "Histories: ")
	for _, form := range []string{file, page, filepath.Join(dir, "kept", chaos.ReportFile)} {
		out.Reset()
		if code := run([]string{"report", form}, &out, &errs); code != exitOK || !strings.HasPrefix(out.String(), "\nReport: "+strings.TrimSuffix(first, "Report: ")) {
			t.Errorf("report %s: exit code %d\n%s%s", form, code, out.String(), errs.String())
		}
	}
	again, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if once, err2 := os.ReadFile(page); err != nil || err2 != nil || !bytes.Equal(once, again) {
		t.Errorf("the page of the JSON differs from that of the run: %v, %v", err, err2)
	}
}

// A file that is no report is a wrong command line.
func TestReportRefusesOtherFiles(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"report", "chaos_test.go"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "is no report of chaos") {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
}

func TestRollingRestartOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	t.Parallel()
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
