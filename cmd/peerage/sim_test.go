package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/sim"
)

// playSim runs `peerage sim` and returns its report.
func playSim(t *testing.T, args ...string) (r simReport, text string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append([]string{"sim", "--json"}, args...), &out, &errs); code != exitOK {
		t.Fatalf("exit code %d\n%s", code, errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	return r, errs.String()
}

// A range of seeds is the same simulation on one processor and on several.
func TestSimPlaysARangeOfSeeds(t *testing.T) {
	one, text := playSim(t, "--seeds", "3-12", "--parallel", "1")
	many, _ := playSim(t, "--seed", "3", "--seeds", "10", "--parallel", "4")
	if one.FirstSeed != 3 || one.Seeds != 10 || one.Verdict != "PASS" || one.VirtualMS == 0 || one.RareStates == 0 {
		t.Errorf("got %+v", one)
	}
	if many.Seeds != one.Seeds || many.VirtualMS != one.VirtualMS || many.RareStates != one.RareStates {
		t.Errorf("several at the same time: %+v, one after the other: %+v", many, one)
	}
	if !regexp.MustCompile(`(?m)^PASS: 10 seeds, .* \([0-9.]+ s per second\), [0-9]+ rare states seen$`).MatchString(text) {
		t.Errorf("printed %q", text)
	}
}

func TestSimRefusesWhatIsNoRange(t *testing.T) {
	for _, seeds := range []string{"0", "9-3", "1-", "-4", "x", "1-2-3", "0-18446744073709551615"} {
		var out, errs bytes.Buffer
		if code := run([]string{"sim", "--seeds=" + seeds}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "1-20000") {
			t.Errorf("--seeds %s: exit code %d, %s", seeds, code, errs.String())
		}
	}
}

func TestSimDrawsARun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "run.html")
	_, text := playSim(t, "--seed", "11", "--draw", file)
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`<svg id="diagram"`, "✓ PASS", "peerage sim --seed 11 --draw", "forms a cluster"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if !strings.Contains(text, "Diagram: "+file) {
		t.Errorf("printed %q", text)
	}
	unwritten := filepath.Join(t.TempDir(), "none.html")
	if _, text := playSim(t, "--seeds", "2", "--draw", unwritten); !strings.Contains(text, "no seed failed") {
		t.Errorf("printed %q", text)
	}
}

// Of several seeds that fail the lowest is reported, with the command that draws it, and no
// further seed is played.
func TestSimReportsTheLowestSeedThatFails(t *testing.T) {
	s := &simulation{seeds: "5-9", marks: map[string]bool{}, weakened: map[string]uint64{}}
	if err := s.setSeeds(); err != nil {
		t.Fatal(err)
	}
	s.next = s.first
	failed := func(seed uint64) sim.Result {
		return sim.Result{Seed: seed, Failure: &sim.Failure{What: "S1: shard 3 lives twice"}}
	}
	progress := newSimProgress(io.Discard, s.count())
	s.countRun(failed(7), progress)
	s.countRun(failed(6), progress)
	s.countRun(sim.Result{Seed: 5}, progress)
	if seed, more := s.take(t.Context()); more {
		t.Errorf("plays seed %d after a failure", seed)
	}
	var out bytes.Buffer
	s.printOutcome(&out, time.Second)
	for _, want := range []string{"seed 6 FAILED", "shard 3 lives twice", "FAIL: seed 6 of 5 to 9; 3 seeds played", "peerage sim --seed 6 --draw seed-6.html"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	if r := s.newReport(time.Second); r.Verdict != "FAIL" || *r.FailedSeed != 6 || !strings.Contains(r.Failure, "S1") {
		t.Errorf("report %+v", r)
	}
}

func TestSimPrintsProgress(t *testing.T) {
	var out bytes.Buffer
	p := newSimProgress(&out, 1000)
	p.printLine(10) // too early
	p.began, p.last = p.began.Add(-10*time.Second), p.last.Add(-10*time.Second)
	p.printLine(200)
	if got := out.String(); !strings.HasPrefix(got, "200 of 1000 seeds passed, ") || !strings.HasSuffix(got, "s left\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("printed %q", got)
	}
}
