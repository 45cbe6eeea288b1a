package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
)

// assertNewer asserts that views are adopted in the order of their epochs.
func (h *history) assertNewer(v *gossip.View) {
	if h.view != nil && v.Epoch <= h.view.Epoch {
		assert.Broken("S6", "%v adopts view %v after %v", h.self(), v.Epoch, h.view.Epoch)
	}
}

// assertCommit asserts that a quorum of the present view and one of the next have accepted
// the next view, unless it is an emergency view.
func (o *leadership) assertCommit(p *proposal) {
	in := func(id gossip.NodeID) bool { return p.accepted[id] }
	if !p.emergency && !(o.cfg.Partition.Quorum(o.view, in) && o.cfg.Partition.Quorum(p.next, in)) {
		assert.Broken("S6", "%v commits view %v, accepted by %v: no quorum of %v and of it", o.self(), p.next.Epoch, p.accepted, o.view.Epoch)
	}
}

// assertLease asserts that the leader lease ends before members promise another candidate,
// and that no uncovered attempt is open.
func (o *leadership) assertLease(round uint64, until clock.Instant) {
	if until.After(o.sentAt(round).Add(o.cfg.Lease-o.margin(o.cfg.Lease))) || !o.free {
		assert.Broken("S6", "%v leads until %v by round %d of %v (free to lead: %v)", o.self(), until, round, o.sentAt(round), o.free)
	}
}

// assertGrant asserts that a member that is about to be left out gets no lease.
func (p *proposal) assertGrant(to gossip.NodeID) {
	if p != nil && p.next.Member(to) == nil {
		assert.Broken("S6", "%v gets a lease, and view %v leaves it out", to, p.next.Epoch)
	}
}

// assertTakeover asserts that an emergency view leaves out only members that are certainly
// dead, or assumed to be, and that its generation is new.
func (o *leadership) assertTakeover(next *gossip.View) {
	for i := range o.view.Members {
		if id := o.view.Members[i].ID; next.Member(id) == nil && o.evidence.mayLive(id) && !o.quorums.silence.assumes() {
			assert.Broken("G6", "%v takes over without %v, which may live", o.self(), id)
		}
	}
	if next.Epoch.Generation() <= o.generation {
		assert.Broken("G2", "%v opens generation %d, and %d was opened", o.self(), next.Epoch.Generation(), o.generation)
	}
}

// assertAbove asserts that a view that ends a contest as its winner opens a generation above
// that of the other cluster.
func (es *encounters) assertAbove(next *gossip.View) {
	for _, f := range es.view.Foreign {
		e := es.met[f.Cluster]
		if f.Verdict == gossip.VerdictStands && next.Contest(f.Cluster) == nil && e != nil && e.newest != nil && next.Epoch.Generation() <= e.newest.Generation {
			assert.Broken("G1", "view %v absorbs cluster %v of generation %d", next.Epoch, f.Cluster, e.newest.Generation)
		}
	}
}
