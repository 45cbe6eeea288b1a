package sim

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/record"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/trace"
)

// ending asks for liveness at the end of a run, the hard way: a random quorum is
// healed and the rest stays as broken as it is. "Heal everything, then look"
// hides livelocks.
type ending struct {
	run   *run.Run
	hosts *hosts
	net   *network.Network
	judge *membership.Judge
	// meet connects the sides of a run whose hosts start apart.
	meet func()
	// checkLayers asks the layers above for liveness on the hosts in a set.
	checkLayers func(q map[int]bool)
}

const (
	healBound     = 20 * time.Second
	survivorBound = 1500 * time.Millisecond
)

// playEnding ends the faults and asks for liveness.
func (e *ending) playEnding() {
	e.hosts.keepEmpty()
	if e.run.Config.Orderly {
		e.awaitLeaving()
	}
	switch e.run.Config.Ending {
	case seed.EndQuorum:
		if q := e.drawQuorum(); q != nil {
			e.healQuorum(q)
			return
		}
		e.healAll()
	case seed.EndSurvivor:
		e.healAll()
		if !e.run.Config.DriftBeyond {
			e.killAllButOne()
		}
	default:
		e.healAll()
	}
}

// awaitLeaving lets those that leave do so in order: to end them before would be no plan.
// Some never can: where no death counts as proven, the last two that leave may part
// without a quorum.
func (e *ending) awaitLeaving() {
	leaves := func(n *node) bool { return n.member.Leaving() && !n.p.Removed() }
	e.run.UntilTrue(e.run.Config.DrainPatience()+membership.ReformAfter, 20*time.Millisecond, func() bool { return !slices.ContainsFunc(e.hosts.running(), leaves) })
}

// drawQuorum picks hosts whose processes are a plain quorum of the newest view,
// and of each attempt beyond it that a process may have accepted; nil if the living
// are none.
func (e *ending) drawQuorum() map[int]bool {
	newest, rand := e.judge.Newest(), e.run.Rand.Fault
	if newest == nil || e.run.Config.WrongEvidence {
		return nil
	}
	in := map[int]bool{}
	for _, n := range e.hosts.running() {
		if m := newest.Member(n.p.ID()); m != nil && m.Status == gossip.Up && !n.p.Removed() && !n.member.Leaving() {
			in[n.p.Slot] = true
		}
	}
	if !e.isEnough(in) {
		return nil
	}
	for _, slot := range rand.Perm(len(e.hosts.all)) {
		if in[slot] && rand.Coin() {
			delete(in, slot)
			if !e.isEnough(in) {
				in[slot] = true
			}
		}
	}
	return in
}

// isEnough reports whether the processes on these hosts can go on by themselves. If none of
// them holds the newest view, a quorum of it also needs a quorum of the view before.
func (e *ending) isEnough(in map[int]bool) bool {
	has := func(id nodeID) bool {
		n := e.hosts.byID[id]
		return n != nil && n.p.Active() && in[n.p.Slot]
	}
	holds := func(n *node) bool {
		v, newest := n.member.View(), e.judge.Newest()
		return in[n.p.Slot] && v != nil && v.Epoch == newest.Epoch && v.Cluster == newest.Cluster
	}
	return e.judge.CanContinue(has) && slices.ContainsFunc(e.hosts.running(), holds)
}

// heal mends the hosts in q among each other and cuts them off from the rest.
func (e *ending) heal(q map[int]bool) {
	e.net.CutOff(q, network.Drop, false)
	for i := range e.hosts.all {
		if !q[i] {
			continue
		}
		at := &e.hosts.all[i]
		at.stay = false
		for j := range e.hosts.all {
			if q[j] {
				e.net.SetPath(i, j, network.Open)
			}
		}
		if n := at.node; n != nil {
			n.p.Thread.SetCost(0)
			e.run.Record.End(record.Slow, i, "", "quick again")
			n.resume()
		}
	}
}

// healQuorum heals a quorum, which must act; the rest must hold no lease.
func (e *ending) healQuorum(q map[int]bool) {
	e.run.Hit(coverage.QuorumLost)
	e.run.Event("", "quorum healed", uint64(len(q)), nil)
	cut, lease := e.run.Now(), e.run.Config.Lease
	e.heal(q)
	e.run.Until(cut.Add(lease + 2*e.run.Drift(lease) + time.Millisecond))
	for _, n := range e.hosts.running() {
		if !q[n.p.Slot] && n.member.LeaseValid() && !e.run.Config.DriftBeyond && !e.run.Config.Freeze {
			e.run.Fail("L5", "%s still holds a lease %v after it was cut off from the quorum", n.p.Label, e.run.Now().Sub(cut))
		}
	}
	if !e.run.UntilTrue(healBound, 50*time.Millisecond, func() bool { return e.isWhole(q) }) {
		if !e.isEnough(q) {
			// A leader made a proposal after the cut, from messages received before it: that
			// view, or the one before it, needs members that are now cut off.
			e.run.Event("", "quorum overtaken", 0, nil)
			e.healAll()
			return
		}
		e.run.Fail("L6", "the healed quorum %v does not act within %v", e.labels(q), healBound)
	}
	e.noteSettled("quorum", e.run.Now().Sub(cut))
	e.run.Hit(coverage.QuorumRegained)
	e.checkLayers(q)
}

