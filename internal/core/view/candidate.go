package view

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// How a node becomes leader.
//
//	stand      when there is no leader, and all seniors are gone, silent or dead
//	pre-vote   ask whether a quorum would promise; changes nothing anywhere
//	prepare    raise the ballot: a quorum promises, and reports what it accepted
//	lead       carry the uncovered attempt on, or begin afresh
//
// Seniority becomes time: a candidate waits one stagger for each senior that is not
// proven dead. A living senior stands first, and its pings stop the juniors' campaigns; a
// silent one costs its juniors a stagger. A proven dead one costs nothing, so the
// survivor of n-1 certain crashes stands in the step that brings the last proof. A weak
// proof of the leader's death starts no campaign: the promise to the leader holds.
//
// Either phase needs a plain quorum of the view, or else a total one (emergency
// takeover): then the living propose a new view in a new generation.

// candidacy is one attempt to become leader.
type candidacy struct {
	ballot Ballot
	base   gossip.Epoch
	// preparing is set once the pre-vote is won.
	preparing bool
	began     clock.Instant
	// askAgain is when the members whose vote is missing are asked again: the request or the
	// answer may be lost.
	askAgain clock.Instant
	deadline clock.Instant
	yes      map[gossip.NodeID]bool
	found    findings
}

// wakeAt is when the candidate asks again or gives up.
func (c *candidacy) wakeAt() clock.Instant { return clock.Min(c.askAgain, c.deadline) }

// findings holds the results that promises have reported.
type findings struct {
	attempt *attempt
	// t0 holds the promisers' clocks, for their leases.
	t0 map[gossip.NodeID]int64
}

// addPromise records a promise.
func (f *findings) addPromise(from gossip.NodeID, m *Promised) {
	if f.t0 == nil {
		f.t0 = map[gossip.NodeID]int64{}
	}
	f.t0[from] = m.T0
	if m.Accepted != nil {
		f.attempt = f.attempt.higher(&attempt{m.AcceptedBallot, m.Accepted.View, m.Emergency})
	}
}

// campaign is a member's way to become leader, over one candidacy after another.
type campaign struct {
	*history
	evidence  *evidence
	quorums   *quorums
	acceptor  *acceptor
	departure *departure
	follower  *follower

	candidacy *candidacy
	// campaignAfter is the earliest time of the next candidacy after a failed one.
	campaignAfter clock.Instant
	// candidateUntil is until when this node leaves the field to the candidate that it
	// promised last.
	candidateUntil clock.Instant
	failures       int
	ahead          ahead
}

// stagger is how long a candidate waits for each living senior.
func (p *campaign) stagger() time.Duration { return p.cfg.Lease / 4 }

// campaignAt returns when this node stands as a candidate if nothing happens before.
func (p *campaign) campaignAt() clock.Instant {
	if !p.votes() {
		return p.follower.joinerAt()
	}
	wait := p.stagger() * time.Duration(min(p.livingSeniors(), staggersMax))
	if p.departure.leaving && !p.departure.allLeave() {
		// A leaving node stands only if no other voter does: its first act as leader is
		// to leave.
		wait += p.cfg.Lease
	}
	at := max(p.follower.leaderlessSince.Add(wait), p.campaignAfter)
	if g := p.acceptor.guard; g.leader != 0 && g.leader != p.self() && p.evidence.mayLive(g.leader) {
		at = max(at, g.until)
	}
	if other := p.acceptor.promised.Node; p.candidateUntil.After(at) && p.view.Member(other) != nil && !p.evidence.dead(other) {
		at = p.candidateUntil
	}
	return at
}

// staggersMax bounds how many staggers a junior waits.
const staggersMax = 16

// ahead caches how many seniors a candidate waits for.
type ahead struct {
	view    *gossip.View
	leader  gossip.NodeID
	seniors int
}

// livingSeniors counts the voters senior to this node that may live, except the leader that it
// has lost. It is called after every step, so the count is cached while no member is
// proven dead.
func (p *campaign) livingSeniors() int {
	a := &p.ahead
	if a.view == p.view && a.leader == p.follower.leader && len(p.evidence.proofs) == 0 {
		return a.seniors
	}
	n := 0
	for i := range p.view.Members {
		m := &p.view.Members[i]
		if m.ID == p.self() {
			break
		}
		if m.Status.Votes() && m.ID != p.follower.leader && !p.evidence.dead(m.ID) {
			n++
		}
	}
	*a = ahead{p.view, p.follower.leader, n}
	if len(p.evidence.proofs) > 0 {
		a.view = nil
	}
	return n
}

