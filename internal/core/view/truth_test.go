package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// truth checks a run from outside, on true time.
type truth struct {
	w *world
	// decided holds the views that were published, per epoch, of each cluster.
	decided map[epochOf]*gossip.View
	newest  map[uint64]*gossip.View
	// accepted holds the acceptors of each attempt.
	accepted map[step]*acceptance
	byNext   map[epochOf][]*acceptance
	// leaderEnd is until when, in true time, a node's leader lease has run at most.
	leaderEnd map[gossip.NodeID]time.Duration
	dead      map[gossip.NodeID]bool
	// wrongEvidence is set in tests where living nodes are proven dead: lineages may
	// part, so the checks that need one line are off.
	wrongEvidence bool
}

type epochOf struct {
	cluster uint64
	epoch   gossip.Epoch
}

type step struct {
	cluster uint64
	base    gossip.Epoch
	ballot  Ballot
}

type acceptance struct {
	base, next *gossip.View
	emergency  bool
	by         map[gossip.NodeID]bool
	since      time.Duration
}

func newTruth(w *world) *truth {
	return &truth{
		w: w, decided: map[epochOf]*gossip.View{}, newest: map[uint64]*gossip.View{}, accepted: map[step]*acceptance{},
		byNext: map[epochOf][]*acceptance{}, leaderEnd: map[gossip.NodeID]time.Duration{}, dead: map[gossip.NodeID]bool{},
	}
}

// check is called after every step of a node.
func (x *truth) check(n *simNode, before *gossip.View, out *Effects) {
	if err := n.core.Check(); err != nil {
		x.w.fail("%v", err)
	}
	x.noteAttempts(n)
	x.notePassed(n, before, out)
	if out.View != nil {
		x.checkView(n, before, out.View)
	}
	if out.Lease != nil {
		x.checkLease(n, *out.Lease)
	}
	if !x.wrongEvidence {
		x.checkOutsiders()
	}
	x.checkLeaders()
}

// notePassed records views that a leader which alone is a quorum has committed and
// superseded in one step: the members receive each.
func (x *truth) notePassed(n *simNode, before *gossip.View, out *Effects) {
	alone := func(id gossip.NodeID) bool { return id == n.id }
	for _, s := range out.Send {
		p, is := s.Msg.(*Ping)
		if !is || p.View == nil || p.View.Packed() || before == nil || p.View.View == out.View || p.View.Cluster != before.Cluster {
			continue
		}
		at := epochOf{p.View.Cluster, p.View.Epoch}
		if x.decided[at] == nil && before.Epoch < p.View.Epoch && x.w.quorum(before, alone) && x.w.quorum(p.View.View, alone) {
			x.decided[at] = p.View.View
		}
	}
}

func (x *truth) noteAttempts(n *simNode) {
	for base, a := range n.core.acceptor.attempts { // order-free: sets are filled
		v := n.core.view
		if v == nil || v.Epoch != base {
			continue
		}
		key := step{v.Cluster, base, a.ballot}
		acc := x.accepted[key]
		if acc == nil {
			acc = &acceptance{base: v, next: a.next, emergency: a.emergency, by: map[gossip.NodeID]bool{}, since: x.w.now}
			x.accepted[key] = acc
			at := epochOf{a.next.Cluster, a.next.Epoch}
			x.byNext[at] = append(x.byNext[at], acc)
		} else if !sameView(acc.next, a.next) {
			x.w.fail("ballot %v proposes two views on %v: %s and %s", a.ballot, base, viewText(acc.next), viewText(a.next))
		}
		acc.by[n.id] = true
	}
}

func sameView(a, b *gossip.View) bool {
	return a == b || a.Cluster == b.Cluster && a.Epoch == b.Epoch && slices.Equal(a.Forks, b.Forks) && slices.Equal(a.Out, b.Out) &&
		slices.EqualFunc(a.Members, b.Members, func(m, o gossip.Member) bool {
			return m.ID == o.ID && m.Joined == o.Joined && m.Status == o.Status
		})
}

// checkView checks that there is one view per epoch, and that each follows from an
// earlier one by a quorum or a proof.
func (x *truth) checkView(n *simNode, before, v *gossip.View) {
	if before != nil {
		for i := range v.Members {
			if m := before.Member(v.Members[i].ID); m != nil && m.Joined == v.Members[i].Joined && v.Members[i].Status < m.Status {
				x.w.fail("%d goes back from %v to %v in %s", m.ID, m.Status, v.Members[i].Status, viewText(v))
			}
		}
	}
	at := epochOf{v.Cluster, v.Epoch}
	if known := x.decided[at]; known != nil {
		if !sameView(known, v) && !x.wrongEvidence {
			x.w.fail("two views of one epoch: %s and %s", viewText(known), viewText(v))
		}
		return
	}
	first := before == nil && len(v.Members) == 1 && v.Members[0].ID == n.id
	if !first && !x.wrongEvidence && !x.follows(n, before, v) {
		x.w.fail("%d publishes %s without a quorum", n.id, viewText(v))
	}
	x.w.note("%d publishes %s", n.id, viewText(v))
	x.decided[at] = v
	if top := x.newest[v.Cluster]; top == nil || top.Epoch < v.Epoch {
		x.newest[v.Cluster] = v
	}
}