// isWhole reports whether exactly the hosts in q hold one view of exactly
// themselves, all up, with leases.
func (e *ending) isWhole(q map[int]bool) bool {
	var v *gossip.View
	for i := range e.hosts.all {
		if !q[i] {
			continue
		}
		n := e.hosts.all[i].node
		if n == nil || n.p.Removed() || !n.member.LeaseValid() {
			return false
		}
		held := n.member.View()
		if v == nil {
			v = held
		}
		if held == nil || held.Epoch != v.Epoch || held.Cluster != v.Cluster {
			return false
		}
		if m := v.Member(n.p.ID()); m == nil || m.Status == gossip.Joining {
			return false
		}
	}
	return v != nil && len(v.Members) == len(q)
}

func (e *ending) labels(q map[int]bool) string {
	s := ""
	for i := range e.hosts.all {
		if q[i] {
			s += trace.Label(i, 0)
		}
	}
	return s
}

// healAll heals all hosts and starts what is down: they must become one cluster.
func (e *ending) healAll() {
	e.meet()
	from, bound := e.run.Now(), healBound
	if e.run.Config.Apart {
		bound += shunMost
	}
	q := e.hosts.everySlot()
	for _, n := range e.hosts.running() {
		if n.member.Leaving() {
			n.crash(false)
		}
	}
	e.net.OpenAll()
	e.heal(q)
	e.hosts.startDown()
	whole := func() bool {
		e.hosts.startDown()
		return e.isWhole(q)
	}
	if !e.run.UntilTrue(bound, 100*time.Millisecond, whole) {
		shrunk := e.shrunkClusters()
		if !e.run.Parts() && !e.isStranded() && len(shrunk) == 0 {
			e.run.Fail("L1", "the healed cluster does not become one within %v", bound)
		}
		e.restartStranded(shrunk)
		if !e.run.UntilTrue(healBound, 100*time.Millisecond, whole) {
			e.run.Fail("L1", "the healed cluster does not become one within %v after an operator restarted processes", healBound)
		}
	}
	e.noteSettled("all", e.run.Now().Sub(from))
	e.checkLayers(q)
}

// isStranded reports whether no running process holds a lease.
// After the network has healed, the cause is that too many members were lost for good,
// without proof in time: no quorum can ever be found.
func (e *ending) isStranded() bool {
	return !slices.ContainsFunc(e.hosts.running(), func(n *node) bool { return n.member.LeaseValid() })
}

// shrunkClusters returns the clusters to which another one should yield and never can: clusters
// without secrets that were larger in an earlier contest. Their contests end undecided
// (GUARANTEES.md).
func (e *ending) shrunkClusters() map[uint64]bool {
	shrunk := map[uint64]bool{}
	if !e.run.Config.Unauthenticated {
		return shrunk
	}
	running := e.hosts.running()
	for _, n := range running {
		for _, other := range running {
			if v := n.member.View(); other.member.LeaseValid() && cannotYield(other.member.View(), v) {
				shrunk[v.Cluster] = true
			}
		}
	}
	return shrunk
}

// restartStranded restarts every process without a lease, as the docs advise operators when a
// quorum is lost for good, and those of the given clusters.
func (e *ending) restartStranded(clusters map[uint64]bool) {
	e.run.Hit(coverage.Operator)
	for _, n := range e.hosts.running() {
		v := n.member.View()
		if !n.member.LeaseValid() || v != nil && clusters[v.Cluster] {
			n.crash(false)
			e.hosts.startNew(n.p.Slot)
		}
	}
}

// killAllButOne kills all but one in a calm cluster (G6).
func (e *ending) killAllButOne() {
	s, rand := &e.run.Config, e.run.Rand.Fault
	// G6 promises nothing when proofs come late or are weak, and a late frame of the dead
	// takes them back.
	s.LateProofs, s.Datagrams, s.SealPercent = false, false, 100
	e.run.Until(e.run.Now().Add(s.RemoveAfter + s.Late))
	if !e.run.UntilTrue(healBound, 50*time.Millisecond, func() bool { return e.isWhole(e.hosts.everySlot()) }) {
		e.run.Fail("L1", "the calm cluster came apart")
	}
	e.hosts.keepEmpty()
	left := e.hosts.all[rand.IntN(len(e.hosts.all))].node
	gap := time.Duration(0)
	if rand.Coin() {
		gap = rand.Duration(0, s.Lease)
	}
	for _, i := range rand.Perm(len(e.hosts.all)) {
		if n := e.hosts.all[i].node; n != nil && n != left { // one without a quorum may have ended by itself
			n.crash(false)
			e.run.Until(e.run.Now().Add(gap))
		}
	}
	from := e.run.Now()
	q := map[int]bool{left.p.Slot: true}
	if !e.run.UntilTrue(survivorBound, 10*time.Millisecond, func() bool { return e.isWhole(q) }) {
		if left.member.Window().Add(-s.Lease/10) < left.member.LastProof() {
			left.p.Event("proof after the window", 0, nil)
			return
		}
		e.run.Fail("G6", "the survivor %s does not act within %v of the last crash", left.p.Label, survivorBound)
	}
	e.noteSettled("survivor", e.run.Now().Sub(from))
	e.checkLayers(q)
}

func (e *ending) noteSettled(what string, d time.Duration) {
	e.run.Event("", "settled: "+what, uint64(d), func() string { return d.String() })
}
