//go:build invariants || race

package replication

import (
	"testing"

	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/replicator"
)

// TestAssertionsOfReplicasCanFail shows each assertion a state in which it does not hold.
func TestAssertionsOfReplicasCanFail(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	c := w.nodes[1].core
	unanswered := &request{level: majority}
	assert.MustBreak(t, "S4", func() { c.table.completeRequest(w.now, unanswered) })
	c.table.cfg.LeaseValid = func() bool { return false }
	assert.MustBreak(t, "G7", func() { c.table.assertFulfilled(&request{level: replicator.Local}) })
	c.fences.raise(replicator.Fence{Group: "g", Term: 7})
	assert.MustBreak(t, "G2", func() { c.fences.assertPasses(replicator.Fence{Group: "g", Term: 5}) })
	assert.MustBreak(t, "S5", func() { c.pruner.assertAllAnswered(&pruning{}) })
	assert.MustBreak(t, "G8", func() { (&item{gen: 1}).assertAbove(2, 0) })
}
