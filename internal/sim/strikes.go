package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/coordinator"
	"github.com/peerage-go/peerage/internal/core/region"
)

// Uniform faults are too rare for the moments that matter. strike aims at the moves of
// shards, aimAtRaise at the moment in which joiners become voters.

// strike hits a move that has just begun a phase, or a census.
// Its coordinator, the old or the new home, or any process crashes, is held, or begins to
// drain.
func (w *world) strike(u *upper, kind string, node nodeID) {
	if !w.swarm.strikes || w.calm || w.cfg.ViewsOnly {
		return
	}
	percent := map[string]int{
		coordinator.TraceHandOff: 6, coordinator.TraceMove: 6, region.TraceStart: 6, region.TraceStop: 6,
		coordinator.TraceOffice: 20, region.TraceCensus: 10,
	}[kind]
	if percent == 0 || !w.faultRand.Chance(percent) {
		return
	}
	victim := u.p
	switch w.faultRand.IntN(3) {
	case 0:
		if q := w.byID[node]; q != nil && q.alive {
			victim = q
		}
	case 1:
		victim = w.anyone()
	}
	w.hit(markStrike)
	w.After(w.faultRand.Duration(0, 8*time.Millisecond), func() {
		if w.calm || !victim.alive {
			return
		}
		switch {
		case w.swarm.crash && w.faultRand.Chance(40):
			w.crashOne(victim)
		case w.swarm.pause && w.faultRand.Chance(40):
			w.pauseFor(victim, w.span())
		case w.swarm.leave:
			w.faultLeaveOf(victim)
		}
	})
}

// aimAtRaise strikes when members are raised to voters, where leases must count both views.
// One old member is cut off from the leader and from the other old members, whose frames
// the leader receives late. A moment later, when the new voters may have accepted, they are
// cut off from the leader, too. The members cut off elect a leader as soon as the other old
// members reach them; by then, the old leader's lease must have expired.
func (w *world) aimAtRaise(from *proc, base, next *gossip.View) {
	if w.calm || !w.swarm.together || !w.faultRand.Chance(60) {
		return
	}
	raised := map[int]bool{}
	var old []int
	for i := range next.Members {
		m := &next.Members[i]
		q := w.byID[m.ID]
		if q == nil || q == from || !m.Status.Votes() {
			continue
		}
		if b := base.Member(m.ID); b == nil || !b.Status.Votes() {
			raised[q.slot] = true
		} else {
			old = append(old, q.slot)
		}
	}
	if len(raised) == 0 || len(old) < 2 {
		return
	}
	w.hit(markRaiseAimed)
	w.event(from, "aimed at a raise", uint64(next.Epoch), nil)
	deaf := old[w.faultRand.IntN(len(old))]
	w.setPath(from.slot, deaf, drop)
	w.setPath(deaf, from.slot, drop)
	late := slices.DeleteFunc(old, func(i int) bool { return i == deaf })
	for _, i := range late {
		w.setPath(i, from.slot, drop)
		w.setPath(i, deaf, drop)
		w.setPath(deaf, i, drop)
	}
	w.After(w.faultRand.Duration(15*time.Millisecond, 80*time.Millisecond), func() {
		for _, i := range slices.Sorted(maps.Keys(raised)) {
			if w.calm {
				return
			}
			w.setPath(from.slot, i, drop)
			w.setPath(i, from.slot, drop)
		}
	})
	l := w.swarm.lease
	w.After(w.faultRand.Duration(l*11/10, l*14/10), func() {
		for _, i := range late {
			if w.calm {
				return
			}
			w.setPath(i, from.slot, open)
			w.setPath(i, deaf, open)
			w.setPath(deaf, i, open)
		}
	})
	w.healIn(w.faultRand.Duration(5*l/2, 4*l))
}

// aimAtRemoval strikes when a leader has committed a view without a living member.
// Before the commit reaches a member, the leader is cut off, and the removed member
// reconnects to the rest. Their next leader finds the view half done, and must not act on
// it before its outcome is decided.
func (w *world) aimAtRemoval(p *proc, former, v *gossip.View) {
	if w.calm || !w.swarm.bursts && w.swarm.aim != aimRemoval || former == nil || !p.member.lease.Leader || former.Cluster != v.Cluster {
		return
	}
	out := slices.ContainsFunc(former.Members, func(m gossip.Member) bool {
		q := w.byID[m.ID]
		return v.Member(m.ID) == nil && q != nil && q.alive && !q.over && !q.member.leaving
	})
	if !out || len(former.Members) < 3 || !w.faultRand.Coin() {
		return
	}
	w.hit(markRemovalAimed)
	w.event(p, "aimed at a removal", uint64(v.Epoch), nil)
	w.openAll()
	w.cutOff(map[int]bool{p.slot: true}, drop, false)
	w.healIn(w.faultRand.Duration(2*w.swarm.lease, 5*w.swarm.lease))
}

// faultDeaf cuts the paths between the leader and one member only.
// The cut lasts long enough for the leader to remove that member.
func (w *world) faultDeaf() {
	for _, p := range w.running() {
		q := w.anyone()
		if p.member.lease.Leader && p.leaseValid() && q != p {
			w.event(p, "deaf", uint64(q.node.ID), nil)
			w.setPath(p.slot, q.slot, drop)
			w.setPath(q.slot, p.slot, drop)
			w.healIn(w.swarm.removeAfter + w.swarm.lease)
			return
		}
	}
}
