package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
)

// watched records which members accepted which views, from the messages on the network.
// The simulator checks from it that a committed view had its quorums.
type watched struct {
	attempts map[attemptKey]*attempt
	byEpoch  map[gossip.Epoch][]*attempt
	// newest is the highest epoch of any view or attempt.
	checked map[gossip.Epoch]bool
}

type attemptKey struct {
	ballot view.Ballot
	base   gossip.Epoch
}

type attempt struct {
	base, next *gossip.View
	leader     nodeID
	emergency  bool
	acks       map[nodeID]bool
}

func newWatched() watched {
	return watched{map[attemptKey]*attempt{}, map[gossip.Epoch][]*attempt{}, map[gossip.Epoch]bool{}}
}

// watchView records one message of the view protocol.
func (w *world) watchView(from *proc, to nodeID, msg view.Message) {
	switch m := msg.(type) {
	case *view.Accept:
		w.watchAccept(from, m)
		w.watchGrant(from, to, &m.Ping)
	case *view.Pong:
		if a := w.watch.attempts[attemptKey{m.Ballot, m.Accepted}]; m.Accepted != 0 && a != nil {
			a.acks[from.node.ID] = true
			from.met = max(from.met, a.next.Epoch.Generation())
		}
	case *view.Ping:
		w.watchGrant(from, to, m)
	}
}

func (w *world) watchAccept(from *proc, m *view.Accept) {
	key := attemptKey{m.Ping.Ballot, m.Base.Epoch}
	a := w.watch.attempts[key]
	if a == nil {
		a = &attempt{base: m.Base.Header(), next: m.Next.Header(), leader: from.node.ID, emergency: m.Emergency, acks: map[nodeID]bool{from.node.ID: true}}
		w.watch.attempts[key] = a
		w.watch.byEpoch[m.Next.Epoch] = append(w.watch.byEpoch[m.Next.Epoch], a)
		w.event(from, "proposes", uint64(m.Next.Epoch), func() string {
			return w.viewText(m.Base.Header()) + " -> " + w.viewText(m.Next.Header())
		})
		w.checkGeneration(from, m)
		w.aim(from, m.Next.Header())
		w.aimAtRaise(from, m.Base.Header(), m.Next.Header())
	} else if !invariant.SameView(a.next, m.Next.Header()) {
		w.fail("S6", "%s proposes two views of epoch %v under one ballot", from.label, m.Next.Epoch)
	}
}

// checkGeneration checks that a takeover opens a generation above every one that
// its leader has met in a view or an attempt.
func (w *world) checkGeneration(from *proc, m *view.Accept) {
	g := m.Next.Epoch.Generation()
	known := w.watch.byEpoch[m.Next.Epoch]
	carried := len(known) > 1 && slices.ContainsFunc(known[:len(known)-1], func(a *attempt) bool { return invariant.SameView(a.next, m.Next.Header()) })
	if g > m.Base.Epoch.Generation() && g <= from.met && !carried {
		w.fail("S6", "%s takes over into generation %d, and has met %d", from.label, g, from.met)
	}
	from.met = max(from.met, g)
}

// watchGrant holds the rule that no lease is granted to a member under removal.
func (w *world) watchGrant(from *proc, to nodeID, m *view.Ping) {
	v := from.member.view
	if m.Remaining <= 0 || v == nil || v.Member(to) == nil {
		return
	}
	if a := w.watch.attempts[attemptKey{m.Ballot, m.Epoch}]; a != nil && a.next.Member(to) == nil {
		w.fail("S6", "%s grants a lease to %s, which its proposal leaves out", from.label, w.name(to))
	}
	if m := v.Member(to); !m.Status.Votes() {
		w.fail("S6", "%s grants a lease to %s, which is joining", from.label, w.name(to))
	}
}

// checkDecided asks, when a view is published for the first time, whether a plain
// quorum of the view before it and one of itself accepted it, or, for a new
// generation, whether all that did not accept were dead.
func (w *world) checkDecided(p *proc, v *gossip.View) {
	if w.watch.checked[v.Epoch] || w.swarm.wrongEvidence {
		return
	}
	w.watch.checked[v.Epoch] = true
	if p.former == nil || p.former.Cluster != v.Cluster {
		if len(v.Members) == 1 {
			return // a new cluster
		}
	} else if w.decidedAlone(p, p.former, v) {
		return
	}
	between := slices.Clone(w.watch.byEpoch[v.Epoch-1])
	if p.former != nil {
		between = append(between, w.watch.byEpoch[p.former.Epoch+1]...) // a takeover from it
	}
	for _, a := range between {
		// Two steps in one: the view between them was never published.
		if w.rightful(a) && w.decidedAlone(p, a.next, v) {
			return
		}
	}
	for _, a := range w.watch.byEpoch[v.Epoch] {
		if invariant.SameView(a.next, v) && w.rightful(a) {
			w.noteDecision(a)
			return
		}
	}
	w.fail("S6", "%s publishes %s without a quorum: %s", p.label, w.viewText(v), w.attemptsText(v.Epoch))
}

// decidedAlone reports whether the leader is a quorum by itself, so that it need
// not ask anyone.
func (w *world) decidedAlone(p *proc, base, v *gossip.View) bool {
	a := &attempt{leader: p.node.ID, base: base, next: v, acks: map[nodeID]bool{p.node.ID: true}}
	if !w.rightful(a) {
		return false
	}
	w.noteDecision(a)
	return true
}

