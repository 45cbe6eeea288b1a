package view

import (
	"maps"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
)

// leadership is the state of a leader.
type leadership struct {
	*history
	evidence   *evidence
	quorums    *quorums
	acceptor   *acceptor
	holder     *leaseHolder
	departure  *departure
	foreign    *encounters
	membership *membership
	rounds
	requests
	doubts doubts

	ballot Ballot
	// since is when its prepare completed. Each promise was given before that, and after
	// the promiser's promise to a former leader had ended; the prepare itself may have
	// been sent long before.
	since clock.Instant
	// free is set once a prepare in the current view has completed and uncovered nothing.
	// Invariant: without it no lease is held or granted.
	free bool
	// prep is the prepare in flight in a view that a carried attempt led to.
	prep *preparation

	// drivenAt is when the leader was last driven, wokeAt when that happened after a
	// pause in which it could process no answers.
	drivenAt, wokeAt clock.Instant
	// reviewNeeded is set when there may be a reason to change the view.
	reviewNeeded bool

	proposal *proposal
	// changeFrom is when the next view may be proposed; see viewSpacing.
	changeFrom clock.Instant
	// former is the view before the present one in this leader's term; packed is the
	// present one as sent to holders of former.
	former *gossip.View
	packed *SentView
}

// preparation is a prepare by a node that already leads.
type preparation struct {
	base  gossip.Epoch
	yes   map[gossip.NodeID]bool
	found findings
}

// becomeLeader makes this node the leader, after a quorum has answered its prepare.
func (c *Core) becomeLeader(w way) {
	cand := c.campaign.candidacy
	c.leadership, c.follower.leader = newLeadership(cand.ballot, c.now), c.self()
	c.campaign.endCampaign()
	c.wireMachines()
	c.leadership.beginTerm(cand, w)
}

// newLeadership returns a leadership under a ballot, from now on.
func newLeadership(ballot Ballot, now clock.Instant) *leadership {
	return &leadership{
		ballot: ballot, since: now, drivenAt: now, reviewNeeded: true,
		rounds:   rounds{nextPing: now, peers: map[gossip.NodeID]*peer{}},
		requests: requests{leaves: map[gossip.NodeID]bool{}, notices: map[gossip.NodeID]bool{}},
		doubts:   doubts{ballot: ballot, asked: map[gossip.NodeID]*doubt{}},
	}
}

// wireMachines gives the leadership's machines those that they work with.
func (o *leadership) wireMachines() {
	o.rounds.history, o.requests.history, o.doubts.history = o.history, o.history, o.history
	o.doubts.evidence = o.evidence
}

// beginTerm begins the term after the candidacy's promises, in the way that they allow.
func (o *leadership) beginTerm(cand *candidacy, w way) {
	for i := range o.view.Members {
		id := o.view.Members[i].ID
		p := &peer{answeredAt: o.since, now: o.view.Members[i].Status.Votes()}
		if t0, ok := cand.found.t0[id]; ok {
			p.t0, p.answeredAt, p.epoch = t0, o.now, o.view.Epoch
		}
		o.peers[id] = p
	}
	maps.Copy(o.leaves, o.departure.leavers)
	if len(o.leaves) > 0 {
		o.startBatch()
	}
	o.current = o.newTally(o.view)
	o.foreign.followForeign(nil)
	for _, id := range slices.Concat(o.evidence.deadMembers()) {
		// A promise also answers the question about the dead: its member has no link to them.
		o.doubts.asked[id] = &doubt{asked: cand.began, waiting: o.evidence.witnesses(id), answered: maps.Clone(cand.yes)}
	}
	o.traceEvent("leads", o.self(), "")
	switch w {
	case wayTakeOver:
		o.takeOver(cand.yes)
	case wayCarry:
		o.carryAttempt(cand.found.attempt)
	default:
		o.free = true
	}
}

// stepDown ends this node's leadership. Granted leases expire by themselves.
func (c *Core) stepDown(why string) {
	if c.leadership == nil {
		return
	}
	c.leadership, c.foreign.met = nil, nil
	c.follower.leader, c.follower.leaderlessSince = 0, c.now
	c.campaign.campaignAfter = c.now.Add(c.cfg.Ping/4 + c.upTo(c.cfg.Ping))
	c.holder.loseLeaderLease()
	c.traceEvent("steps down", c.self(), why)
}

