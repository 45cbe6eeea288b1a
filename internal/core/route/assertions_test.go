//go:build invariants || race

package route

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
)

// TestAssertionsOfRoutesCanFail counts bytes of messages that are not there.
func TestAssertionsOfRoutesCanFail(t *testing.T) {
	r := &Route[string]{backlog: &backlog[string]{bytes: 5}}
	assert.MustBreak(t, "S10", func() { r.Filter(func(*Item[string]) bool { return true }) })
}
