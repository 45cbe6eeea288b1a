//go:build invariants || race

package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
)

// leaderOfThree returns the core of node 1, which leads 2 and 3.
func leaderOfThree(t *testing.T) *Core {
	w := newWorld(t)
	grow(w, 3)
	w.run(time.Second)
	return w.nodes[1].core
}

// without returns the core's view without a member, in an epoch.
func without(c *Core, id gossip.NodeID, epoch gossip.Epoch) *gossip.View {
	next := &gossip.View{Cluster: c.view.Cluster, Epoch: epoch}
	for _, m := range c.view.Members {
		if m.ID != id {
			next.Members = append(next.Members, m)
		}
	}
	return next
}

// TestAssertionsOfViewsCanFail shows each assertion a state in which it does not hold.
func TestAssertionsOfViewsCanFail(t *testing.T) {
	c := leaderOfThree(t)
	o := c.leadership
	assert.MustBreak(t, "S6", func() { o.assertNewer(c.view) })
	assert.MustBreak(t, "S6", func() { o.assertCommit(&proposal{next: without(c, 3, c.view.Epoch+1)}) })
	assert.MustBreak(t, "S6", func() { o.assertLease(o.round, o.now.Add(2*o.cfg.Lease)) })
	o.proposal = &proposal{next: without(c, 3, c.view.Epoch+1)}
	assert.MustBreak(t, "S6", func() { o.proposal.assertGrant(3) })
	assert.MustBreak(t, "G6", func() { o.assertTakeover(without(c, 3, gossip.TakeoverEpoch(o.generation+1))) })
	assert.MustBreak(t, "G2", func() { o.assertTakeover(c.view) })
	es := o.foreign
	es.view.Foreign = []gossip.Contest{{Cluster: 7, Verdict: gossip.VerdictStands}}
	es.met = map[uint64]*encounter{}
	es.met[7] = &encounter{newest: &Encounter{Generation: c.view.Epoch.Generation()}}
	assert.MustBreak(t, "G1", func() { es.assertAbove(without(c, 0, c.view.Epoch)) })
}
