//go:build planted

package coordinator_test

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsAreCaught plants one bug at a time: the checkers count only because
// they find each of them, from outside the cores.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, name := range []string{
		"HostShard before the ack",
		"takeover without census",
		"Stopped forgotten in the census",
		"ShardStopped matched without token",
		"no term check",
		"no token check",
		"Stopped without a floor",
		"marker left out of Begin",
		"declined for good",
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := uint64(1); seed <= 10000; seed++ {
					p := draw(seed)
					p.outside = true
					w := runPlan(seed, p, false)
					if w.check.err == nil {
						p = draw(seed) // a plan's strategy has state
						p.outside = true
						w = runCalm(seed, p, false)
					}
					if w.check.err != nil {
						return fmt.Sprintf("seed %d: %v", seed, w.check.err)
					}
				}
				return ""
			})
		})
	}
}
