package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
)

// Processes that decline to coordinate a type (protocol.Elect), modelled after sharding's
// settings.go. A proxy declines. A process that does not run the type declines; some start
// the type later, and keep what they promised before. A process that the last coordinator
// has refused declines too. The model draws refusals per view, without a reason.

// officeOf is a term of a type's coordinators, in one cluster.
type officeOf struct {
	cluster uint64
	term    gossip.Epoch
}

// newCores makes the cores of a type, as the process runs it now.
func (u *upper) newCores() {
	w := u.p.w
	s := &w.swarm
	role, hosts := s.roles[u.spec.role], !u.foreign && s.hosts(u.p.slot, u.spec)
	u.regionView = 0
	u.region = region.New(region.Config{
		Self: u.p.node.ID, Type: u.spec.name, Role: role, Shards: u.spec.shards, Hosts: hosts, Foreign: u.foreign, Mutant: w.cfg.Mutant,
	}, u.floors)
	if u.repl == nil || u.foreign {
		return
	}
	declinedIn := u.declinedIn
	if w.cfg.Mutant.Is("promise to decline forgotten") {
		declinedIn = 0
	}
	u.coord = coordinator.New(coordinator.Config{
		Self: u.p.node.ID, Type: u.spec.name, Role: role, Shards: u.spec.shards, MinMembers: s.minMembers, RemoveAfter: s.removeAfter,
		StopTimeout: stopTimeout, BeginTimeout: s.beginTimeout, Rebalance: s.rebalance, Mutant: w.cfg.Mutant,
		Reluctant: !hosts, DeclinedIn: declinedIn,
	})
}

// registerLate has a process run the type from some moment on, if it is to.
func (u *upper) registerLate() {
	w := u.p.w
	if !u.foreign || !w.swarm.runs(u.p.slot, u.spec) {
		return
	}
	u.p.later(w.declineRand.Duration(0, 2*time.Second), func() {
		u.put(func() {
			v := u.p.layers.view
			if u.p.member.leaving {
				return
			}
			if v != nil && u.declinedIn == v.Epoch {
				w.hit(markPromised)
			}
			w.event(u.p, "registers "+u.spec.name, uint64(u.declinedIn), nil)
			u.foreign = false
			u.path = u.newPath()
			u.newCores()
			if v != nil {
				u.stepRegion(region.ViewChanged{View: v})
				u.stepCoordinator(coordinator.ViewChanged{View: v})
			}
			u.lease(u.p.leaseValid())
		})
	})
}

// declines returns the answer to a node that takes this process for the coordinator.
// The process does not run the type. The answer is nil if the message needs none; the
// promises in it are noted.
func (u *upper) declines(from nodeID, m protocol.Message) *protocol.Declined {
	r, is := m.(*protocol.Register)
	v := u.p.layers.view
	if !is || !u.foreign || u.repl == nil || v == nil {
		return nil
	}
	d := &protocol.Declined{Head: protocol.Head{Type: u.spec.name, View: v.Epoch}, Missing: true}
	if d.Unbound = !protocol.Binds(v, from, r); !d.Unbound {
		u.declinedIn = v.Epoch
	}
	return d
}

// upperViewOf reports a newer view to the cores. Before it, the coordinator core receives
// a drawn answer to whether the last coordinator has refused this process.
func (u *upper) upperViewOf(v *gossip.View) {
	w := u.p.w
	refused := w.declineRand.Chance(w.swarm.refusals)
	u.put(func() {
		u.stepRegion(region.ViewChanged{View: v})
		if w.swarm.refusals > 0 {
			u.stepCoordinator(coordinator.Standing{Refused: refused})
		}
		u.stepCoordinator(coordinator.ViewChanged{View: v})
	})
}

// checkOffice checks that a term has one holder, whichever processes declined.
func (w *world) checkOffice(u *upper, term gossip.Epoch) {
	v := u.p.layers.view
	if v == nil || w.swarm.wrongEvidence || w.driftBroken {
		return
	}
	offices, office := w.types[u.number].offices, officeOf{v.Cluster, term}
	if other, taken := offices[office]; taken && other != u.p.node.ID {
		w.fail("S7", "%s takes the office of %s in term %v, which %s has", u.p.label, u.spec.name, term, w.name(other))
	}
	offices[office] = u.p.node.ID
}
