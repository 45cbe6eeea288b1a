package sim

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// How a run ends is how liveness is asked for, the hard way: a random quorum is
// healed and the rest stays as broken as it is. "Heal everything, then look"
// hides livelocks.

const (
	healBound     = 20 * time.Second
	reformAfter   = 3 * time.Second
	survivorBound = 1500 * time.Millisecond
)

// finish ends the faults and asks for liveness.
func (w *world) finish() {
	for i := range w.hosts {
		w.hosts[i].stay = true
	}
	if w.swarm.orderly {
		w.endLeaving()
	}
	switch w.swarm.ending {
	case endQuorum:
		if q := w.drawQuorum(); q != nil {
			w.endQuorum(q)
			return
		}
		w.endAll()
	case endSurvivor:
		w.endAll()
		if !w.swarm.wrongEvidence && !w.driftBroken {
			w.endSurvivor()
		}
	default:
		w.endAll()
	}
}

// endLeaving lets those that leave do so in order: to end them before would be no plan.
// Some never can: where no death counts as proven, the last two that leave may part
// without a quorum.
func (w *world) endLeaving() {
	leaves := func(p *proc) bool { return p.member.leaving && !p.over }
	w.untilTrue(w.swarm.drainPatience()+reformAfter, 20*time.Millisecond, func() bool { return !slices.ContainsFunc(w.running(), leaves) })
}

// drawQuorum picks hosts whose processes are a plain quorum of the newest view,
// and of each attempt beyond it that anyone may have accepted; nil if the living
// are none.
func (w *world) drawQuorum() map[int]bool {
	if w.newest == nil || w.swarm.wrongEvidence {
		return nil
	}
	in := map[int]bool{}
	for _, p := range w.running() {
		if m := w.newest.Member(p.node.ID); m != nil && m.Status == gossip.Up && !p.over && !p.member.leaving {
			in[p.slot] = true
		}
	}
	if !w.enough(in) {
		return nil
	}
	for _, slot := range w.faultRand.Perm(len(w.hosts)) {
		if in[slot] && w.faultRand.Coin() {
			delete(in, slot)
			if !w.enough(in) {
				in[slot] = true
			}
		}
	}
	return in
}

// enough reports whether the processes on these hosts can go on by themselves.
func (w *world) enough(in map[int]bool) bool {
	has := func(id nodeID) bool {
		q := w.byID[id]
		return q != nil && q.alive && !q.over && in[q.slot]
	}
	for e, attempts := range w.watch.byEpoch {
		for _, a := range attempts {
			if e > w.newest.Epoch && !w.quorum(a.next, has) {
				return false
			}
		}
	}
	return w.quorum(w.newest, has) && w.holdsNewest(in)
}

// holdsNewest reports whether one of the hosts in the set holds the newest view.
// If none does, a quorum of the newest view also needs a quorum of the view before.
func (w *world) holdsNewest(in map[int]bool) bool {
	for _, p := range w.running() {
		if v := p.member.view; in[p.slot] && v != nil && v.Epoch == w.newest.Epoch && v.Cluster == w.newest.Cluster {
			return true
		}
	}
	return false
}

// heal mends the hosts in q among each other and cuts them off from the rest.
func (w *world) heal(q map[int]bool) {
	w.cutOff(q, drop, false)
	for i := range w.hosts {
		if !q[i] {
			continue
		}
		w.hosts[i].stay = false
		for j := range w.hosts {
			if q[j] {
				w.setPath(i, j, open)
			}
		}
		if p := w.hosts[i].proc; p != nil {
			p.cost = 0
			p.resume()
		}
	}
}

func (w *world) endQuorum(q map[int]bool) {
	w.hit(markQuorumLost)
	w.event(nil, "quorum healed", uint64(len(q)), nil)
	cut := w.Now()
	w.heal(q)
	stop := w.swarm.lease + 2*w.drift(w.swarm.lease) + time.Millisecond
	w.until(cut.Add(stop))
	for i := range w.hosts {
		p := w.hosts[i].proc
		if p != nil && !q[i] && p.leaseValid() && !w.driftBroken {
			w.fail("L5", "%s still holds a lease %v after it was cut off from the quorum", p.label, w.Now().Sub(cut))
		}
	}
	if !w.untilTrue(healBound, 50*time.Millisecond, func() bool { return w.whole(q) }) {
		if !w.enough(q) {
			// A leader made a proposal after the cut, from messages received before it: that
			// view, or the one before it, needs members that are now cut off.
			w.event(nil, "quorum overtaken", 0, nil)
			w.endAll()
			return
		}
		w.fail("L6", "the healed quorum %v does not act within %v", w.labels(q), healBound)
	}
	w.settled("quorum", w.Now().Sub(cut))
	w.hit(markQuorumRegained)
	w.endUpperLiveness(q)
}

// drift is by how much two clocks may disagree over d.
func (w *world) drift(d time.Duration) time.Duration {
	return d * time.Duration(w.swarm.driftPPM) / 1_000_000
}

