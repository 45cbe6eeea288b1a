//go:build planted

package standby

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsAreCaught: the checker of the storms finds every planted bug; those that
// take a rare meeting of accidents are caught by the directed runs.
func TestPlantedBugsAreCaught(t *testing.T) {
	for _, name := range []string{
		"no fence", "one copy is enough", "first answer is enough", "older copy replaces newer",
		"announce before filled",
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				for seed := range uint64(2000) {
					if w := storm(seed, rough(3), seed%2 == 1); w.err != nil {
						return fmt.Sprintf("seed %d: %v", seed, w.err)
					}
				}
				return ""
			})
		})
	}
	t.Run("older write replaces newer", func(t *testing.T) {
		planted.MustCatch(t, "older write replaces newer", olderWriteAtHolder)
	})
	for name, run := range map[string]func() *world{
		"former holders not notified": formerHoldersUnaware,
		"old layout alone":            newLayoutBehind,
	} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string {
				if w := run(); w.err != nil {
					return w.err.Error()
				}
				return ""
			})
		})
	}
}
