package view

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// leadership is the state of a leader.
type leadership struct {
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

	// round is the number of the newest round of pings; sent holds when the newest rounds
	// were sent.
	round    uint64
	sent     [roundsKept]clock.Instant
	nextPing clock.Instant
	// now and next count the answers of the current view and of the proposed one.
	now, next *tally
	// lastStaleRound is the newest round sent before the current view was committed: rounds up
	// to it no longer count.
	lastStaleRound uint64
	// quorumUntil is the end of the leader lease that the answers would allow even
	// without free. Until then the leader does not step down, though it may hold no lease
	// yet.
	quorumUntil clock.Instant
	// drivenAt is when the leader was last driven, wokeAt when that happened after a
	// pause in which it could process no answers.
	drivenAt, wokeAt clock.Instant
	// reviewNeeded is set when there may be a reason to change the view.
	reviewNeeded bool
	// leaseUntil is the end of the leader lease. Invariant: it never goes back.
	leaseUntil clock.Instant
	peers      map[gossip.NodeID]*peer

	proposal *proposal
	// former is the view before the present one in this leader's term; packed is the
	// present one as sent to holders of former.
	former *gossip.View
	packed *SentView

	joins  []gossip.Node
	leaves map[gossip.NodeID]bool
	// notices holds the members that announced to leave.
	notices map[gossip.NodeID]bool
	// batchAt is when the waiting joins and leaves are proposed.
	batchAt clock.Instant
	// raiseAt is until when a joiner that could become up waits for other joiners.
	raiseAt clock.Instant
	doubts  map[gossip.NodeID]*doubt
}

const roundsKept = 64

