//go:build invariants || race

package residency

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/daemon"
)

// TestAssertionsOfResidencyCanFail has a node acknowledge a plan for which workers have not
// ended, and one remove ids of a shard that is not here.
func TestAssertionsOfResidencyCanFail(t *testing.T) {
	r := newPlanRig(t)
	r.plan.plan = planOf(3, 4, true)
	assert.MustBreak(t, "G11", func() { r.plan.assertStopped(daemon.Rev{Term: 1, Seq: 3}) })
	assert.MustBreak(t, "Remembered entities", func() { assertHome(false, &Action{Remove: []string{"a"}}) })
}
