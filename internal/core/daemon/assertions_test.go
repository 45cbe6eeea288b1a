//go:build invariants || race

package daemon

import (
	"math"
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfPlansCanFail has the number of plans overflow.
func TestAssertionsOfPlansCanFail(t *testing.T) {
	s := &State{Plan: Plan{Rev: Rev{Term: 1, Seq: math.MaxUint64}, Workers: 3}}
	assert.MustBreak(t, "G11", func() { Next(s, 1, 3, Members{}) })
}
