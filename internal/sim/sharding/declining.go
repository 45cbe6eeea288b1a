package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/coverage"
)

// Processes that decline to coordinate a type (protocol.Elect), modelled after
// internal/placement. A proxy declines. A process that does not run the type declines; some
// start the type later, and keep what they promised before. A process that the last coordinator
// has refused declines too. The model draws refusals per view, without a reason.

// registerLate has a process run the type from some moment on, if it is one of the late.
func (c *cores) registerLate() {
	m, r := c.m, c.m.run
	if !c.foreign || !r.Config.Runs(m.p.Slot, m.spec) {
		return
	}
	m.p.Later(r.Rand.Decline.Duration(0, 2*time.Second), func() {
		c.put(func() {
			v := m.site.view
			if m.site.member.Leaving() {
				return
			}
			if v != nil && c.declinedIn == v.Epoch {
				r.Hit(coverage.Promised)
			}
			m.p.Event("registers "+m.spec.Name, uint64(c.declinedIn), nil)
			c.foreign = false
			c.onRegister()
			c.create()
			if v != nil {
				c.stepRegion(region.ViewChanged{View: v})
				c.stepCoordinator(coordinator.ViewChanged{View: v})
			}
			c.setLease(m.site.member.LeaseReported())
		})
	})
}

// decline returns the answer to a node that takes this process for the coordinator.
// The process does not run the type. The answer is nil if the message needs none; the
// promises in it are noted.
func (c *cores) decline(from gossip.NodeID, m protocol.Message) *protocol.Declined {
	r, is := m.(*protocol.Register)
	v := c.m.site.view
	if !is || !c.foreign || c.records == nil || v == nil {
		return nil
	}
	d := protocol.DeclineMissing(v, from, r)
	if !d.Unbound {
		c.declinedIn = v.Epoch
	}
	return d
}
