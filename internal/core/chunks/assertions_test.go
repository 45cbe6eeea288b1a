//go:build invariants || race

package chunks

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfSendersCanFail adds a chunk beyond the window.
func TestAssertionsOfSendersCanFail(t *testing.T) {
	s := newTestSender(1)
	s.Add("x")
	assert.MustBreak(t, "S9", func() { s.Add("y") })
}