func (x *truth) follows(n *simNode, before, v *gossip.View) bool {
	for _, acc := range x.byNext[epochOf{v.Cluster, v.Epoch}] {
		if sameView(acc.next, v) && x.rightful(acc) {
			return true
		}
	}
	if before == nil {
		return false
	}
	// A leader that alone is a quorum proposes and commits in one step, so its attempt is
	// never visible; it may even do so twice.
	alone := map[gossip.NodeID]bool{n.id: true}
	bases := []*gossip.View{before}
	for _, acc := range x.byNext[epochOf{v.Cluster, v.Epoch - 1}] {
		// Or it has learned a view and continued from there in the same step.
		if x.rightful(acc) {
			bases = append(bases, acc.next)
		}
	}
	for _, acc := range x.accepted { // order-free: any one suffices
		if acc.base == before {
			bases = append(bases, acc.next)
		}
	}
	return slices.ContainsFunc(bases, func(base *gossip.View) bool {
		return x.rightful(&acceptance{base: base, next: v, emergency: base.Epoch.Generation() != v.Epoch.Generation(), by: alone})
	})
}

// rightful reports whether the acceptors carry the step.
func (x *truth) rightful(a *acceptance) bool {
	in := func(id gossip.NodeID) bool { return a.by[id] }
	if x.w.quorum(a.base, in) && x.w.quorum(a.next, in) {
		return true
	}
	rest := func(v *gossip.View) bool {
		return !slices.ContainsFunc(v.Members, func(m gossip.Member) bool { return !a.by[m.ID] && !x.dead[m.ID] })
	}
	return a.emergency && x.w.cfg.Evidence == gossip.EvidenceFull && rest(a.base) && rest(a.next) && x.w.policy().Survives(a.base, in)
}

// checkLease compares a new lease with that of the leader that granted it.
func (x *truth) checkLease(n *simNode, l Lease) {
	if l.Until == 0 {
		return
	}
	end := n.trueTime(l.Until)
	if n.core.leadership != nil && l.Leader {
		x.leaderEnd[n.id] = max(x.leaderEnd[n.id], n.trueTime(n.core.LeaderLease()))
		return
	}
	if n.core.acceptor.guard.leader == n.id {
		// It led, and stepped down in the same step.
		x.leaderEnd[n.id] = max(x.leaderEnd[n.id], end)
		return
	}
	if leader := n.core.acceptor.guard.leader; end > x.w.now && !l.Leader && n.core.leadership == nil && leader != 0 {
		if most := x.leaderEnd[leader]; end > most+time.Microsecond && end > x.latestLeader()+time.Microsecond {
			x.w.fail("the lease of %d ends %v after its leader's (%d)", n.id, end-most, leader)
		}
	}
}

// checkAbandon checks that a node drops its instances when it must, and only then: it ends,
// or its lease had lapsed and is back in another generation.
func (x *truth) checkAbandon(n *simNode, had Lease, out *Effects) {
	has := n.core.Lease()
	returned := had.Generation != 0 && has.Generation != 0 && has.Generation != had.Generation && !had.Valid(x.w.clock(n))
	if want := returned || out.Removed != nil; out.Abandon != want {
		x.w.fail("%d abandons its instances: %v, want %v; lease %+v after %+v", n.id, out.Abandon, want, has, had)
	}
}

func (x *truth) latestLeader() time.Duration {
	most := time.Duration(0)
	for _, end := range x.leaderEnd { // order-free: a maximum
		most = max(most, end)
	}
	return most
}

// checkOutsiders checks that every lease holder is in the newest view.
func (x *truth) checkOutsiders() {
	for _, id := range x.w.order {
		n := x.w.nodes[id]
		if n.down || n.removed != nil || n.core.view == nil || !x.w.holds(n) {
			continue
		}
		newest := x.newest[n.core.view.Cluster]
		m := newest.Member(id)
		if m == nil || !m.Status.Votes() {
			x.w.fail("%d holds a lease for %v but is no voter of the newest view %s", id, n.core.Lease().Until.Sub(x.w.clock(n)), viewText(newest))
		}
	}
}

// checkLeaders checks that there is at most one leader lease.
func (x *truth) checkLeaders() {
	leaders := map[uint64]gossip.NodeID{}
	for _, id := range x.w.order {
		n := x.w.nodes[id]
		if n.down || n.removed != nil || n.core.leadership == nil {
			continue
		}
		until := n.core.LeaderLease()
		if until != 0 {
			x.leaderEnd[id] = max(x.leaderEnd[id], n.trueTime(until))
		}
		if !until.After(x.w.clock(n)) {
			continue
		}
		cluster := n.core.view.Cluster
		leader := leaders[cluster]
		if leader != 0 && !x.wrongEvidence {
			x.w.fail("%d and %d hold leader leases at the same time", leader, id)
		}
		leaders[cluster] = id
	}
}

// holds reports whether a node's lease is valid by its own clock. A paused node
// counts: it may wake at any instant.
func (w *world) holds(n *simNode) bool {
	return !n.down && n.removed == nil && n.core.Lease().Valid(w.clock(n))
}

var _ = clock.Never
