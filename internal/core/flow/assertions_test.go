//go:build invariants || race

package flow

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfBudgetsCanFail returns more than was taken, and takes from a full pool.
func TestAssertionsOfBudgetsCanFail(t *testing.T) {
	assert.MustBreak(t, "S9", func() { (&Budget{Most: 10}).Give(1) })
	assert.MustBreak(t, "S9", func() { (&Pool{Used: 10, Share: 1, Rest: &Budget{Most: 5}}).Take(0) })
}
