//go:build planted

package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestPlantedBugsOfMovesAreCaught shows what TestResumesMovesOfTokensOfFormerGenerations
// prevents: a state that is dropped, and one that is resumed although it may be stale.
func TestPlantedBugsOfMovesAreCaught(t *testing.T) {
	for _, name := range []string{"states judged by their tokens", "states of lost generations", "states of earlier allocations"} {
		t.Run(name, func(t *testing.T) {
			planted.MustCatch(t, name, func() string { return resumedWrongly(t) })
		})
	}
}
