package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// aimedFaults strike at the moments that matter, for which uniform faults are too rare: when a
// view is proposed or committed, when joiners become voters, and when a shard moves.
type aimedFaults struct {
	run    *run.Run
	rand   *virtual.Rand
	hosts  *hosts
	net    *network.Network
	faults *faults
}

// onProposal strikes when a leader proposes a view.
func (a *aimedFaults) onProposal(from *node, base, next *gossip.View) {
	a.burst(from, next)
	a.hitRaise(from, base, next)
}

// burst cuts off or pauses some members, and kills some shortly after.
func (a *aimedFaults) burst(from *node, next *gossip.View) {
	s := &a.run.Config
	if a.run.Calm || !s.Bursts || !a.rand.Chance(40) || !a.run.Strikes("burst at a proposal") {
		return
	}
	a.run.Hit(coverage.Burst)
	from.p.Event("burst", uint64(next.Epoch), nil)
	side := a.faults.drawSide(a.rand.IntN(len(a.hosts.all)))
	start := a.rand.Duration(0, 3*time.Millisecond)
	pause := s.Pause && a.rand.Coin()
	oneWay := s.OneWay && a.rand.Coin()
	lasts := a.faults.drawSpan()
	a.run.After(start, func() {
		if a.run.Calm {
			return
		}
		if !pause {
			a.net.CutOff(side, network.Drop, oneWay)
			a.faults.healIn(lasts)
			return
		}
		for _, n := range a.hosts.running() {
			if side[n.p.Slot] {
				a.faults.pauseFor(n, lasts)
			}
		}
	})
	if !s.Crash {
		return
	}
	kill := a.rand.Duration(5*time.Millisecond, s.Lease*3/2)
	a.run.After(start+kill, func() {
		for i := range a.hosts.all {
			if n := a.hosts.all[i].node; !a.run.Calm && !side[i] && n != nil && a.rand.Chance(60) {
				a.faults.crash(n)
			}
		}
	})
}

// hitRaise strikes when members are raised to voters, where leases must count both views.
// One old member is cut off from the leader and from the other old members, whose frames
// the leader receives late. A moment later, when the new voters may have accepted, they are
// cut off from the leader, too. The members cut off elect a leader as soon as the other old
// members reach them; by then, the old leader's lease must have expired.
func (a *aimedFaults) hitRaise(from *node, base, next *gossip.View) {
	if a.run.Calm || !a.run.Config.Together || !a.rand.Chance(60) {
		return
	}
	raised, old := a.votersIn(from, base, next)
	if len(raised) == 0 || len(old) < 2 || !a.run.Strikes("cuts at a raise") {
		return
	}
	a.run.Hit(coverage.RaiseAimed)
	from.p.Event("aimed at a raise", uint64(next.Epoch), nil)
	leader, deaf := from.p.Slot, old[a.rand.IntN(len(old))]
	a.net.SetBoth(leader, deaf, network.Drop)
	late := slices.DeleteFunc(old, func(i int) bool { return i == deaf })
	setLate := func(to network.Block) {
		for _, i := range late {
			if a.run.Calm {
				return
			}
			a.net.SetPath(i, leader, to)
			a.net.SetBoth(i, deaf, to)
		}
	}
	setLate(network.Drop)
	a.run.After(a.rand.Duration(15*time.Millisecond, 80*time.Millisecond), func() {
		for _, i := range slices.Sorted(maps.Keys(raised)) {
			if a.run.Calm {
				return
			}
			a.net.SetBoth(leader, i, network.Drop)
		}
	})
	l := a.run.Config.Lease
	a.run.After(a.rand.Duration(l*11/10, l*14/10), func() { setLate(network.Open) })
	a.faults.healIn(a.rand.Duration(5*l/2, 4*l))
}

// votersIn returns the hosts of the members that next raises to voters, and those of the voters
// of base that stay, without the leader.
func (a *aimedFaults) votersIn(leader *node, base, next *gossip.View) (raised map[int]bool, old []int) {
	raised = map[int]bool{}
	for i := range next.Members {
		m := &next.Members[i]
		n := a.hosts.byID[m.ID]
		if n == nil || n == leader || !m.Status.Votes() {
			continue
		}
		if b := base.Member(m.ID); b == nil || !b.Status.Votes() {
			raised[n.p.Slot] = true
		} else {
			old = append(old, n.p.Slot)
		}
	}
	return raised, old
}

// onCommit strikes when a leader has committed a view without a living member.
// Before the commit reaches a member, the leader is cut off, and the removed member
// reconnects to the rest. Their next leader finds the view half done, and must not act on
// it before its outcome is decided.
func (a *aimedFaults) onCommit(at *node, former, v *gossip.View) {
	s := &a.run.Config
	if a.run.Calm || !s.Bursts && s.Aim != seed.AimRemoval || former == nil || !at.member.Lease().Leader || former.Cluster != v.Cluster {
		return
	}
	out := slices.ContainsFunc(former.Members, func(m gossip.Member) bool {
		n := a.hosts.byID[m.ID]
		return v.Member(m.ID) == nil && n != nil && n.p.Active() && !n.member.Leaving()
	})
	if !out || len(former.Members) < 3 || !a.rand.Coin() || !a.run.Strikes("cuts at a removal") {
		return
	}
	a.run.Hit(coverage.RemovalAimed)
	at.p.Event("aimed at a removal", uint64(v.Epoch), nil)
	a.net.OpenAll()
	a.net.CutOff(map[int]bool{at.p.Slot: true}, network.Drop, false)
	a.faults.healIn(a.rand.Duration(2*s.Lease, 5*s.Lease))
}

// onCoreTrace hits a move that has just begun a phase, or a census.
// Its coordinator, the old or the new home, or any process crashes, is held, or begins to
// drain.
func (a *aimedFaults) onCoreTrace(p *process.Process, kind string, about nodeID) {
	s := &a.run.Config
	if !s.Strikes || a.run.Calm {
		return
	}
	percent := map[string]int{
		coordinator.TraceHandOff: 6, coordinator.TraceMove: 6, region.TraceStart: 6, region.TraceStop: 6,
		coordinator.TraceOffice: 20, region.TraceCensus: 10,
	}[kind]
	if percent == 0 || !a.rand.Chance(percent) || !a.run.Strikes("strike at: "+kind) {
		return
	}
	victim := a.hosts.byID[p.ID()]
	switch a.rand.IntN(3) {
	case 0:
		if n := a.hosts.byID[about]; n != nil && n.p.Thread.Alive() {
			victim = n
		}
	case 1:
		victim = a.faults.drawNode()
	}
	a.run.Hit(coverage.Strike)
	a.run.After(a.rand.Duration(0, 8*time.Millisecond), func() {
		if a.run.Calm || !victim.p.Thread.Alive() {
			return
		}
		switch {
		case s.Crash && a.rand.Chance(40):
			a.faults.crash(victim)
		case s.Pause && a.rand.Chance(40):
			a.faults.pauseFor(victim, a.faults.drawSpan())
		case s.Leave:
			a.faults.makeLeave(victim)
		}
	})
}
