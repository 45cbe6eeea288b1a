package membership

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// Judge checks the views and leases of all processes. It derives from the messages on the
// network which members accepted which views (attempts.go).
type Judge struct {
	run     *run.Run
	members *invariant.Membership
	// drivers has all that ever were.
	drivers  map[gossip.NodeID]*Driver
	attempts attempts
	// checked has the views that were checked when they were first published.
	checked map[lineageEpoch]bool
	// newest is the newest view that any process has held.
	newest *gossip.View
	// onGeneration is called when a view opens a new generation.
	onGeneration func()
}

// lineageEpoch identifies a view: a lineage has one per epoch.
type lineageEpoch struct {
	cluster uint64
	fork    gossip.Fork
	epoch   gossip.Epoch
}

// NewJudge returns the checkers of a run. They call onGeneration when a view opens a new
// generation.
func NewJudge(r *run.Run, onGeneration func()) *Judge {
	j := &Judge{
		run: r, members: invariant.NewMembership(), drivers: map[gossip.NodeID]*Driver{}, attempts: newAttempts(),
		checked: map[lineageEpoch]bool{}, onGeneration: onGeneration,
	}
	if r.Parts() {
		j.members.ExpectLineages(r.LeaseOutlives())
	}
	return j
}

// Members returns the checker of memberships and leases.
func (j *Judge) Members() *invariant.Membership { return j.members }

// Newest returns the newest view that any process has held, nil before the first.
func (j *Judge) Newest() *gossip.View { return j.newest }

// Present reports whether a node has been a member without a break until now.
func (j *Judge) Present(id gossip.NodeID) bool {
	d := j.drivers[id]
	return d != nil && d.p.Active() && j.newest != nil && j.newest.Member(id) != nil
}

// PresentBeside reports whether a node has been a member without a break until now, in the
// lineage of another node.
func (j *Judge) PresentBeside(id, other gossip.NodeID) bool {
	d := j.drivers[id]
	return d != nil && d.p.Active() && j.members.MemberBeside(id, other)
}

// NoteGone reports that a process has ended.
func (j *Judge) NoteGone(id gossip.NodeID) { j.members.Gone(id) }

// onPublished records a newly held view.
func (j *Judge) onPublished(d *Driver, v *gossip.View) {
	if j.isNewest(v) {
		if j.newest != nil && j.newest.Epoch.Generation() != v.Epoch.Generation() {
			j.onGeneration()
		}
		j.newest = v
	}
	j.run.Judge(j.members.Published(time.Duration(j.run.Now()), d.p.ID(), v))
}

// isNewest reports whether a published view replaces the newest one. A view of another cluster does so
// if any of its voters lives. Else that cluster has ended, and its last view reached a member late.
func (j *Judge) isNewest(v *gossip.View) bool {
	if j.newest == nil || j.newest.Cluster == v.Cluster {
		return j.newest == nil || j.newest.Epoch < v.Epoch
	}
	return slices.ContainsFunc(v.Members, func(m gossip.Member) bool {
		d := j.drivers[m.ID]
		return m.Status.Votes() && d != nil && d.p.Active()
	})
}

// onLease records a changed lease, and reports whether the process had no valid one before.
func (j *Judge) onLease(d *Driver) (began bool) {
	now := time.Duration(j.run.Now())
	had := j.members.Valid(now, d.p.ID())
	j.run.Judge(j.members.Leased(now, d.p.ID(), time.Duration(d.lease.trueEnd()), d.lease.held.Leader))
	return !had
}

// onTrace records a trace event of a view core, and checks and marks those that matter.
func (j *Judge) onTrace(d *Driver, t *view.TraceEvent) {
	r := j.run
	switch t.Kind {
	case "drive does not end":
		r.Fail("core", "%s: the view core drives in circles", d.p.Label)
	case "carries":
		r.Hit(coverage.Carried)
	case "asks for the whole view":
		r.Hit(coverage.WholeAsked)
	case "left out":
		switch q := j.drivers[t.Subject]; {
		case q == nil:
		case !q.p.Thread.Alive():
			r.Hit(coverage.RemovedDead)
		case !q.leaving:
			r.Hit(coverage.RemovedSilent)
		}
	}
	d.p.Event(t.Kind, uint64(t.Subject), func() string {
		if t.Subject == 0 {
			return t.Detail
		}
		return r.Names.Name(t.Subject) + " " + t.Detail
	})
}

