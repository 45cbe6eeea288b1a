package sim

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/peerage-go/peerage/internal/sim/script"
)

// regressSeeds is how many seeds of each script are played beside its own: a change of the cores
// shifts the schedule of a run, and the failure may come back with another seed.
const regressSeeds = 10

// TestRegressions plays the scripts under testdata/regress: each is a run that failed with a bug,
// made small by `peerage sim --shrink`. All checks hold now, also with the seeds that follow.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "regress", "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := script.Parse(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for range regressSeeds {
				if r := Run(Config{Script: s}); r.Failure != nil {
					t.Error(r.Failure)
				} else if r.Nodes != s.Config.Nodes || r.Seed != s.Seed || r.Delivered == 0 {
					t.Errorf("played seed %d with %d nodes, %d messages; the script is\n%s", r.Seed, r.Nodes, r.Delivered, s)
				}
				s.Seed, s.Faults = s.Seed+1, nil
			}
		})
	}
}

// The script of a run plays the same run, without the seed's draw.
func TestAScriptPlaysTheSameRun(t *testing.T) {
	for seed := range uint64(25) {
		drawn := Run(Config{Seed: seed})
		s, err := script.Parse(drawn.Script.String())
		if err != nil {
			t.Fatal(err)
		}
		if again := Run(Config{Script: s}); again.Hash != drawn.Hash || again.Events != drawn.Events {
			t.Errorf("seed %d: %d events with hash %016x, as a script %d with %016x", seed, drawn.Events, drawn.Hash, again.Events, again.Hash)
		}
	}
}
