//go:build invariants || race

package standby

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfStandbysCanFail shows the assertion a version that no standby has.
func TestAssertionsOfStandbysCanFail(t *testing.T) {
	o := still().owner()
	for _, e := range o.entries {
		assert.MustBreak(t, "Replicated state", func() { o.assertKept(e, e.Tag.Version+1) })
		return
	}
	t.Error("no entity")
}