// driveLeader performs the leader's due work and reports whether anything changed.
func (c *Core) driveLeader() bool {
	moved, commit, r := c.leadership.advanceTerm()
	switch {
	case r != nil:
		c.resign(r)
		return true
	case commit:
		c.commitProposal()
		return true
	}
	return moved
}

// resignation is the reason for which a leader steps down. It stands again after pause and a
// random part of spread.
type resignation struct {
	reason        string
	pause, spread time.Duration
}

// resign steps down for the time that the resignation gives.
func (c *Core) resign(r *resignation) {
	c.stepDown(r.reason)
	c.campaign.campaignAfter = c.now.Add(r.pause + c.upTo(r.spread))
}

// advanceTerm performs the leader's due work. It reports whether anything changed, and
// whether the proposal can be committed, or returns the reason to step down.
func (o *leadership) advanceTerm() (moved, commit bool, r *resignation) {
	if o.now.Sub(o.drivenAt) > o.cfg.Lease/2 {
		o.wokeAt = o.now
	}
	o.drivenAt = o.now
	o.driveLeaderLease()
	if o.now.Sub(max(o.quorumUntil, o.since.Add(o.cfg.Lease))) > o.cfg.Lease {
		return true, false, &resignation{"no lease for too long", o.cfg.Ping, o.cfg.Lease}
	}
	if o.proposal != nil && o.quorums.hopeless(o.proposal.next, o.proposal.emergency, o.evidence.mayLive) && !o.mustTakeOver() {
		return true, false, o.letOthersLead()
	}
	if o.mustTakeOver() {
		return true, false, &resignation{reason: "the living are no longer a quorum"}
	}
	switch {
	case o.proposal != nil:
		commit = o.driveProposal()
	case !o.free:
		moved, r = o.drivePreparation()
	default:
		moved = o.proposeNext()
	}
	if !moved && !commit && r == nil && !o.now.Before(o.nextPing) {
		o.sendRound()
	}
	return moved, commit, r
}

// mustTakeOver reports whether only an emergency takeover can continue.
func (o *leadership) mustTakeOver() bool {
	if len(o.evidence.proofs) == 0 {
		return false
	}
	if p := o.proposal; p != nil {
		// After one death too many, begin a new takeover, or replace the attempt by one.
		return o.quorums.hopeless(p.next, p.emergency, o.evidence.mayLive) && o.quorums.total(o.evidence.mayLive)
	}
	return !o.quorums.plain(o.view, o.evidence.mayLive) && o.quorums.total(o.evidence.mayLive)
}

// BeyondHelp reports whether waiting is in vain although the living may be a quorum of
// the view: the attempt that this node has accepted on top of its view can no longer be
// committed, and this node cannot take over.
func (c *Core) BeyondHelp() bool {
	if c.ended || len(c.evidence.proofs) == 0 {
		return false
	}
	a := c.acceptor.attempts[c.view.Epoch]
	return a != nil && c.quorums.hopeless(a.next, a.emergency, func(id gossip.NodeID) bool { return !c.evidence.dead(id) }) && !c.quorums.total(c.evidence.mayLive)
}

// letOthersLead resigns for long enough that another candidate can try.
func (o *leadership) letOthersLead() *resignation {
	return &resignation{"the carried attempt needs dead members", o.cfg.Lease, o.cfg.Lease}
}

// leaderDeadline returns when the leader must next be driven.
func (o *leadership) leaderDeadline() clock.Instant {
	d := o.nextPing
	if o.batchAt.After(o.now) && o.proposal == nil {
		d = clock.Min(d, o.batchAt)
	}
	if o.raiseAt.After(o.now) {
		d = clock.Min(d, o.raiseAt)
	}
	if o.changeFrom.After(o.now) && o.proposal == nil {
		d = clock.Min(d, o.changeFrom)
	}
	if o.proposal != nil && o.proposal.notBefore.After(o.now) {
		d = clock.Min(d, o.proposal.notBefore)
	}
	return clock.Min(clock.Min(d, o.doubts.answersDue()), o.evidence.evidenceAt())
}

