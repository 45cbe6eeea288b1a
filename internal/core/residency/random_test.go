package residency

import "testing"

// seedsPerSource is the number of seeds that TestEntitiesRunAtTheirHomes plays of each source.
const seedsPerSource = 100

// TestEntitiesRunAtTheirHomes plays random worlds of each source. Under all faults, no entity
// that has passivated itself starts again in its allocation, starts are bounded, and all workers
// that run have one number (G11). After the faults each entity that must run does so at its
// home, and no other entity runs.
func TestEntitiesRunAtTheirHomes(t *testing.T) {
	for from, name := range []string{"always on", "by plan", "remembered", "crowded"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starts := 0
			for seed := range uint64(seedsPerSource) {
				wrong, n := play(seed, source(from))
				if wrong != "" {
					t.Fatalf("seed %d: %s", seed, wrong)
				}
				starts += n
			}
			if starts < 40*seedsPerSource {
				t.Errorf("only %d starts in all: the test shows little", starts)
			}
		})
	}
}
