package membership

import (
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
)

// checkDecided asks, when a view is published for the first time, whether a plain
// quorum of the view before it and one of itself accepted it, or, for a new
// generation, whether all that did not accept were dead.
func (j *Judge) checkDecided(d *Driver, v *gossip.View) {
	key := lineageEpochOf(v)
	if j.checked[key] {
		return
	}
	j.checked[key] = true
	if d.former == nil || d.former.Cluster != v.Cluster {
		if len(v.Members) == 1 {
			return // a new cluster
		}
	} else if j.decidedAlone(d, d.former, v) {
		return
	}
	between := slices.Clone(j.attempts.byEpoch[v.Epoch-1])
	if d.former != nil {
		between = append(between, j.attempts.byEpoch[d.former.Epoch+1]...) // a takeover from it
	}
	for _, a := range between {
		// Two steps in one: the view between them was never published.
		if j.isRightful(a) && j.decidedAlone(d, a.next, v) {
			return
		}
	}
	for _, a := range j.attempts.byEpoch[v.Epoch] {
		if invariant.SameView(a.next, v) && j.isRightful(a) {
			j.countDecision(a)
			return
		}
	}
	j.run.Fail("S6", "%s publishes %s without a quorum: %s", d.p.Label, j.run.Names.View(v), j.attempts.describeAt(&j.run.Names, v.Epoch))
}

func lineageEpochOf(v *gossip.View) lineageEpoch {
	key := lineageEpoch{cluster: v.Cluster, epoch: v.Epoch}
	if n := len(v.Forks); n > 0 {
		key.fork = v.Forks[n-1]
	}
	return key
}

// noteUnpublished takes note of the base of a proposal that its leader decided alone, and two
// views in one step: it publishes the second only. A member may hold the first.
func (j *Judge) noteUnpublished(leader *Driver, base *gossip.View) {
	held, before := leader.view, leader.before
	if held != nil && before != nil && before.Epoch < base.Epoch && base.Epoch < held.Epoch &&
		before.Cluster == base.Cluster && j.decidedAlone(leader, before, base) {
		j.checked[lineageEpochOf(base)] = true
	}
}

// decidedAlone reports whether the leader is a quorum by itself, so that it needs
// no acceptance.
func (j *Judge) decidedAlone(d *Driver, base, v *gossip.View) bool {
	a := &attempt{leader: d.p.ID(), base: base, next: v, acks: map[gossip.NodeID]bool{d.p.ID(): true}}
	if !j.isRightful(a) {
		return false
	}
	j.countDecision(a)
	return true
}

// isRightful reports whether an attempt is decided: plain quorums of its base and of itself
// accepted it, or those that did not are all dead.
func (j *Judge) isRightful(a *attempt) bool {
	acked := func(id gossip.NodeID) bool { return a.acks[id] }
	inBase, inNext := j.isQuorum(a.base, acked), j.isQuorum(a.next, acked)
	if inBase && inNext {
		return true
	}
	if j.run.Parts() && j.isTakeover(a) {
		return true
	}
	// A total quorum opens a generation: no epoch, term or token of the dead is ever
	// used again.
	return (inBase || j.restDead(a.base, acked)) && (inNext || j.restDead(a.next, acked)) &&
		a.next.Epoch.Generation() > a.base.Epoch.Generation() && j.inTime(a) && invariant.Survives(j.run.Config.Policy, a.base, acked)
}

// isTakeover reports whether an attempt opens a generation and a lineage, and all its members
// have accepted it. In runs that may part a cluster, members that it leaves out may live. A leader that is
// alone since a takeover decides further views in the same step, of which only the last is
// published.
func (j *Judge) isTakeover(a *attempt) bool {
	for i := range a.next.Members {
		if !a.acks[a.next.Members[i].ID] {
			return false
		}
	}
	if len(a.next.Forks) == 0 || a.next.Epoch.Generation() <= a.base.Epoch.Generation() {
		return false
	}
	fork := a.next.Forks[len(a.next.Forks)-1].To
	return fork == a.next.Epoch || len(a.next.Members) == 1 && fork > a.base.Epoch
}

// isQuorum reports whether nodes are a quorum by the run's partition policy.
func (j *Judge) isQuorum(v *gossip.View, has func(gossip.NodeID) bool) bool {
	return invariant.Quorum(j.run.Config.Policy, v, has)
}

// inTime reports whether a takeover's proofs came before its leader could have been removed: those of
// the members that it rests on. The leader must have requested its newest grant before its lease ended.
func (j *Judge) inTime(a *attempt) bool {
	d := j.drivers[a.leader]
	if d == nil {
		return true
	}
	removable := d.p.Clock.When(d.lease.was).Add(j.run.Config.Lease)
	for _, v := range []*gossip.View{a.base, a.next} {
		for i := range v.Members {
			id := v.Members[i].ID
			if x := d.links.peers[id]; x != nil && !a.acks[id] && x.certainAt > removable {
				return false
			}
		}
	}
	return true
}

// restDead reports whether every member that did not accept is dead.
func (j *Judge) restDead(v *gossip.View, acked func(gossip.NodeID) bool) bool {
	for i := range v.Members {
		id := v.Members[i].ID
		if d := j.drivers[id]; !acked(id) && d != nil && d.p.Active() {
			return false
		}
	}
	return j.run.Config.Evidence == gossip.EvidenceFull
}

// countDecision marks what is rare about a decided attempt.
func (j *Judge) countDecision(a *attempt) {
	if a.base.Epoch.Generation() != a.next.Epoch.Generation() {
		j.run.Hit(coverage.Emergency)
		if len(a.next.Members) == 1 && len(a.base.Members) > 1 {
			j.run.Hit(coverage.SoleSurvivor)
		}
	}
	voters, acks := 0, 0
	for i := range a.base.Members {
		if !a.base.Members[i].Status.Votes() {
			continue
		}
		voters++
		if a.acks[a.base.Members[i].ID] {
			acks++
		}
	}
	if 2*acks == voters {
		j.run.Hit(coverage.HalfQuorum)
	}
}

// CanContinue reports whether nodes can go on by themselves: they are a quorum of the newest
// view, and of each attempt beyond it that any member may have accepted.
func (j *Judge) CanContinue(has func(gossip.NodeID) bool) bool {
	for e, attempts := range j.attempts.byEpoch {
		for _, a := range attempts {
			if e > j.newest.Epoch && !j.isQuorum(a.next, has) {
				return false
			}
		}
	}
	return j.isQuorum(j.newest, has)
}