// peer is the leader's state about a member.
type peer struct {
	// t0 is the member's clock in its newest answer, round the newest it answered.
	t0    int64
	round uint64
	// answeredAt is when that answer arrived; for a member without an answer, when the
	// leader's term began.
	answeredAt clock.Instant
	// epoch is the newest view that the member has acknowledged.
	epoch       gossip.Epoch
	unreachable []gossip.NodeID
	// whole is set when it has requested whole views.
	whole bool
	// leaseWithheldSince is since when the leader withholds leases from it although it answers.
	leaseWithheldSince clock.Instant
	// now and next report whether it votes in the current view and in the proposed one,
	// stays whether it is in the proposed one.
	now, next, stays bool
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
	o := &leadership{
		ballot: cand.ballot, since: c.now, nextPing: c.now, drivenAt: c.now, reviewNeeded: true,
		peers: map[gossip.NodeID]*peer{}, leaves: map[gossip.NodeID]bool{}, notices: map[gossip.NodeID]bool{}, doubts: map[gossip.NodeID]*doubt{},
	}
	if c.mutant == mutantSinceBegan {
		o.since = cand.began
	}
	for i := range c.view.Members {
		id := c.view.Members[i].ID
		p := &peer{answeredAt: o.since, now: c.view.Members[i].Status.Votes()}
		if t0, ok := cand.found.t0[id]; ok {
			p.t0, p.answeredAt, p.epoch = t0, c.now, c.view.Epoch
		}
		o.peers[id] = p
	}
	c.leadership, c.follower.leader = o, c.self()
	c.campaign.endCampaign()
	maps.Copy(o.leaves, c.departure.leavers)
	if len(o.leaves) > 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
	o.now = c.newTally(c.view)
	c.foreign.followForeign(nil)
	for _, id := range slices.Concat(c.evidence.deadMembers()) {
		// Members that promised were asked about the dead and have no link with them.
		o.doubts[id] = &doubt{asked: cand.began, waiting: c.evidence.witnesses(id), answered: maps.Clone(cand.yes)}
	}
	c.traceEvent("leads", c.self(), "")
	switch w {
	case wayTakeOver:
		c.takeOver(cand.yes)
	case wayCarry:
		c.carryAttempt(cand.found.attempt)
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
	o := c.leadership
	if c.now.Sub(o.drivenAt) > c.cfg.Lease/2 && c.mutant != mutantStallRemoves {
		o.wokeAt = c.now
	}
	o.drivenAt = c.now
	c.driveLeaderLease()
	if c.now.Sub(max(o.quorumUntil, o.since.Add(c.cfg.Lease))) > c.cfg.Lease {
		c.stepDown("no lease for too long")
		c.campaign.campaignAfter = c.now.Add(c.cfg.Ping + c.upTo(c.cfg.Lease))
		return true
	}
	if o.proposal != nil && c.quorums.hopeless(o.proposal.next, o.proposal.emergency, c.evidence.mayLive) && !c.mustTakeOver() {
		c.letOthersLead()
		return true
	}
	if c.mustTakeOver() {
		c.stepDown("the living are no longer a quorum")
		c.campaign.campaignAfter = c.now
		return true
	}
	if o.proposal != nil {
		if c.driveProposal() {
			return true
		}
	} else if !o.free {
		if c.drivePreparation() {
			return true
		}
	} else if c.proposeNext() {
		return true
	}
	if !c.now.Before(o.nextPing) {
		c.sendRound()
	}
	return false
}

// mustTakeOver reports whether only an emergency takeover can continue.
func (c *Core) mustTakeOver() bool {
	if len(c.evidence.proofs) == 0 {
		return false
	}
	if p := c.leadership.proposal; p != nil {
		// After one death too many, begin a new takeover, or replace the attempt by one.
		return c.quorums.hopeless(p.next, p.emergency, c.evidence.mayLive) && c.quorums.total(c.evidence.mayLive)
	}
	return !c.quorums.plain(c.view, c.evidence.mayLive) && c.quorums.total(c.evidence.mayLive)
}

// BeyondHelp reports whether waiting is in vain although the living may be a quorum of
// the view: the attempt that this node has accepted on top of its view can no longer be
// committed, and this node cannot take over.
func (c *Core) BeyondHelp() bool {
	if c.ended || c.view == nil || len(c.evidence.proofs) == 0 {
		return false
	}
	a := c.acceptor.attempts[c.view.Epoch]
	return a != nil && c.quorums.hopeless(a.next, a.emergency, func(id gossip.NodeID) bool { return !c.evidence.dead(id) }) && !c.quorums.total(c.evidence.mayLive)
}

// way is the next step after a prepare that a quorum has answered.
type way uint8

const (
	// wayAfresh: nothing was uncovered.
	wayAfresh way = iota
	// wayCarry: an attempt was uncovered, to be carried on.
	wayCarry
	// wayTakeOver: an emergency takeover.
	wayTakeOver
	// wayWait: a takeover, once all living members answer.
	wayWait
	// wayNone: the uncovered attempt needs dead members, and this node cannot take over.
	wayNone
)

// letOthersLead steps down for long enough that another candidate can try.
func (c *Core) letOthersLead() {
	c.stepDown("the carried attempt needs dead members")
	c.campaign.campaignAfter = c.now.Add(c.cfg.Lease + c.upTo(c.cfg.Lease))
}

// leaderDeadline returns when the leader must next be driven.
func (c *Core) leaderDeadline() clock.Instant {
	o := c.leadership
	d := o.nextPing
	if o.batchAt.After(c.now) && o.proposal == nil {
		d = clock.Min(d, o.batchAt)
	}
	if o.raiseAt.After(c.now) {
		d = clock.Min(d, o.raiseAt)
	}
	if o.proposal != nil && o.proposal.notBefore.After(c.now) {
		d = clock.Min(d, o.proposal.notBefore)
	}
	for _, q := range o.doubts { // order-free: a minimum
		if at := q.asked.Add(c.doubtWait()); at.After(c.now) {
			d = clock.Min(d, at)
		}
	}
	return clock.Min(d, c.evidence.evidenceAt())
}

// sendRound pings every member; while a proposal is in flight the pings are accepts.
func (c *Core) sendRound() {
	o := c.leadership
	o.round++
	o.now.openRound(o.round)
	o.next.openRound(o.round)
	o.sent[o.round%roundsKept] = c.now
	o.reviewNeeded = true
	o.nextPing = c.now.Add(c.cfg.Ping)
	// The leader is also an acceptor and has answered its own round.
	c.acceptor.guardLeader(c.self())
	pings := make([]Ping, len(c.view.Members)) // one allocation for all
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID == c.self() {
			continue
		}
		c.sendTo(m.ID, c.roundMessage(m, o.peers[m.ID], &pings[i]))
	}
	if c.mutant != mutantAskOnce {
		c.sendPrepare()
	}
	c.driveLeaderLease()
	c.foreign.driveForeign()
}