// sendRound pings every member; while a proposal is in flight the pings are accepts.
func (o *leadership) sendRound() {
	o.beginRound()
	o.reviewNeeded = true
	// The leader is also an acceptor and has answered its own round.
	o.acceptor.guardLeader(o.self())
	pings := make([]Ping, len(o.view.Members)) // one allocation for all
	for i := range o.view.Members {
		m := &o.view.Members[i]
		if m.ID == o.self() {
			continue
		}
		o.sendTo(m.ID, o.roundMessage(m, o.peers[m.ID], &pings[i]))
	}
	o.sendPrepare()
	o.driveLeaderLease()
	o.foreign.driveForeign()
}

// roundMessage returns the present round's message to a member; a ping is stored in p.
func (o *leadership) roundMessage(m *gossip.Member, q *peer, p *Ping) Message {
	life := o.quorumUntil.After(o.now) || o.now.Sub(o.since) < 2*o.cfg.Lease
	*p = Ping{Ballot: o.ballot, Cluster: o.view.Cluster, Epoch: o.view.Epoch, Round: o.round, Life: life}
	if m.Status == gossip.Joining {
		p.Secret = o.membership.secret
	}
	o.fillGrant(p, m, q)
	if o.proposal != nil && !o.now.Before(o.proposal.notBefore) {
		a := &Accept{Ping: *p, Base: Whole(o.view), Next: o.proposal.packed, Emergency: o.proposal.emergency}
		if !q.whole && (q.epoch == o.view.Epoch || m.Joined < o.view.Epoch) {
			a.Base = o.ref()
		}
		return a
	}
	switch {
	case q.epoch == o.view.Epoch:
	case q.whole || m.Joined >= o.view.Epoch:
		p.View = Whole(o.view)
	case o.former != nil:
		p.View = o.packed // former was sent to it, even if it has not answered in former yet
	default:
		p.View = o.ref() // it may hold the view, and requests it otherwise
	}
	return p
}

// sendPrepare retransmits a leader's prepare in flight to the members that have not
// promised.
func (o *leadership) sendPrepare() {
	prep := o.prep
	if prep == nil || prep.base != o.view.Epoch {
		return
	}
	msg := &Prepare{Ballot: o.ballot, Base: o.ref()}
	msg.Dead, msg.Weak = o.evidence.deadMembers()
	for i := range o.view.Members {
		if id := o.view.Members[i].ID; !prep.yes[id] && o.evidence.mayLive(id) {
			o.sendTo(id, msg)
		}
	}
}

// onDoubted records a member's answer to a question about deaths; o may be nil.
func (o *leadership) onDoubted(from gossip.NodeID, m *Doubted) {
	if o != nil && o.ballot == m.Ballot {
		o.doubts.recordAnswer(from, m)
		o.reviewNeeded = true
	}
}

// onPong counts a member's answer to a round; o may be nil.
func (o *leadership) onPong(from gossip.NodeID, m *Pong) {
	if o == nil || m.Ballot != o.ballot {
		return
	}
	p := o.peers[from]
	if p == nil || m.Round > o.round {
		return
	}
	if m.Round >= p.round {
		o.recordAnswer(from, p, m.Round)
		p.t0, p.answeredAt, p.unreachable = m.T0, o.now, m.Unreachable
	}
	if m.Epoch > p.epoch {
		p.epoch, p.whole = m.Epoch, false
		o.reviewNeeded = true
	}
	if o.proposal != nil && m.Accepted == o.proposal.base && m.Accepted != 0 {
		o.proposal.accepted[from] = true
	}
}

// requestReview makes the leader check whether the view must change.
func (c *Core) requestReview() {
	if c.leadership != nil {
		c.leadership.reviewNeeded = true
	}
}

