package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// played returns a runner whose local asks take these times, one after the other, then the last,
// and all other messages 100.
func played(name string, log *[]string, times ...int) runner {
	asks := 0
	return func(_ context.Context, m measure, _ float64) (cost, error) {
		*log = append(*log, name)
		took := 100
		if m.name == "local ask" {
			took = times[min(asks, len(times)-1)]
			asks++
		}
		return cost{wall: time.Duration(took), processor: 100}, nil
	}
}

// TestOnlyWhatStaysSlowerFails: one turn that is not slower, in the first turns or in their
// repetition, acquits a measure.
func TestOnlyWhatStaysSlowerFails(t *testing.T) {
	for name, c := range map[string]struct {
		times    []int
		repeated bool
		fails    bool
	}{
		"as before":                {[]int{100}, false, false},
		"slower":                   {[]int{111}, true, true},
		"slower by a tenth":        {[]int{110}, false, false},
		"once not slower":          {[]int{120, 120, 110, 120}, false, false},
		"not slower when repeated": {[]int{120, 120, 120, 120, 100, 120}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			var out strings.Builder
			err := compareBuilds(t.Context(), played("here", &log, c.times...), played("there", &log, 100), options{turns: 3}, &out)
			if errors.Is(err, errSlower) != c.fails || !c.fails && err != nil {
				t.Errorf("error %v; output:\n%s", err, out.String())
			}
			if c.fails && !strings.HasSuffix(err.Error(), "each of 6 turns: local ask") {
				t.Errorf("error %v", err)
			}
			if first := strings.Join(log[:6], " "); first != "there here here there there here" {
				t.Errorf("who begins does not change: %s", first)
			}
			want := 1 + 2*len(measures())
			if c.repeated {
				want += 2
			}
			if n := strings.Count(out.String(), "\n"); n != want {
				t.Errorf("%d lines, want %d:\n%s", n, want, out.String())
			}
		})
	}
}

// TestProcessorTimeCounts: a measure that takes as long as before, with more work, is slower.
func TestProcessorTimeCounts(t *testing.T) {
	same := turn{cost{100, 100}, cost{100, 100}}
	busy := turn{cost{100, 111}, cost{100, 100}}
	if isSlower([]turn{busy, same}) || !isSlower([]turn{busy, busy}) {
		t.Error("only turns that all took more processor time are slower")
	}
	if isSlower([]turn{busy, {cost{111, 100}, cost{100, 100}}}) {
		t.Error("slower in time once, and in processor time once, is slower in neither")
	}
}

// TestNewBenchmarksAreNamed: a benchmark that the other commit lacks is no reason to fail.
func TestNewBenchmarksAreNamed(t *testing.T) {
	var log []string
	lacks := func(context.Context, measure, float64) (cost, error) { return cost{}, errUnknown }
	var out strings.Builder
	if err := compareBuilds(t.Context(), played("here", &log, 100), lacks, options{turns: 1}, &out); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "not compared: "+errUnknown.Error()); n != len(measures()) {
		t.Errorf("%d measures are named:\n%s", n, out.String())
	}
	broken := errors.New("broken")
	fails := func(context.Context, measure, float64) (cost, error) { return cost{}, broken }
	if err := compareBuilds(t.Context(), played("here", &log, 100), fails, options{turns: 1}, &out); !errors.Is(err, broken) {
		t.Errorf("a run that fails: %v", err)
	}
}

// TestBenchmarksExist plays each measure once, with a few messages.
func TestBenchmarksExist(t *testing.T) {
	b := &build{name: "this tree", binary: filepath.Join(t.TempDir(), "bench")}
	if err := b.compile(t.Context(), "../.."); err != nil {
		t.Fatal(err)
	}
	for _, m := range slices.Concat(measures(), crowds()) {
		if c, err := b.playOnce(t.Context(), m, 0.001); err != nil || c.wall <= 0 || c.processor <= 0 {
			t.Errorf("%s: %+v, %v", m.name, c, err)
		}
	}
	if _, err := b.playOnce(t.Context(), measure{"none", "None", 1}, 1); !errors.Is(err, errUnknown) {
		t.Errorf("a benchmark that does not exist: %v", err)
	}
}

// TestExportsACommit: the files are those of the commit, whatever the working directory.
func TestExportsACommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	repository, dir := t.TempDir(), filepath.Join(t.TempDir(), "tree")
	below := filepath.Join(repository, "below")
	write := func(text string) {
		if err := errors.Join(os.MkdirAll(below, 0o755), os.WriteFile(filepath.Join(repository, "file"), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) {
		args = append([]string{"-C", repository, "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"}, args...)
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write("before")
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "one")
	write("now")
	t.Chdir(below)
	root, err := rootOf(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := export(t.Context(), root, "HEAD", dir); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "file")); string(text) != "before" {
		t.Errorf("the file is %q: %v", text, err)
	}
	if err := export(t.Context(), root, "no-such-commit", filepath.Join(t.TempDir(), "tree")); err == nil || !strings.Contains(err.Error(), "no-such-commit") {
		t.Errorf("a commit that does not exist: %v", err)
	}
}
