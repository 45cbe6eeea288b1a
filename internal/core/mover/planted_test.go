//go:build planted

package mover

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestThePlantedBugTakesStatesOfUndoneMoves shows what TestStatesOfAnUndoneMoveStartNothing
// prevents.
func TestThePlantedBugTakesStatesOfUndoneMoves(t *testing.T) {
	planted.MustCatch(t, "states of undone moves", func() string {
		if got := takeUndone(); got != nil {
			return fmt.Sprintf("the shard starts with %v", got)
		}
		return ""
	})
}

// TestThePlantedBugTakesAnyState shows what TestStatesStartALaterAllocationThanTheirs prevents.
func TestThePlantedBugTakesAnyState(t *testing.T) {
	planted.MustCatch(t, "states are kept for ever", func() string {
		if got := takeFromLater(older); got != nil {
			return fmt.Sprintf("the shard starts with %v", got)
		}
		return ""
	})
}