// joinerAsks is how many members a joiner asks at a time, repeatedly once half its
// patience is over.
const joinerAsks = 32

// driveCampaign begins a candidacy once campaignAt has passed. A joiner asks for a newer view
// instead, and ends after its patience.
func (c *Core) driveCampaign() bool {
	if c.now.Before(c.campaign.campaignAt()) {
		return false
	}
	switch {
	case c.votes():
		c.campaign.beginCandidacy()
	case c.follower.requestNewerView():
		return false
	default:
		c.endIncarnation(c.view.Epoch, "the view that admitted it has no leader")
	}
	return true
}

// beginCandidacy asks the electorate for the pre-vote.
func (p *campaign) beginCandidacy() {
	ballot := p.acceptor.nextBallot()
	p.candidacy = &candidacy{
		ballot: ballot, base: p.view.Epoch, began: p.now,
		askAgain: p.now.Add(p.cfg.Ping / asks), deadline: p.now.Add(p.cfg.Ping), yes: map[gossip.NodeID]bool{},
	}
	if p.acceptor.wouldPromise(p.self(), ballot, nil) {
		p.candidacy.yes[p.self()] = true
	}
	p.evidence.toElectorate(p.candidacyMessage(p.ref()))
	p.traceEvent("campaigns", p.self(), fmt.Sprintf("round %d, %d dead", ballot.Round, len(p.evidence.proofs)))
}

// endCampaign drops the candidacy: there is a leader, or this node has become it.
func (p *campaign) endCampaign() { p.candidacy, p.failures = nil, 0 }

// restartCampaign makes a candidate whose electorate has changed ask again immediately.
func (p *campaign) restartCampaign() {
	if p.candidacy != nil {
		p.candidacy, p.campaignAfter = nil, 0
	}
}

// yieldToCandidate drops the candidacy and leaves the field to another candidate for a random
// while: otherwise two candidates could outbid each other forever.
func (p *campaign) yieldToCandidate() {
	p.candidacy = nil
	p.candidateUntil = p.now.Add(p.cfg.Ping/4 + p.upTo(p.cfg.Ping))
}

func (p *campaign) onPreVoted(from gossip.NodeID, m *PreVoted) {
	cand := p.candidacy
	if cand == nil || cand.preparing || cand.ballot != m.Ballot || cand.base != m.Base {
		return
	}
	if p.evidence.deny(m.Linked) {
		p.failCandidacy("a proof was denied")
		return
	}
	if m.Yes {
		cand.yes[from] = true
	}
	p.noteRound(m.Promised)
}

// noteRound notes a ballot that a member has promised: a candidacy under a lower one fails.
func (p *campaign) noteRound(b Ballot) {
	p.acceptor.noteBallot(b)
	if p.candidacy != nil && p.candidacy.ballot.Less(b) {
		p.failCandidacy("a member has promised a higher ballot")
	}
}

func (c *Core) onPromised(from gossip.NodeID, m *Promised) {
	c.noteGeneration(m.Generation)
	if m.Accepted.Packed() {
		whole := *m
		if whole.Accepted = Whole(c.unpackView(m.Accepted)); whole.Accepted == nil {
			return
		}
		m = &whole
	}
	if o := c.leadership; o != nil && o.ballot == m.Ballot {
		c.leadership.recordPromise(from, m)
		return
	}
	c.campaign.countPromise(from, m)
}

// countPromise counts a promise to this node as candidate.
func (p *campaign) countPromise(from gossip.NodeID, m *Promised) {
	cand := p.candidacy
	if cand == nil || !cand.preparing || cand.ballot != m.Ballot || cand.base != m.Base {
		return
	}
	if p.evidence.deny(m.Linked) {
		p.failCandidacy("a proof was denied")
		return
	}
	cand.yes[from] = true
	cand.found.addPromise(from, m)
}

