//go:build planted

package reliable

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsAreCaught plants bugs that the model must find.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, name := range []string{
		"duplicates run", "gaps run", "floor ignored", "memory stays behind",
		"floor above the unconfirmed", "nothing sent again", "numbers used twice", "each for itself",
		"the dead confirm",
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := range uint64(3000) {
					if wrong := playSeed(t, seed); wrong != "" {
						return fmt.Sprintf("seed %d: %.120s", seed, wrong)
					}
				}
				return ""
			})
		})
	}
}
