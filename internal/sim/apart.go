package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// Two clusters of one name that start apart: the hosts stand on two sides, nothing passes
// between them, and each side forms a cluster of its own hosts. Then they meet. One cluster
// stands, the other yields, its entities stop and its nodes join the first
// (internal/core/view/foreign.go, foreign.go of the root package). Before that a shard lives on
// both sides; package invariant has what holds from the meeting on.

// meeting is the state of a world whose hosts begin on two sides.
type meeting struct {
	// left has the hosts of one side, as bits; met is set when the sides are connected.
	left int
	met  bool
	// formedOn is the side on which a cluster was formed. sides counts the sides.
	formedOn map[uint64]int
	sides    int
}

func (m *meeting) sideOf(slot int) int { return m.left >> slot & 1 }

// sideOf returns the side of the cluster that a process stands in.
func (w *world) sideOf(p *proc) int {
	if v := p.member.view; v != nil {
		return w.meeting.formedOn[v.Cluster]
	}
	return 0
}

// parted reports whether nothing may pass between two hosts yet.
func (w *world) parted(a, b int) bool {
	return w.swarm.apart && !w.meeting.met && w.meeting.sideOf(a) != w.meeting.sideOf(b)
}

// standApart parts the hosts.
func (w *world) standApart() {
	if !w.swarm.apart {
		return
	}
	n := len(w.hosts)
	w.meeting = meeting{left: 1 + w.apartRand.IntN(1<<n-2), formedOn: map[uint64]int{}, sides: 2}
	for i := range w.hosts {
		for j := range w.hosts {
			if w.parted(i, j) {
				w.hosts[i].block[j] = drop
			}
		}
	}
	grace := w.swarm.lease + 2*w.drift(w.swarm.lease) + 50*time.Millisecond
	for _, t := range w.types {
		t.hosting.Apart(func(cluster uint64) int { return w.meeting.formedOn[cluster] }, grace)
	}
	w.After(w.apartRand.Duration(w.swarm.duration/4, w.swarm.duration*3/4), w.meet)
}

// meet connects the two sides.
func (w *world) meet() {
	if !w.swarm.apart || w.meeting.met {
		return
	}
	w.meeting.met = true
	w.hit(markMet)
	w.event(nil, "sides meet", uint64(w.meeting.left), nil)
	for i := range w.hosts {
		for j := range w.hosts {
			if w.meeting.sideOf(i) != w.meeting.sideOf(j) {
				w.setPath(i, j, open)
			}
		}
	}
}

// mayFormApart is the part of the forming rule that is about the other side: its hosts are
// no contact points, and a cluster of theirs that can be reached is joined.
func (w *world) mayFormApart(p *proc, i int) (skip, may bool) {
	if !w.swarm.apart || w.meeting.sideOf(i) == w.meeting.sideOf(p.slot) {
		return false, true
	}
	q := w.hosts[i].proc
	return true, !w.meeting.met || q == nil || q.member.view == nil || w.blocked(p.slot, i) != open
}

// noteFormed notes on which side a cluster was formed.
func (w *world) noteFormed(p *proc, v *gossip.View) {
	if !w.swarm.apart {
		return
	}
	if _, found := w.meeting.formedOn[v.Cluster]; found {
		return
	}
	side := w.meeting.sideOf(p.slot)
	if w.meeting.outlivesItsSide(w.hosts, side) {
		side = w.meeting.sides
		w.meeting.sides++
	}
	w.meeting.formedOn[v.Cluster] = side
}

// outlivesItsSide reports whether a cluster of a side lives at hosts of the other side, which
// are no contact points of its own side. A cluster that is formed there starts apart from it.
func (m *meeting) outlivesItsSide(hosts []host, side int) bool {
	for i := range hosts {
		q := hosts[i].proc
		if q == nil || q.over || q.member.view == nil || m.sideOf(i) == side {
			continue
		}
		if on, found := m.formedOn[q.member.view.Cluster]; found && on == side {
			return true
		}
	}
	return false
}

// noteAbsorbed reports to the checkers that a process from another cluster has adopted a view.
// A view that lists it is not enough: it may have joined a third cluster by then.
func (w *world) noteAbsorbed(p *proc, v *gossip.View) {
	if !w.swarm.apart || p.cameFrom == 0 || p.cameFrom == v.Cluster {
		return
	}
	w.hit(markAbsorbed)
	for _, t := range w.types {
		t.hosting.Absorbed(v, p.cameFrom)
	}
	p.cameFrom = 0
}

// dissolves ends the incarnation in order when its cluster has yielded.
func (p *proc) dissolves(v *gossip.View) {
	if v.Yields() == nil || p.yielded {
		return
	}
	p.yielded = true
	p.w.hit(markYielded)
	p.run(func() {
		p.leaveUpper(func() {
			p.removed(gossip.Removed{Reason: "its cluster has yielded", Generation: p.member.core.Generation(), Outranked: true})
		})
	})
}

// inherit copies the generation and cluster that an incarnation's predecessor recorded.
func (p *proc) inherit(former *proc) {
	p.least, p.cameFrom = former.least, former.cameFrom
	if former.outranked && former.member.view != nil {
		p.least, p.cameFrom = max(p.least, former.generation+1), former.member.view.Cluster
	}
}

// outdated returns a shard that runs under a token below those of an absorbed cluster.
func (w *world) outdated() string {
	for _, t := range w.types {
		if s, node, found := t.hosting.Outdated(); w.swarm.apart && found {
			return "shard " + s.String() + " at " + w.name(node)
		}
	}
	return ""
}

// shunMost is how long clusters whose contest has come to nothing ignore each other, at
// most, in runs as short as these.
const shunMost = 130 * time.Second