// whole reports whether exactly the hosts in q hold one view of exactly
// themselves, all up, with leases.
func (w *world) whole(q map[int]bool) bool {
	var v *gossip.View
	for i := range w.hosts {
		if !q[i] {
			continue
		}
		p := w.hosts[i].proc
		if p == nil || p.over || !p.leaseValid() {
			return false
		}
		if v == nil {
			v = p.member.view
		}
		if p.member.view == nil || p.member.view.Epoch != v.Epoch || p.member.view.Cluster != v.Cluster {
			return false
		}
		if m := v.Member(p.node.ID); m == nil || m.Status == gossip.Joining {
			return false
		}
	}
	return v != nil && len(v.Members) == len(q)
}

func (w *world) labels(q map[int]bool) string {
	s := ""
	for i := range w.hosts {
		if q[i] {
			s += label(i, 0)
		}
	}
	return s
}

// everyone heals all hosts and starts what is down.
func (w *world) everyone() map[int]bool {
	q := map[int]bool{}
	for i := range w.hosts {
		q[i] = true
	}
	for _, p := range w.running() {
		if p.member.leaving {
			p.crash(false)
		}
	}
	w.openAll()
	w.heal(q)
	for i := range w.hosts {
		if h := &w.hosts[i]; h.proc == nil && !(w.swarm.apart && h.rejoins) {
			w.start(i)
		}
	}
	return q
}

func (w *world) endAll() {
	w.meet()
	from, bound := w.Now(), healBound
	if w.swarm.apart {
		bound += shunMost
	}
	q := w.everyone()
	whole := func() bool {
		for i := range w.hosts {
			if h := &w.hosts[i]; h.proc == nil && !(w.swarm.apart && h.rejoins) {
				w.start(i)
			}
		}
		return w.whole(q)
	}
	if !w.untilTrue(bound, 100*time.Millisecond, whole) {
		if w.swarm.wrongEvidence || w.driftBroken {
			w.operator()
		} else if !w.stranded() {
			w.fail("L1", "the healed cluster does not become one within %v", bound)
		} else {
			w.operator()
		}
		if !w.untilTrue(healBound, 100*time.Millisecond, whole) {
			w.fail("L1", "the healed cluster does not become one within %v after all without a lease were restarted", healBound)
		}
	}
	w.settled("all", w.Now().Sub(from))
	w.endUpperLiveness(q)
}

// stranded reports whether no running process holds a lease.
// After the network has healed, the cause is that too many members were lost for good,
// without proof in time: no quorum can ever be found.
func (w *world) stranded() bool {
	for _, p := range w.running() {
		if p.leaseValid() {
			return false
		}
	}
	return true
}

// operator restarts every process without a lease, as the docs advise when a
// quorum is lost for good.
func (w *world) operator() {
	w.hit(markOperator)
	for _, p := range w.running() {
		if !p.leaseValid() {
			p.crash(false)
			w.start(p.slot)
		}
	}
}

// endSurvivor kills all but one in a calm cluster (G6).
func (w *world) endSurvivor() {
	// G6 promises nothing when proofs come late or are weak, and a late frame of the dead
	// takes them back.
	w.swarm.lateProofs, w.swarm.datagrams, w.swarm.sealPercent = false, false, 100
	w.until(w.Now().Add(w.swarm.removeAfter + w.swarm.late))
	if !w.untilTrue(healBound, 50*time.Millisecond, func() bool { return w.whole(w.all()) }) {
		w.fail("L1", "the calm cluster came apart")
	}
	for i := range w.hosts {
		w.hosts[i].stay = true
	}
	left := w.hosts[w.faultRand.IntN(len(w.hosts))].proc
	gap := time.Duration(0)
	if w.faultRand.Coin() {
		gap = w.faultRand.Duration(0, w.swarm.lease)
	}
	for _, i := range w.faultRand.Perm(len(w.hosts)) {
		if p := w.hosts[i].proc; p != left {
			p.crash(false)
			w.until(w.Now().Add(gap))
		}
	}
	from := w.Now()
	q := map[int]bool{left.slot: true}
	if !w.untilTrue(survivorBound, 10*time.Millisecond, func() bool { return w.whole(q) }) {
		if left.leaseEnd().Add(-w.swarm.lease/10) < left.member.lastProof {
			w.event(left, "proof after the window", 0, nil)
			return
		}
		w.fail("G6", "the survivor %s does not act within %v of the last crash", left.label, survivorBound)
	}
	w.settled("survivor", w.Now().Sub(from))
	w.endUpperLiveness(q)
}

func (w *world) all() map[int]bool {
	q := map[int]bool{}
	for i := range w.hosts {
		q[i] = true
	}
	return q
}

func (w *world) settled(what string, d time.Duration) {
	w.healed = d
	w.event(nil, "settled: "+what, uint64(d), func() string { return d.String() })
}

// checkEnd holds what must be true of a whole run.
func (w *world) checkEnd() {
	w.checkAsks()
	if w.swarm.orderly && w.misplaced > 0 {
		w.fail("G9", "planned moves lost %d messages", w.misplaced)
	}
}
