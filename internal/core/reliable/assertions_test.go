//go:build invariants || race

package reliable

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfReliableMessagesCanFail runs a message twice, and one before another.
func TestAssertionsOfReliableMessagesCanFail(t *testing.T) {
	var m Memory
	m.Ran("a", Stamp{Producer: 7, Seq: 3}, false)
	assert.MustBreak(t, "S2", func() { m.Ran("a", Stamp{Producer: 7, Seq: 3}, false) })
	assert.MustBreak(t, "S3", func() { m.Ran("a", Stamp{Producer: 7, Seq: 5, Prev: 4}, false) })
}
