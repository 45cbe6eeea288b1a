package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/script"
	"github.com/peerage-go/peerage/internal/sim/shrink"
)

// shrinkRunsMax is how many runs making a script small may take: a minute or so.
const shrinkRunsMax = 3000

// regressDirs are where scripts of failures are kept, if one of them exists; the last one is made
// if none does.
var regressDirs = []string{filepath.Join("internal", "sim", "testdata", "regress"), filepath.Join("testdata", "regress")}

// readScript reads the script that --script names, if it is set.
func (s *simulation) readScript() error {
	if s.file == "" {
		return nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return err
	}
	s.script, err = script.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", s.file, err)
	}
	s.first, s.last = s.script.Seed, s.script.Seed
	return nil
}

// shrinkFailure makes the run that failed small, and writes its script, if --shrink is set. The
// script takes the place of the seed, so --draw draws the small run. If ctx ends, it keeps the
// smallest script so far.
func (s *simulation) shrinkFailure(ctx context.Context, out io.Writer, play shrink.Play) error {
	if !s.shrink {
		return nil
	}
	if s.failed == nil {
		fmt.Fprintln(out, "No seed failed: there is nothing to make small.")
		return nil
	}
	fmt.Fprintf(out, "\nMaking the run of seed %d small:\n", s.failed.Seed)
	stoppable := func(c *script.Script) (failure string, played *script.Script) {
		if ctx.Err() != nil {
			return "", c
		}
		return play(c)
	}
	best, failure, plays := shrink.Minimize(s.failed.Script, stoppable, shrinkRunsMax, func(what string, plays int) {
		fmt.Fprintf(out, "  run %4d: still fails: %s\n", plays, what)
	})
	if failure == "" {
		return fmt.Errorf("seed %d does not fail again: the run depends on more than its seed", s.failed.Seed)
	}
	best.Comment = failure + "\n"
	file, err := saveScript(best, shrink.CheckOf(failure))
	if err != nil {
		return err
	}
	s.file, s.script, s.single = file, best, nil
	fmt.Fprintf(out, "\nThe smallest script that fails, after %d runs:\n\n%s\nScript: %s\n", plays, best, file)
	if s.draw == "" {
		fmt.Fprintf(out, "  peerage sim --script %s --draw script.html   shows what happens\n", file)
	}
	return nil
}

// saveScript writes a script beside those that a test plays.
func saveScript(s *script.Script, check string) (file string, err error) {
	dir := regressDirs[len(regressDirs)-1]
	for _, d := range regressDirs {
		if info, err := os.Stat(d); err == nil && info.IsDir() {
			dir = d
			break
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	file = filepath.Join(dir, fmt.Sprintf("%s-seed-%d.txt", strings.ReplaceAll(strings.ToLower(check), " ", "-"), s.Seed))
	return file, os.WriteFile(file, []byte(s.String()), 0o666)
}

// config returns the run of a seed, or that of the script.
func (s *simulation) config(seed uint64) sim.Config {
	return sim.Config{Seed: seed, Nodes: s.nodes, Shards: s.shards, Script: s.script}
}

// source returns the flags that play the run of a seed again.
func (s *simulation) source(seed uint64) string {
	if s.script != nil {
		return "--script " + s.file
	}
	flags := fmt.Sprintf("--seed %d", seed)
	if s.nodes > 0 {
		flags += fmt.Sprintf(" --nodes %d", s.nodes)
	}
	if s.shards > 0 {
		flags += fmt.Sprintf(" --shards %d", s.shards)
	}
	return flags
}