// roundMessage returns the present round's message to a member; a ping is stored in p.
func (c *Core) roundMessage(m *gossip.Member, q *peer, p *Ping) Message {
	o := c.leadership
	life := o.quorumUntil.After(c.now) || c.now.Sub(o.since) < 2*c.cfg.Lease
	*p = Ping{Ballot: o.ballot, Cluster: c.view.Cluster, Epoch: c.view.Epoch, Round: o.round, Life: life}
	if m.Status == gossip.Joining {
		p.Secret = c.membership.secret
	}
	c.fillGrant(p, m, q)
	if o.proposal != nil && !c.now.Before(o.proposal.notBefore) {
		a := &Accept{Ping: *p, Base: Whole(c.view), Next: o.proposal.packed, Emergency: o.proposal.emergency}
		if !q.whole && (q.epoch == c.view.Epoch || m.Joined < c.view.Epoch) {
			a.Base = c.ref()
		}
		return a
	}
	switch {
	case q.epoch == c.view.Epoch:
	case o.former != nil && q.epoch == o.former.Epoch && !q.whole:
		p.View = o.packed
	case q.whole || m.Joined >= c.view.Epoch:
		p.View = Whole(c.view)
	default:
		p.View = c.ref() // it may hold the view, and requests it otherwise
	}
	return p
}

// sendPrepare retransmits a leader's prepare in flight to the members that have not
// promised.
func (c *Core) sendPrepare() {
	prep := c.leadership.prep
	if prep == nil || prep.base != c.view.Epoch {
		return
	}
	msg := &Prepare{Ballot: c.leadership.ballot, Base: c.ref()}
	msg.Dead, msg.Weak = c.evidence.deadMembers()
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; !prep.yes[id] && c.evidence.mayLive(id) {
			c.sendTo(id, msg)
		}
	}
}

func (c *Core) onPong(from gossip.NodeID, m *Pong) {
	o := c.leadership
	if o == nil || m.Ballot != o.ballot {
		return
	}
	p := o.peers[from]
	if p == nil || m.Round > o.round {
		return
	}
	if m.Round >= p.round {
		o.recordAnswer(from, p, m.Round)
		p.t0, p.answeredAt, p.unreachable = m.T0, c.now, m.Unreachable
	}
	if m.Epoch > p.epoch {
		p.epoch, p.whole = m.Epoch, false
		o.reviewNeeded = true
	}
	if o.proposal != nil && m.Accepted == o.proposal.base && m.Accepted != 0 {
		o.proposal.accepted[from] = true
	}
}

// recordAnswer records that a member answered a round.
func (o *leadership) recordAnswer(id gossip.NodeID, p *peer, round uint64) {
	if p.now {
		o.now.moveVoter(id, p.round, round, o.round)
	}
	if p.next && o.next != nil {
		o.next.moveVoter(id, p.round, round, o.round)
	}
	p.round = round
}

// requestReview makes the leader check whether the view must change.
func (c *Core) requestReview() {
	if c.leadership != nil {
		c.leadership.reviewNeeded = true
	}
}

// sentAt returns when a round was sent.
func (o *leadership) sentAt(round uint64) clock.Instant { return o.sent[round%roundsKept] }

// drivePreparation runs the prepare in the view that a carried attempt led to.
func (c *Core) drivePreparation() bool {
	o := c.leadership
	if o.prep == nil || o.prep.base != c.view.Epoch {
		o.prep = &preparation{base: c.view.Epoch, yes: map[gossip.NodeID]bool{c.self(): true}}
		o.prep.found.attempt = c.acceptor.attempts[c.view.Epoch]
		c.sendPrepare()
	}
	in := func(id gossip.NodeID) bool { return o.prep.yes[id] }
	plain := c.quorums.plain(c.view, in)
	if !plain && !c.quorums.total(in) {
		return false
	}
	prep := o.prep
	w := c.quorums.chooseWay(in, plain, prep.found.attempt)
	if w == wayWait {
		return false
	}
	o.prep = nil
	switch w {
	case wayTakeOver:
		c.takeOver(prep.yes)
	case wayCarry:
		c.carryAttempt(prep.found.attempt)
	case wayAfresh:
		o.free, o.reviewNeeded = true, true
		o.nextPing = c.now
		c.traceEvent("free", c.self(), "")
	default:
		c.letOthersLead()
	}
	return true
}

// onPromised handles a promise to this node as leader.
func (o *leadership) onPromised(c *Core, from gossip.NodeID, m *Promised) {
	if p := o.peers[from]; p != nil {
		p.answeredAt, p.epoch = c.now, max(p.epoch, m.Base)
		if p.round == 0 {
			p.t0 = m.T0
		}
		o.reviewNeeded = true
	}
	c.evidence.deny(m.Hears)
	for _, id := range m.Hears {
		delete(o.doubts, id)
	}
	for _, d := range o.doubts { // order-free: each gets the same
		d.answered[from] = true
	}
	if o.prep == nil || o.prep.base != m.Base {
		return
	}
	o.prep.yes[from] = true
	o.prep.found.addPromise(from, m)
}

// mayRule reports whether this leader may act for its cluster.
func (c *Core) mayRule() bool {
	o := c.leadership
	return o != nil && o.free && o.leaseUntil.After(c.now)
}
