//go:build planted

package statemove

import (
	"fmt"
	"testing"

	"github.com/peerage-go/peerage/internal/planted"
)

// TestThePlantedBugTakesAnyState shows what TestStatesOfALaterTokenStay prevents.
func TestThePlantedBugTakesAnyState(t *testing.T) {
	planted.MustCatch(t, "states are kept for ever", func() string {
		if got := takeOlderState(); got != nil {
			return fmt.Sprintf("the shard starts with %v", got)
		}
		return ""
	})
}
