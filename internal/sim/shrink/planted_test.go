//go:build planted

package shrink

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
	"github.com/peerage-go/peerage/internal/sim"
	"github.com/peerage-go/peerage/internal/sim/script"
)

// seedsMax is within how many seeds the bug must fail a run.
const seedsMax = 2000

// findFailure plays seeds until one fails after several faults.
func findFailure(from uint64) *sim.Result {
	for n := range uint64(seedsMax) {
		if r := sim.Run(sim.Config{Seed: from + n, Brief: true}); r.Failure != nil && len(r.Script.Faults) >= 3 {
			return &r
		}
	}
	return nil
}

// A seed fails with a planted bug: the smallest script still fails, in the same check, and passes
// without the bug. The script that the tree keeps shows the bug, too, with one of its next seeds.
func TestAPlantedBugIsShrunk(t *testing.T) {
	const bug = "marker left out of Begin"
	planted.MustCatch(t, bug, func() string {
		found := findFailure(276)
		if found == nil {
			return ""
		}
		best, failure, plays := Minimize(found.Script, PlaySim, 3000, func(what string, plays int) { t.Logf("%4d runs: %s", plays, what) })
		from, to := &found.Script.Config, &best.Config
		// How many nodes a failure needs is up to the run that was found.
		if CheckOf(failure) != CheckOf(found.Failure.What) || to.Nodes > from.Nodes || to.Duration > from.Duration/2 || 2*len(best.Faults) > len(found.Script.Faults) {
			t.Errorf("%s\nis shrunk to\n%s\n%s", found.Script, best, failure)
		}
		planted.Without(func() {
			if failure, _ := PlaySim(best); failure != "" {
				t.Errorf("fails without the bug: %s", failure)
			}
		})
		t.Logf("%s\n%s", failure, best)
		expectFailure(t, filepath.Join("..", "testdata", "regress", "marker-left-out-of-begin.txt"))
		return fmt.Sprintf("%s; %d runs from %d nodes to %d", failure, plays, from.Nodes, to.Nodes)
	})
}

// expectFailure plays a script, then its configuration with the next seeds, until the check fails
// that its comment names.
func expectFailure(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := script.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for range seedsMax {
		if failure, _ := PlaySim(kept); failure != "" && strings.Contains(kept.Comment, CheckOf(failure)+": ") {
			return
		}
		kept.Seed, kept.Faults = kept.Seed+1, nil
	}
	t.Errorf("%s: none of %d seeds fails", file, seedsMax)
}
