package view

import (
	"fmt"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// View returns the newest decided view that this node has learned, nil before it is
// admitted.
func (c *Core) View() *gossip.View { return c.view }

// Lease returns the lease as last granted.
func (c *Core) Lease() Lease { return c.lease }

// Leader returns the leader that this node follows, and whether there is one.
func (c *Core) Leader() (gossip.NodeID, bool) { return c.leader, c.leader != 0 }

// LeaderLease returns the end of the leader lease, 0 when this node does not lead
// or holds none.
func (c *Core) LeaderLease() clock.Instant {
	if c.leadership == nil {
		return 0
	}
	return c.leadership.leaseUntil
}

// Generation returns the highest generation met in any view or attempt.
func (c *Core) Generation() uint32 { return c.generation }

// Over reports whether the incarnation has ended.
func (c *Core) Over() bool { return c.ended }

// State returns the core's present state for operators.
func (c *Core) State() gossip.State {
	s := gossip.State{Part: "joiner", Promised: c.promised, Leader: c.leader, Leaving: c.leaving}
	if c.view == nil {
		return s
	}
	s.Epoch, s.Part, s.Dead = c.view.Epoch, "member", slices.Concat(c.deadMembers())
	if a := c.attempts[c.view.Epoch]; a != nil {
		s.Attempt = a.next.Epoch
	}
	switch {
	case c.leadership != nil:
		s.Part, s.Waiting = "leader", len(c.leadership.joins)+len(c.leadership.leaves)
	case c.candidacy != nil:
		s.Part = "candidate"
	}
	return s
}

// Check returns an error if an invariant does not hold. Tests and simulators call
// it after every step.
func (c *Core) Check() error {
	switch {
	case c.ended:
		if c.lease.Until != 0 {
			return fmt.Errorf("%v holds a lease after its end", c.self())
		}
		return nil
	case c.view == nil:
		if c.lease.Until != 0 || c.leadership != nil || c.candidacy != nil {
			return fmt.Errorf("%v acts without a view", c.self())
		}
		return nil
	}
	return c.checkMember()
}

func (c *Core) checkMember() error {
	me := c.view.Member(c.self())
	switch {
	case me == nil:
		return fmt.Errorf("%v holds view %v without itself", c.self(), c.view.Epoch)
	case me.Status != c.status || me.Joined != c.joined:
		return fmt.Errorf("%v is %v in its view but has status %v", c.self(), me.Status, c.status)
	case c.leadership != nil && c.leadership.ballot.Node != c.self():
		return fmt.Errorf("%v leads with the ballot of %v", c.self(), c.leadership.ballot.Node)
	case c.leadership != nil && c.leadership.ballot.Less(c.promised):
		return fmt.Errorf("%v leads with a ballot below its promise", c.self())
	case c.leadership != nil && c.candidacy != nil:
		return fmt.Errorf("%v leads and is a candidate", c.self())
	case c.generation < c.view.Epoch.Generation():
		return fmt.Errorf("%v has met generation %d, its view is %v", c.self(), c.generation, c.view.Epoch)
	}
	for base := range c.attempts { // order-free: any violation suffices
		if base < c.view.Epoch {
			return fmt.Errorf("%v keeps an attempt on %v in view %v", c.self(), base, c.view.Epoch)
		}
	}
	return nil
}
