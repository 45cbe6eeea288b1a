package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/harness"
	"github.com/peerage-go/peerage/internal/harness/chaos"
	"github.com/peerage-go/peerage/internal/harness/service"
	"github.com/peerage-go/peerage/internal/testsize"
)

func TestChaosOnRealProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("several seconds of processes; the run without -short plays them")
	}
	t.Parallel()
	dir := t.TempDir()
	file, page := filepath.Join(dir, "report.json"), filepath.Join(dir, "page.html")
	var out, errs bytes.Buffer
	// Both seeds draw each fault; the second one pauses a process twice for longer than a lease.
	seed, rounds := testsize.Runs(0, 54, 3), testsize.Runs(0, 3, 4)
	if code := run([]string{"chaos", "--nodes", "3", "--rounds", strconv.Itoa(rounds), "--seed", strconv.Itoa(seed), "--faults", "kill,stop,drain", "--out", file, "--report", page, "--keep", filepath.Join(dir, "kept")}, &out, &errs); code != exitOK {
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
	if r.Verdict != chaos.Passed || r.Seed != uint64(seed) || len(r.Rounds) != rounds || r.Counters["answered"] == 0 || len(r.Timeline) == 0 || len(r.Recovery) == 0 {
		t.Errorf("the report says %s", b)
	}
	if len(r.Costs) == 0 || r.Costs[0].CPUPercent <= 0 || r.Costs[0].SentPerS <= 0 || r.Linear.Counters != 32 || r.Linear.Picture == "" {
		t.Errorf("costs %+v, linearizability of %d counters", r.Costs, r.Linear.Counters)
	}
	if len(r.Failovers) == 0 || r.Failovers[0].Total.N == 0 || r.Failovers[0].Phases[0].P50 <= 0 {
		t.Errorf("failovers %+v", r.Failovers)
	}
	if r.CalmFrom <= 0 || r.CalmFrom > r.Rounds[0].From || r.Ended < r.Rounds[rounds-1].To {
		t.Errorf("calm from %d until %d, rounds %+v", r.CalmFrom, r.Ended, r.Rounds)
	}
	if log, err := os.ReadFile(filepath.Join(dir, "kept", "a.0.log")); err != nil || !strings.Contains(string(log), "INFO") {
		t.Errorf("the log of the first process: %v\n%s", err, log)
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

// Two reports are compared in a table or in JSON, and the exit code is that of the newer verdict.
func TestReportsAreCompared(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, p50 := range []float64{40, 30} {
		r := &chaos.Report{
			Schema: chaos.SchemaVersion, Verdict: []string{chaos.Passed, chaos.Failed}[i], Config: chaos.Config{Nodes: 5 - i},
			Failovers: []chaos.Failover{{Kind: "kill", Total: harness.Quantiles{N: 9, P50: p50}, P50Interval: &harness.Interval{Low: p50 - 1, High: p50 + 2}}},
			Costs:     []chaos.Cost{{MemoryMaxBytes: 30 << 20}},
			Invariants: []chaos.Invariant{{Name: "kept", Verdict: chaos.Passed, Checked: 3},
				{Name: "broken once", Verdict: []string{chaos.Passed, chaos.Failed}[i], Checked: 3, Violations: []string{"one", "two"}[:2*i]}},
		}
		if i == 1 {
			r.Config.Service = &service.Spec{Name: "ring"}
		}
		files = append(files, filepath.Join(dir, string(rune('a'+i))+".json"))
		if err := r.Save(files[i]); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	if code := run([]string{"report", files[1], "--against", files[0]}, &out, &errs); code != exitFailed {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	table := regexp.MustCompile(` {2,}`).ReplaceAllString(out.String(), " | ")
	for _, want := range []string{
		"figure | old | new | ratio\n", "verdict | PASS | FAIL | -\n", "first answer after kill, p50 | 40 ms (39 ms to 42 ms) | 30 ms (29 ms to 32 ms) | 0.75\n",
		"memory of a node, at most | 30 MiB | 30 MiB | 1.00\n", "the runs differ in nodes: 4, was 5\n",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("the table lacks %q:\n%s", want, table)
		}
	}
	out.Reset()
	var c chaos.Comparison
	if code := run([]string{"report", files[0], "--against", files[1], "--json"}, &out, &errs); code != exitOK || json.Unmarshal(out.Bytes(), &c) != nil || len(c.Figures) < 4 {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.String())
	}
	out.Reset()
	html := filepath.Join(dir, "series.html")
	if code := run([]string{"report", files[0], files[1], "--html", html}, &out, &errs); code != exitFailed {
		t.Errorf("exit code %d: %s", code, errs.String())
	}
	table = regexp.MustCompile(` {2,}`).ReplaceAllString(out.String(), " | ")
	for _, want := range []string{"figure | ring, 4 processes | 5 nodes\n", "verdict | FAIL | PASS\n", "broken once | FAIL, 2 times | PASS\n", "first answer after kill, p50 | 30 ms | 40 ms\n"} {
		if !strings.Contains(table, want) {
			t.Errorf("the series lacks %q:\n%s", want, table)
		}
	}
	if strings.Contains(table, "kept | PASS") {
		t.Errorf("a promise that all runs kept is in the text:\n%s", table)
	}
	for _, want := range []string{
		`<td>30 ms<i style="width:75%"></i></td><td>40 ms<i style="width:100%"></i></td>`,
		`<td>broken once</td><td class="v FAIL">✗ FAIL, 2 times</td><td class="v PASS">✓ PASS</td>`, `<td>kept</td>`,
		`{"name":"broken once","verdicts":[{"verdict":"FAIL","checked":3,"violations":2},{"verdict":"PASS","checked":3,"violations":0}]}`,
	} {
		if text, err := os.ReadFile(html); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%v: the page lacks %s:\n%s", err, want, text)
		}
	}
	for _, wrong := range [][]string{{files[0], "--against", files[0]}, {"--against", "chaos_test.go"}, {"--against", files[0], "--open"}} {
		if code := run(append([]string{"report", files[1]}, wrong...), &out, &errs); code != exitUsage {
			t.Errorf("%q: exit code %d", wrong, code)
		}
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
