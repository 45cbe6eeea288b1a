//go:build planted

package chunks

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsAreCaught: the storms find every planted bug.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, name := range []string{"gaps are accepted", "one acknowledgement confirms all"} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := range uint64(20000) {
					if w := playStorm(seed); w.err != nil {
						return fmt.Sprintf("seed %d: %v", seed, w.err)
					}
				}
				return ""
			})
		})
	}
}