// drivePreparation runs the prepare in the view that a carried attempt led to.
func (o *leadership) drivePreparation() (moved bool, r *resignation) {
	if o.prep == nil || o.prep.base != o.view.Epoch {
		o.prep = &preparation{base: o.view.Epoch, yes: map[gossip.NodeID]bool{o.self(): true}}
		o.prep.found.attempt = o.acceptor.attempts[o.view.Epoch]
		o.sendPrepare()
	}
	in := func(id gossip.NodeID) bool { return o.prep.yes[id] }
	plain := o.quorums.plain(o.view, in)
	if !plain && !o.quorums.total(in) {
		return false, nil
	}
	prep := o.prep
	w := o.quorums.chooseWay(in, plain, prep.found.attempt)
	if w == wayWait {
		return false, nil
	}
	o.prep = nil
	switch w {
	case wayTakeOver:
		o.takeOver(prep.yes)
	case wayCarry:
		o.carryAttempt(prep.found.attempt)
	case wayAfresh:
		o.free, o.reviewNeeded = true, true
		o.nextPing = o.now
		o.traceEvent("free", o.self(), "")
	default:
		r = o.letOthersLead()
	}
	return true, r
}

// recordPromise handles a promise to this node as leader.
func (o *leadership) recordPromise(from gossip.NodeID, m *Promised) {
	if p := o.peers[from]; p != nil {
		p.answeredAt, p.epoch = o.now, max(p.epoch, m.Base)
		if p.round == 0 {
			p.t0 = m.T0
		}
		o.reviewNeeded = true
	}
	o.doubts.dropDenied(m.Linked)
	for _, d := range o.doubts.asked { // order-free: each gets the same
		d.answered[from] = true
	}
	if o.prep == nil || o.prep.base != m.Base {
		return
	}
	o.prep.yes[from] = true
	o.prep.found.addPromise(from, m)
}

// mayRule reports whether this leader may act for its cluster.
func (o *leadership) mayRule() bool { return o.free && o.leaseUntil.After(o.now) }

// sendWholeView repeats the newest messages to a member, with the whole view.
func (o *leadership) sendWholeView(m *gossip.Member) {
	p := o.peers[m.ID]
	p.whole = true
	o.sendTo(m.ID, o.roundMessage(m, p, &Ping{}))
	if o.prep != nil && o.prep.base == o.view.Epoch && !o.prep.yes[m.ID] {
		certain, weak := o.evidence.deadMembers()
		o.sendTo(m.ID, &Prepare{Ballot: o.ballot, Base: Whole(o.view), Dead: certain, Weak: weak})
	}
}

// driveLeaderLease counts the rounds' answers and renews the leader lease.
func (o *leadership) driveLeaderLease() {
	n := o.current.newestAnswered(o.proposed, o.round, o.lastStaleRound)
	if n == 0 {
		return
	}
	sent := o.sentAt(n)
	until := sent.Add(o.cfg.Lease - o.margin(o.cfg.Lease))
	o.quorumUntil = max(o.quorumUntil, until)
	if !o.free {
		return
	}
	first := !o.leaseUntil.After(o.now)
	if !until.After(o.leaseUntil) || !until.After(o.now) {
		return
	}
	if assert.Enabled {
		o.assertLease(n, until)
	}
	o.leaseUntil = until
	if first {
		// Members' leases may have expired meanwhile: they are granted again immediately.
		o.nextPing = o.now
		o.traceEvent("leader lease", o.self(), "")
	}
	o.holder.adoptLeaderLease(until, sent)
}

// fillGrant sets the lease that a ping grants a member.
func (o *leadership) fillGrant(p *Ping, m *gossip.Member, peer *peer) {
	if peer == nil || peer.t0 == 0 || !m.Status.Votes() || !o.leaseUntil.After(o.now) {
		return
	}
	if !o.free {
		return
	}
	leftOut := len(o.leaves) > 0 && o.leaves[m.ID] || peer.leaseWithheldSince != 0 || o.evidence.dead(m.ID) || o.proposal != nil && !peer.stays
	if leftOut {
		return
	}
	if assert.Enabled {
		o.proposal.assertGrant(m.ID)
	}
	left := o.leaseUntil.Sub(o.now)
	p.Echo, p.Remaining = peer.t0, max(left-o.margin(left), 0)
}