func (w *world) rightful(a *attempt) bool {
	acked := func(id nodeID) bool { return a.acks[id] }
	inBase, inNext := w.quorum(a.base, acked), w.quorum(a.next, acked)
	if inBase && inNext {
		return true
	}
	// A total quorum opens a generation: no epoch, term or token of the dead is ever
	// used again.
	return (inBase || w.restDead(a.base, acked)) && (inNext || w.restDead(a.next, acked)) &&
		a.next.Epoch.Generation() > a.base.Epoch.Generation() && w.inTime(a) && invariant.Survives(w.swarm.policy, a.base, acked)
}

// quorum is the quorum of the run's partition policy.
func (w *world) quorum(v *gossip.View, has func(nodeID) bool) bool {
	return invariant.Quorum(w.swarm.policy, v, has)
}

// inTime reports whether a takeover's proofs came before its leader could have been removed.
// The leader must have requested its newest grant before its lease ended.
func (w *world) inTime(a *attempt) bool {
	p := w.byID[a.leader]
	return p == nil || p.member.lastProof <= p.clk.When(p.member.leaseWas).Add(w.swarm.lease)
}

// restDead reports whether every member that did not accept is dead.
func (w *world) restDead(v *gossip.View, acked func(nodeID) bool) bool {
	for i := range v.Members {
		id := v.Members[i].ID
		if q := w.byID[id]; !acked(id) && q != nil && q.alive && !q.over {
			return false
		}
	}
	return w.swarm.evidence == gossip.EvidenceFull
}

func (w *world) noteDecision(a *attempt) {
	if a.base.Epoch.Generation() != a.next.Epoch.Generation() {
		w.hit(markEmergency)
		if len(a.next.Members) == 1 && len(a.base.Members) > 1 {
			w.hit(markSoleSurvivor)
		}
	}
	voters, acks := 0, 0
	for i := range a.base.Members {
		if a.base.Members[i].Status.Votes() {
			voters++
			acks += int(b2u(a.acks[a.base.Members[i].ID]))
		}
	}
	if 2*acks == voters {
		w.hit(markHalfQuorum)
	}
}

func (w *world) attemptsText(e gossip.Epoch) string {
	s := ""
	for _, a := range w.watch.byEpoch[e] {
		s += fmt.Sprintf("%s -> %s by %s acks", w.viewText(a.base), w.viewText(a.next), w.name(a.leader))
		for i := range a.base.Members {
			if id := a.base.Members[i].ID; a.acks[id] {
				s += " " + w.name(id)
			}
		}
		s += "; "
	}
	return s
}

// checkView feeds the checkers a newly held view.
func (w *world) checkView(p *proc, v *gossip.View) {
	w.checkDecided(p, v)
	w.checkJoiners(p, v)
	w.aimAtRemoval(p, p.former, v)
	p.former = v
	if w.newest == nil || w.newest.Cluster != v.Cluster || w.newest.Epoch < v.Epoch {
		if w.newest != nil && w.newest.Epoch.Generation() != v.Epoch.Generation() {
			w.lastDeath = w.Now() // no member may have the writes of the dead
		}
		w.newest = v
		w.newestAt = w.Now()
	}
	w.judge(w.members.Published(time.Duration(w.Now()), p.node.ID, v))
}

// checkJoiners checks that a member that is new in a view is joining, not voting.
// Otherwise a member could vote before a living voter has learned of it.
func (w *world) checkJoiners(p *proc, v *gossip.View) {
	for i := range v.Members {
		if m := &v.Members[i]; m.Joined == v.Epoch && m.Status != gossip.Joining && len(v.Members) > 1 {
			w.fail("S6", "%s publishes %s, in which the new member %s already votes", p.label, w.viewText(v), w.name(m.ID))
		}
	}
}

// checkLease feeds the checkers a changed lease.
func (w *world) checkLease(p *proc) {
	was := w.members.Valid(time.Duration(w.Now()), p.node.ID)
	w.judge(w.members.Leased(time.Duration(w.Now()), p.node.ID, time.Duration(p.leaseEnd()), p.member.lease.Leader))
	if !was && p.leaseValid() {
		for _, t := range w.types {
			w.judge(t.hosting.Resumed(time.Duration(w.Now()), p.node.ID))
		}
	}
}

// checkPause marks the effects of a pause.
func (w *world) checkPause(p *proc) {
	if p.member.valid && !p.leaseValid() {
		w.hit(markPauseLapsed)
	}
}

// viewTrace takes a trace event of the view core.
func (w *world) viewTrace(p *proc, t *view.TraceEvent) {
	w.noteView(p, t)
	w.tracer.event(w.Now(), p.label, t.Kind, uint64(t.Subject), func() string {
		s := ""
		if t.Subject != 0 {
			s = w.name(t.Subject) + " "
		}
		return s + t.Detail
	})
}

// noteView marks the events in the view core's own trace.
func (w *world) noteView(p *proc, t *view.TraceEvent) {
	switch t.Kind {
	case "drive does not end":
		w.hit(markCircles)
		if !w.swarm.wrongEvidence {
			w.fail("core", "%s: the view core drives in circles", p.label)
		}
	case "carries":
		w.hit(markCarried)
	case "left out":
		q := w.byID[t.Subject]
		switch {
		case q == nil:
		case !q.alive:
			w.hit(markRemovedDead)
		case !q.member.leaving:
			w.hit(markRemovedSilent)
		}
	}
}