// onMessage records a message of the view protocol. It returns the attempt of a proposal if the
// message is the first that the network carries of it, else nil.
func (j *Judge) onMessage(from *Driver, to gossip.NodeID, msg view.Message) (proposed *attempt) {
	switch m := msg.(type) {
	case *view.Accept:
		proposed = j.onAccept(from, m)
		j.checkGrant(from, to, &m.Ping)
		return proposed
	case *view.Pong:
		j.attempts.onPong(from.p.ID(), m)
	case *view.Ping:
		j.checkGrant(from, to, m)
	}
	return nil
}

// onAccept records a proposal, and returns its attempt unless it was recorded before.
func (j *Judge) onAccept(from *Driver, m *view.Accept) *attempt {
	base := j.unpackBase(from, m.Base)
	next := m.Next.On(base)
	if base == nil || next == nil {
		j.run.Fail("S6", "%s packs a proposal of epoch %v on a view that it does not hold", from.p.Label, m.Next.Epoch)
	}
	j.noteUnpublished(from, base)
	if m.Next.Packed() {
		j.run.Hit(coverage.Packed)
	}
	a, repeated := j.attempts.recordProposal(from.p.ID(), m, base, next)
	if repeated {
		if !invariant.SameView(a.next, next) {
			j.run.Fail("S6", "%s proposes two views of epoch %v under one ballot", from.p.Label, m.Next.Epoch)
		}
		return nil
	}
	from.p.Event("proposes", uint64(m.Next.Epoch), func() string {
		return j.run.Names.View(a.base) + " -> " + j.run.Names.View(a.next)
	})
	j.checkGeneration(from, a)
	return a
}

// unpackBase returns the whole base of a proposal. Its sender packs it on a view that it holds, or
// that it held within the step under way: the one before the step, one that it proposed itself, or
// one of another leader, which must be decided.
func (j *Judge) unpackBase(from *Driver, sent *view.SentView) *gossip.View {
	for _, held := range []*gossip.View{from.view, from.before} {
		if v := sent.On(held); v != nil {
			return v
		}
	}
	for _, a := range j.attempts.byEpoch[sent.Epoch] {
		if v := sent.On(a.next); v != nil && (a.leader == from.p.ID() || j.isRightful(a)) {
			return v
		}
	}
	return nil
}

// checkGeneration checks that a takeover opens a generation above every one that
// its leader has met in a view or an attempt.
func (j *Judge) checkGeneration(from *Driver, a *attempt) {
	g, met := a.next.Epoch.Generation(), j.attempts.met[from.p.ID()]
	earlier := j.attempts.byEpoch[a.next.Epoch]
	carried := len(earlier) > 1 && slices.ContainsFunc(earlier[:len(earlier)-1], func(b *attempt) bool { return invariant.SameView(b.next, a.next) })
	if g > a.base.Epoch.Generation() && g <= met && !carried {
		j.run.Fail("S6", "%s takes over into generation %d, and has met %d", from.p.Label, g, met)
	}
	j.attempts.met[from.p.ID()] = max(met, g)
}

// checkGrant holds the rule that no lease is granted to a member under removal.
func (j *Judge) checkGrant(from *Driver, to gossip.NodeID, m *view.Ping) {
	v := from.view
	if m.Remaining <= 0 || v == nil || v.Member(to) == nil {
		return
	}
	if a := j.attempts.all[attemptKey{m.Ballot, m.Epoch}]; a != nil && a.next.Member(to) == nil {
		j.run.Fail("S6", "%s grants a lease to %s, which its proposal leaves out", from.p.Label, j.run.Names.Name(to))
	}
	if m := v.Member(to); !m.Status.Votes() {
		j.run.Fail("S6", "%s grants a lease to %s, which is joining", from.p.Label, j.run.Names.Name(to))
	}
}

// checkView checks a newly held view: it was decided, and its new members are joining, not
// voting. Otherwise a member could vote before a living voter has learned of it.
func (j *Judge) checkView(d *Driver, v *gossip.View) {
	j.checkDecided(d, v)
	for i := range v.Members {
		if m := &v.Members[i]; m.Joined == v.Epoch && m.Status != gossip.Joining && len(v.Members) > 1 {
			j.run.Fail("S6", "%s publishes %s, in which the new member %s already votes", d.p.Label, j.run.Names.View(v), j.run.Names.Name(m.ID))
		}
	}
}
