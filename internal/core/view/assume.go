package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// AssumeCrash: a node that has held no lease for After assumes that members have crashed
// if they were silent for as long and it has no link with them. From then on they count
// as certainly dead: they are not asked, and a total quorum does not need them. The
// window of other proofs (inWindow) does not apply: it prevents a part from continuing
// beside a majority, which this policy accepts.

// silence records when each member last gave a sign of life, only for AssumeCrash.
type silence struct {
	after time.Duration
	// since is when this node was first in a view.
	since clock.Instant
	// lastSign is the time of a member's last sign of life, or when this node met it.
	lastSign map[gossip.NodeID]clock.Instant
}

func newSilence(p gossip.Policy) *silence {
	if a, ok := p.(gossip.AssumeCrash); ok {
		return &silence{after: a.After, lastSign: map[gossip.NodeID]clock.Instant{}}
	}
	return nil
}

// signOfLife records a sign of life of a peer and withdraws the assumption of its crash.
func (c *Core) signOfLife(id gossip.NodeID) {
	if c.silence == nil {
		return
	}
	if c.view.Member(id) != nil {
		c.silence.lastSign[id] = c.now
	}
	if p := c.proofs[id]; p != nil && p.assumed {
		delete(c.proofs, id)
		c.traceEvent("not dead after all", id, "")
	}
}

// meetMembers starts the silence timers for members of a new view.
func (c *Core) meetMembers(v *gossip.View) {
	if c.silence == nil {
		return
	}
	if c.silence.since == 0 {
		c.silence.since = c.now
	}
	heard := make(map[gossip.NodeID]clock.Instant, len(v.Members))
	for i := range v.Members {
		id := v.Members[i].ID
		if heard[id] = c.silence.lastSign[id]; heard[id] == 0 {
			heard[id] = c.now
		}
	}
	c.silence.lastSign = heard
}

// servedAt is when this node was last granted a lease. Pings are not enough: a leader
// that gathers no quorum sends them as well.
func (c *Core) servedAt() clock.Instant { return max(c.holder.grantedAt, c.silence.since) }

// assumes reports whether silence now counts as death.
func (c *Core) assumes() bool {
	return c.silence != nil && c.votes() && !c.holder.lease.Valid(c.now) && !c.now.Before(c.servedAt().Add(c.silence.after))
}

// driveAssume assumes that silent members are dead.
func (c *Core) driveAssume() bool {
	if !c.assumes() {
		return false
	}
	moved := false
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; c.assumable(id) && !c.now.Before(c.silence.lastSign[id].Add(c.silence.after)) {
			c.proveDead(id, &proof{at: c.now, reason: "assumed: silent for " + c.silence.after.String(), certain: true, assumed: true})
			moved = true
		}
	}
	return moved
}

// assumable reports whether a member may be assumed dead.
func (c *Core) assumable(id gossip.NodeID) bool {
	p := c.proofs[id]
	return id != c.self() && !c.links[id] && (p == nil || !p.certain)
}

// assumeAt returns when driveAssume next has something to do.
func (c *Core) assumeAt() clock.Instant {
	if c.silence == nil || !c.votes() {
		return clock.Never
	}
	d := clock.Never
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; c.assumable(id) {
			d = clock.Min(d, c.silence.lastSign[id].Add(c.silence.after))
		}
	}
	if d == clock.Never {
		return d
	}
	return max(d, c.servedAt().Add(c.silence.after), c.holder.lease.Until)
}
