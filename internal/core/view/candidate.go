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
	ballot gossip.Ballot
	base   gossip.Epoch
	// preparing is set once the pre-vote is won.
	preparing bool
	began     clock.Instant
	deadline  clock.Instant
	yes       map[gossip.NodeID]bool
	found     findings
}

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

// stagger is how long a candidate waits for each living senior.
func (c *Core) stagger() time.Duration { return c.cfg.Lease / 4 }

// campaignAt returns when this node stands as a candidate if nothing happens before.
func (c *Core) campaignAt() clock.Instant {
	if !c.votes() {
		return clock.Min(max(c.heardAt.Add(c.joinerPatience()/2), c.nextAsk), c.heardAt.Add(c.joinerPatience()))
	}
	wait := c.stagger() * time.Duration(min(c.livingSeniors(), staggersMax))
	if c.departure.leaving && !c.departure.allLeave() {
		// A leaving node stands only if no other voter does: its first act as leader is
		// to leave.
		wait += c.cfg.Lease
	}
	at := max(c.leaderlessSince.Add(wait), c.campaignAfter)
	if g := c.acceptor.guard; g.leader != 0 && g.leader != c.self() && c.evidence.mayLive(g.leader) && c.mutant != mutantPromiseSelf {
		at = max(at, g.until)
	}
	if p := c.acceptor.promised.Node; c.candidateUntil.After(at) && c.view.Member(p) != nil && !c.evidence.dead(p) {
		at = c.candidateUntil
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
func (c *Core) livingSeniors() int {
	a := &c.ahead
	if a.view == c.view && a.leader == c.leader && len(c.evidence.proofs) == 0 {
		return a.seniors
	}
	n := 0
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID == c.self() {
			break
		}
		if m.Status.Votes() && m.ID != c.leader && !c.evidence.dead(m.ID) {
			n++
		}
	}
	*a = ahead{c.view, c.leader, n}
	if len(c.evidence.proofs) > 0 {
		a.view = nil
	}
	return n
}

// driveJoiner asks members for a newer view, and ends after joinerPatience. The joiner may have
// become a voter, or been left out, in a view that it has not received; any member that
// holds it replies with it.
func (c *Core) driveJoiner() bool {
	if !c.now.Before(c.heardAt.Add(c.joinerPatience())) && c.mutant != mutantPatientJoiner {
		c.endIncarnation(c.view.Epoch, "the view that admitted it has no leader")
		return true
	}
	c.nextAsk = c.now.Add(c.cfg.Lease / 2)
	if c.mutant == mutantPatientJoiner {
		c.heardAt = c.now
	}
	for i := range min(len(c.view.Members), joinerAsks) {
		c.sendTo(c.view.Members[i].ID, &Decided{View: c.ref()})
	}
	return false
}

// joinerAsks is how many members a joiner asks at a time, repeatedly once half its
// patience is over.
const joinerAsks = 32

// joinerPatience is how long a joining member waits for a leader. All members that held
// the view that admitted it may have died; it holds no lease and its promises bind no
// quorum, so it may return as a new incarnation. A joiner that has accepted a view in
// which it votes may be needed to commit it, so it waits longer (seed 19579).
func (c *Core) joinerPatience() time.Duration {
	patience := 2 * (c.cfg.RemoveAfter + c.cfg.Lease)
	if a := c.acceptor.attempts[c.view.Epoch]; a != nil && a.next.Member(c.self()) != nil && a.next.Member(c.self()).Status.Votes() {
		return 2 * patience
	}
	return patience
}

// driveCampaign begins a candidacy once campaignAt has passed.
func (c *Core) driveCampaign() bool {
	if c.now.Before(c.campaignAt()) {
		return false
	}
	if !c.votes() {
		return c.driveJoiner()
	}
	ballot := c.acceptor.nextBallot()
	c.candidacy = &candidacy{
		ballot: ballot, base: c.view.Epoch, began: c.now,
		deadline: c.now.Add(c.cfg.Ping), yes: map[gossip.NodeID]bool{},
	}
	if c.acceptor.wouldPromise(c.self(), ballot, nil) {
		c.candidacy.yes[c.self()] = true
	}
	if c.mutant == mutantNoPreVote {
		c.sendPrepares()
		return true
	}
	c.evidence.toElectorate(c.candidacyMessage(c.ref()))
	c.traceEvent("campaigns", c.self(), fmt.Sprintf("round %d, %d dead", ballot.Round, len(c.evidence.proofs)))
	return true
}

func (c *Core) onPreVoted(from gossip.NodeID, m *PreVoted) {
	cand := c.candidacy
	if cand == nil || cand.preparing || cand.ballot != m.Ballot || cand.base != m.Base {
		return
	}
	if c.evidence.deny(m.Hears) {
		c.failCandidacy("a proof was denied")
		return
	}
	if m.Yes {
		cand.yes[from] = true
	}
	c.noteRound(m.Promised)
}

// noteRound notes a ballot that a member has promised: a candidacy under a lower one fails.
func (c *Core) noteRound(b gossip.Ballot) {
	c.acceptor.noteBallot(b)
	if c.candidacy != nil && c.candidacy.ballot.Less(b) {
		c.failCandidacy("a member has promised a higher ballot")
	}
}

func (c *Core) onPromised(from gossip.NodeID, m *Promised) {
	c.noteGeneration(m.Generation)
	if m.Accepted.packed() {
		whole := *m
		if whole.Accepted = Whole(c.unpackView(m.Accepted)); whole.Accepted == nil {
			return
		}
		m = &whole
	}
	if o := c.leadership; o != nil && o.ballot == m.Ballot {
		o.onPromised(c, from, m)
		return
	}
	cand := c.candidacy
	if cand == nil || !cand.preparing || cand.ballot != m.Ballot || cand.base != m.Base {
		return
	}
	if c.evidence.deny(m.Hears) {
		c.failCandidacy("a proof was denied")
		return
	}
	cand.yes[from] = true
	cand.found.addPromise(from, m)
}

func (c *Core) onNack(m *Nack) {
	mine := c.candidacy != nil && c.candidacy.ballot == m.Ballot || c.leadership != nil && c.leadership.ballot == m.Ballot
	if !mine || !m.Ballot.Less(m.Promised) {
		return
	}
	if c.leadership != nil {
		c.acceptor.noteBallot(m.Promised)
		c.stepDown("a member has promised a higher ballot")
		return
	}
	c.noteRound(m.Promised)
}

// failCandidacy ends a candidacy and backs off for a random time that grows with consecutive
// failures.
func (c *Core) failCandidacy(why string) {
	c.traceEvent("candidacy failed", c.self(), why)
	c.candidacy = nil
	c.failures++
	wait := c.cfg.Ping/4 + c.upTo(c.cfg.Ping*time.Duration(min(c.failures, 5)))
	c.campaignAfter = c.now.Add(wait)
	if c.evidence.evidenceAt() != clock.Never {
		c.campaignAfter = max(c.campaignAfter, c.evidence.evidenceAt())
	}
}

// driveCandidacy advances the candidacy: from pre-vote to prepare to leadership.
func (c *Core) driveCandidacy() bool {
	cand := c.candidacy
	in := func(id gossip.NodeID) bool { return cand.yes[id] }
	plain := c.quorums.plain(c.view, in)
	total := !plain && c.quorums.total(in)
	switch {
	case !plain && !total:
		if c.now.Before(cand.deadline) {
			return false
		}
		c.failCandidacy("no quorum in time")
	case !cand.preparing:
		c.sendPrepares()
	default:
		return c.actOnPromises(c.quorums.chooseWay(in, plain, cand.found.attempt))
	}
	return true
}

// actOnPromises takes the way that a quorum's promises allow.
func (c *Core) actOnPromises(w way) bool {
	switch w {
	case wayWait:
		if c.now.Before(c.candidacy.deadline) {
			return false
		}
		c.failCandidacy("not all living members answer")
	case wayNone:
		c.failCandidacy("the uncovered attempt needs dead members")
		c.campaignAfter = c.campaignAfter.Add(c.cfg.Lease + c.upTo(c.cfg.Lease))
	default:
		c.becomeLeader(w)
	}
	return true
}

// sendPrepares promises the ballot to this node itself and asks the other members to promise
// it.
func (c *Core) sendPrepares() {
	cand := c.candidacy
	if !c.acceptor.wouldPromise(c.self(), cand.ballot, nil) && c.mutant != mutantPromiseSelf {
		// This node has since promised a higher ballot, or followed a leader: the quorum
		// of the pre-vote does not release its own promise.
		c.failCandidacy("bound by a promise")
		return
	}
	cand.preparing, cand.began = true, c.now
	cand.deadline = c.now.Add(c.cfg.Ping)
	cand.yes = map[gossip.NodeID]bool{c.self(): true}
	c.acceptor.promised = cand.ballot
	cand.found.attempt = c.acceptor.attempts[cand.base]
	c.evidence.toElectorate(c.candidacyMessage(c.ref()))
}
