//go:build planted

package residency

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsAreCaught plants bugs that the random worlds must find.
func TestPlantedBugsAreCaught(t *testing.T) {
	for name, from := range map[string]source{ // order-free: each is played by itself
		"removed ids are forgotten during a read":   remembered,
		"starts return their turns":                 remembered,
		"crashed entities are left":                 remembered,
		"running workers are acknowledged as ended": byPlan,
		"the plan is read before the announcement":  byPlan,
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := range uint64(3000) {
					if wrong, _ := play(seed, from); wrong != "" {
						return fmt.Sprintf("seed %d: %.120s", seed, wrong)
					}
				}
				return ""
			})
		})
	}
}
