package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/script"
)

// failsWith returns a play in which scripts of at least three nodes fail.
func failsWith(failure string) func(*script.Script) (string, *script.Script) {
	return func(s *script.Script) (string, *script.Script) {
		played := *s
		if played.Faults == nil {
			played.Faults = []script.Fault{}
		}
		if s.Config.Nodes < 3 {
			return "", &played
		}
		return failure, &played
	}
}

// A failure becomes a small script, which the command plays and draws.
func TestSimShrinksAFailureToAScript(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(regressDirs[0], 0o777); err != nil {
		t.Fatal(err)
	}
	r := sim.Run(sim.Config{Seed: 4, Nodes: 6, Shards: 40})
	r.Failure = &sim.Failure{What: "seed 4: S1 strict: two homes"}
	s := &simulation{shrink: true, failed: &r, draw: "small.html"}
	var out bytes.Buffer
	if err := s.shrinkFailure(t.Context(), &out, failsWith(r.Failure.What)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(regressDirs[0], "s1-strict-seed-4.txt")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	small, err := script.Parse(string(text))
	if err != nil || small.Config.Nodes != 3 || small.Config.Types[0].Shards != 1 || small.Comment != r.Failure.What+"\n" {
		t.Errorf("written is %v\n%s", err, text)
	}
	if !strings.Contains(out.String(), "still fails: half of the nodes") || !strings.Contains(out.String(), "Script: "+file) {
		t.Errorf("printed %q", out.String())
	}
	if err := s.drawRun(&out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("small.html")
	if err != nil || !strings.Contains(string(page), "peerage sim --script "+file+" --draw") {
		t.Errorf("the page is not that of the script: %v", err)
	}
	report, printed := playSim(t, "--script", file)
	if report.Seeds != 1 || report.FirstSeed != 4 || !strings.Contains(printed, "seed 4: 3 nodes") {
		t.Errorf("played %+v\n%s", report, printed)
	}
}

// An interrupt ends the search: the smallest script so far is kept.
func TestSimKeepsTheSmallestScriptSoFar(t *testing.T) {
	t.Chdir(t.TempDir())
	r := sim.Run(sim.Config{Seed: 4, Nodes: 6})
	ctx, interrupt := context.WithCancel(t.Context())
	plays := 0
	play := func(c *script.Script) (string, *script.Script) {
		if plays++; plays == 2 {
			interrupt()
		}
		return "L6: not served", c
	}
	s := &simulation{shrink: true, failed: &r}
	if err := s.shrinkFailure(ctx, &bytes.Buffer{}, play); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(regressDirs[1], "l6-seed-*.txt"))
	if err != nil || len(kept) != 1 || plays != 2 || s.script.Config.Nodes != 3 {
		t.Errorf("kept %v with %d nodes after %d runs, %v", kept, s.script.Config.Nodes, plays, err)
	}
}

func TestSimRefusesWrongScripts(t *testing.T) {
	wrong := filepath.Join(t.TempDir(), "wrong.txt")
	if err := os.WriteFile(wrong, []byte("seed 1\nColour 3\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{wrong: `line 2, "Colour 3": no such setting`, wrong + "x": "no such file"} {
		var out, errs bytes.Buffer
		if code := run([]string{"sim", "--script", file}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("exit code %d, %s", code, errs.String())
		}
	}
	passes := func(c *script.Script) (string, *script.Script) { return "", c }
	s := &simulation{shrink: true, failed: &sim.Result{Seed: 9, Script: &script.Script{}}}
	if err := s.shrinkFailure(t.Context(), &bytes.Buffer{}, passes); err == nil || !strings.Contains(err.Error(), "seed 9 does not fail again") {
		t.Errorf("a seed that passes when it is played again: %v", err)
	}
	if _, printed := playSim(t, "--seed", "11", "--shrink"); !slices.Contains(strings.Split(printed, "\n"), "No seed failed: there is nothing to make small.") {
		t.Errorf("printed %q", printed)
	}
}
