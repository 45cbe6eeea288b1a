package peerage_test

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage"
)

// The coordinators count a member's silence by the RemoveAfter in effect, which grows with
// Members. With the setting itself, zero here, their default of 2 s would apply.
func TestCoordinatorsUseTheScaledRemoveAfter(t *testing.T) {
	inBubble(t, 0, func(c *cluster) {
		large := c.addWith(0, func(c *peerage.Config) {
			c.Members, c.Ping, c.Lease, c.RemoveAfter = 1000, 0, 0, 0
		}, nil)
		c.ready(large)
		if got := large.CoordinatorRemoveAfter(); got != 10*time.Second {
			t.Errorf("coordinators count silence by %v, want 10s", got)
		}
	})
}