func (c *Core) onNack(m *Nack) {
	mine := c.campaign.candidacy != nil && c.campaign.candidacy.ballot == m.Ballot || c.leadership != nil && c.leadership.ballot == m.Ballot
	if !mine || !m.Ballot.Less(m.Promised) {
		return
	}
	if c.leadership != nil {
		c.acceptor.noteBallot(m.Promised)
		c.stepDown("a member has promised a higher ballot")
		return
	}
	c.campaign.noteRound(m.Promised)
}

// failCandidacy ends a candidacy and backs off for a random time that grows with consecutive
// failures.
func (p *campaign) failCandidacy(why string) {
	p.traceEvent("candidacy failed", p.self(), why)
	p.candidacy = nil
	p.failures++
	wait := p.cfg.Ping/4 + p.upTo(p.cfg.Ping*time.Duration(min(p.failures, 5)))
	p.campaignAfter = p.now.Add(wait)
	if p.evidence.evidenceAt() != clock.Never {
		p.campaignAfter = max(p.campaignAfter, p.evidence.evidenceAt())
	}
}

// advanceCandidacy advances the candidacy from pre-vote to prepare, and reports whether the
// promises of a quorum make this node the leader, and in which way.
func (p *campaign) advanceCandidacy() (w way, won, moved bool) {
	cand := p.candidacy
	in := func(id gossip.NodeID) bool { return cand.yes[id] }
	plain := p.quorums.plain(p.view, in)
	total := !plain && p.quorums.total(in)
	switch {
	case !plain && !total:
		if p.now.Before(cand.deadline) {
			return 0, false, p.askMissing()
		}
		p.failCandidacy("no quorum in time")
		return 0, false, true
	case !cand.preparing:
		p.sendPrepares()
		return 0, false, true
	}
	w = p.quorums.chooseWay(in, plain, cand.found.attempt)
	switch w {
	case wayWait:
		if p.now.Before(cand.deadline) {
			return w, false, p.askMissing()
		}
		p.failCandidacy("not all living members answer")
	case wayNone:
		p.failCandidacy("the uncovered attempt needs dead members")
		p.campaignAfter = p.campaignAfter.Add(p.cfg.Lease + p.upTo(p.cfg.Lease))
	default:
		won = true
	}
	return w, won, true
}

// sendPrepares promises the ballot to this node itself and asks the other members to promise
// it.
func (p *campaign) sendPrepares() {
	cand := p.candidacy
	if !p.acceptor.wouldPromise(p.self(), cand.ballot, nil) {
		// This node has since promised a higher ballot, or followed a leader: the quorum
		// of the pre-vote does not release its own promise.
		p.failCandidacy("bound by a promise")
		return
	}
	cand.preparing, cand.began = true, p.now
	cand.askAgain, cand.deadline = p.now.Add(p.cfg.Ping/asks), p.now.Add(p.cfg.Ping)
	cand.yes = map[gossip.NodeID]bool{p.self(): true}
	p.acceptor.promised = cand.ballot
	cand.found.attempt = p.acceptor.attempts[cand.base]
	p.evidence.toElectorate(p.candidacyMessage(p.ref()))
}

// asks is how often a candidate asks a member that does not answer, in each phase.
const asks = 4

// askMissing asks the members whose vote is missing once more, if it is time for that.
func (p *campaign) askMissing() bool {
	cand := p.candidacy
	if p.now.Before(cand.askAgain) {
		return false
	}
	cand.askAgain = p.now.Add(p.cfg.Ping / asks)
	m := p.candidacyMessage(p.ref())
	for i := range p.view.Members {
		if id := p.view.Members[i].ID; p.evidence.mayLive(id) && !cand.yes[id] {
			p.evidence.sendTo(id, m)
		}
	}
	return true
}

// candidacyMessage returns the candidate's current request to its electorate, with its
// view as given.
func (p *campaign) candidacyMessage(base *SentView) Message {
	certain, weak := p.evidence.deadMembers()
	if p.candidacy.preparing {
		return &Prepare{Ballot: p.candidacy.ballot, Base: base, Dead: certain, Weak: weak}
	}
	return &PreVote{Ballot: p.candidacy.ballot, Base: base, Dead: certain, Weak: weak}
}
