package view

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// How a view follows another.
//
//	propose   the leader, free in view e, builds e+1: removals, joins, status changes
//	accept    sent to all members of e; each stores the attempt under e
//	commit    a quorum of e and a quorum of e+1 have accepted
//	send      the next round carries the view; members that it leaves out get it as well
//
// Carrying. An attempt that a prepare uncovers may have been chosen by a quorum that is
// now silent, so the new leader proposes it again unchanged, even if it leaves the new
// leader out. If it leaves out a member that is not certainly dead, it waits for
// RemoveAfter first: old leases may still run, and that member may count on the window of
// its proofs. During that time a quorum's answers keep the leader from stepping down, but
// it holds no lease. Such a view may already have successors, so the leader prepares
// again in it, retransmitting the prepare every round, and is free only once nothing is
// uncovered.
//
// A sent proposal never changes: its accepts are retransmitted with every round until it
// is committed or the leader steps down.
//
// Members of e+1 that are not in e join with it; they do not vote, so they receive no
// accepts. They learn the view when it is committed.

// proposal is a proposed view and its answers.
type proposal struct {
	base gossip.Epoch
	next *gossip.View
	// packed is next as sent to holders of the base.
	packed    *SentView
	emergency bool
	// carried is set on another leader's attempt.
	carried bool
	// notBefore holds back the carrying of a removal for silence.
	notBefore clock.Instant
	accepted  map[gossip.NodeID]bool
}

// beginProposal installs a proposal, and sends it immediately unless notBefore delays it.
func (c *Core) beginProposal(p *proposal) {
	o := c.leadership
	p.base, p.accepted, p.packed = c.view.Epoch, map[gossip.NodeID]bool{}, c.packView(p.next, c.view)
	c.countBoth(p.next)
	o.proposal, o.prep, o.batchAt, o.raiseAt = p, nil, 0, 0
	c.noteGeneration(p.next.Epoch.Generation())
	if c.now.Before(p.notBefore) {
		return
	}
	c.acceptOwn()
	c.traceEvent("proposes", 0, p.next.Epoch.String())
	c.sendRound()
}

// countBoth counts the answers in the proposed view as well.
func (c *Core) countBoth(next *gossip.View) {
	o := c.leadership
	for _, p := range o.peers { // order-free: each is set by itself
		p.next, p.stays = false, false
	}
	for i := range next.Members {
		m := &next.Members[i]
		if p := o.peers[m.ID]; p != nil {
			p.stays, p.next = true, m.Status.Votes()
		}
	}
	o.next = c.newTally(next)
}

func (c *Core) acceptOwn() {
	p := c.leadership.proposal
	c.acceptor.storeAttempt(p.base, &attempt{ballot: c.leadership.ballot, next: p.next, emergency: p.emergency})
	p.accepted[c.self()] = true
}

// carryAttempt proposes another leader's attempt. A removal for silence waits until the removed
// members can no longer take over by their proofs (inWindow).
func (c *Core) carryAttempt(a *attempt) {
	p := &proposal{next: a.next, emergency: a.emergency, carried: true}
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; a.next.Member(id) == nil && c.evidence.mayLive(id) {
			p.notBefore = c.removeFrom(c.leadership.since)
		}
	}
	c.traceEvent("carries", a.ballot.Node, fmt.Sprintf("to %v", a.next.Epoch))
	c.beginProposal(p)
}

// takeOver proposes the view of an emergency takeover: the members that answered, in a
// generation above all generations met, so that no epoch, term or token of the dead
// members is ever used again.
func (c *Core) takeOver(answered map[gossip.NodeID]bool) {
	generation := c.generation + 1
	if c.mutant == mutantViewGeneration {
		generation = c.view.Epoch.Generation() + 1
	}
	next := &gossip.View{Cluster: c.view.Cluster, Origin: c.view.Origin, Epoch: gossip.FirstEpoch(generation), Standing: c.view.Standing, TokensFrom: c.view.TokensFrom, Foreign: c.view.Foreign}
	if c.mutant == mutantEmergencyNextEpoch {
		next.Epoch = c.view.Epoch + 1
	}
	for i := range c.view.Members {
		m := c.view.Members[i]
		if !answered[m.ID] {
			next.Out = append(next.Out, c.evidence.departed(m.ID))
			continue
		}
		if m.Status == gossip.Joining {
			m.Status = gossip.Up // every living member has answered, so each has it in its view
		}
		next.Members = append(next.Members, m)
	}
	next.Forks = withFork(c.view.Forks, gossip.Fork{From: c.view.Epoch, To: next.Epoch, Kept: len(next.Members), By: c.self()})
	c.traceEvent("emergency takeover", c.self(), fmt.Sprintf("%d of %d members answer", len(next.Members), len(c.view.Members)))
	c.beginProposal(&proposal{next: next, emergency: true})
}

// driveProposal commits when both quorums have accepted.
func (c *Core) driveProposal() bool {
	p := c.leadership.proposal
	if c.now.Before(p.notBefore) {
		return false
	}
	if !p.accepted[c.self()] {
		c.acceptOwn()
		c.sendRound()
	}
	in := func(id gossip.NodeID) bool { return p.accepted[id] }
	if !c.quorums.carriesStep(p, in) {
		return false
	}
	c.commitProposal()
	return true
}

// commitProposal adopts the proposed view and sends it to all members.
func (c *Core) commitProposal() {
	o, before := c.leadership, c.view
	p := o.proposal
	o.proposal = nil
	c.traceEvent("commits", 0, p.next.Epoch.String())
	tell := p.next
	for i := range before.Members {
		if id := before.Members[i].ID; tell.Member(id) == nil && c.evidence.mayLive(id) {
			c.sendTo(id, &Decided{View: p.packed})
		}
	}
	if c.departure.leaving && tell.Member(c.self()) == nil && c.mutant != mutantNoFarewell {
		c.startFarewell(tell)
		return
	}
	c.adoptView(tell)
	if c.ended {
		c.sendDecided(tell)
		return
	}
	o.free = !p.carried
	c.followView(before)
	c.sendRound()
}

// sendDecided sends a carried view that leaves this leader out to its members, before the
// leader ends.
func (c *Core) sendDecided(v *gossip.View) {
	for i := range v.Members {
		c.sendTo(v.Members[i].ID, &Decided{View: Whole(v)})
	}
}

// followView makes the leader's per-member state match the new view.
func (c *Core) followView(before *gossip.View) {
	o := c.leadership
	o.former, o.packed = before, c.packView(c.view, before)
	for i := range before.Members {
		id := before.Members[i].ID
		if c.view.Member(id) == nil {
			delete(o.peers, id)
			delete(o.leaves, id)
			delete(o.notices, id)
			delete(o.doubts, id)
		}
	}
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if o.peers[m.ID] == nil {
			o.peers[m.ID] = &peer{answeredAt: c.now}
		}
	}
	for i := range c.view.Members {
		m := &c.view.Members[i]
		p := o.peers[m.ID]
		p.now, p.next, p.stays = m.Status.Votes(), false, false
		if m.Status == gossip.Leaving {
			delete(o.notices, m.ID)
		}
	}
	o.now, o.next, o.reviewNeeded = c.newTally(c.view), nil, true
	if c.mutant != mutantOldRounds {
		o.lastStaleRound = o.round
	}
	o.peers[c.self()].epoch = c.view.Epoch
	c.foreign.followForeign(before)
	if len(o.joins) > 0 || len(o.leaves) > 0 || len(o.notices) > 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
}

func (c *Core) batchWait() time.Duration { return c.cfg.Ping / 40 }

// removeFrom returns when a leader may remove a member for silence that began at since.
func (c *Core) removeFrom(since clock.Instant) clock.Instant {
	if c.mutant == mutantEarlyRemoval {
		return since.Add(c.cfg.Ping)
	}
	return since.Add(c.cfg.RemoveAfter + c.margin(c.cfg.RemoveAfter))
}

// proposeNext begins the next view if there is a reason for one, and if a living plain quorum
// of it has answered the last round: a view that cannot act is worse than a late one.
func (c *Core) proposeNext() bool {
	o := c.leadership
	// Return early without a reason to change, and without a quorum: proposeNext is called at
	// every answer to a ping.
	due := o.batchAt != 0 && !c.now.Before(o.batchAt) || o.raiseAt != 0 && !c.now.Before(o.raiseAt)
	if !o.reviewNeeded && !due && len(c.evidence.proofs) == 0 {
		return false
	}
	if o.now.newestAnswered(nil, o.round, max(o.round, 2)-2) == 0 && o.round > 0 {
		return false
	}
	o.reviewNeeded = false
	next := c.buildNext()
	if next == nil {
		if due {
			o.batchAt, o.raiseAt = 0, 0
		}
		return false
	}
	answered := func(id gossip.NodeID) bool {
		p := o.peers[id]
		return id == c.self() || p != nil && p.round+1 >= o.round && p.t0 != 0 && !c.evidence.dead(id)
	}
	if !c.quorums.plain(next, answered) || !c.quorums.plain(c.view, answered) {
		return false
	}
	c.beginProposal(&proposal{next: next})
	return true
}

// buildNext returns the next view, nil if nothing changes now.
func (c *Core) buildNext() *gossip.View {
	o := c.leadership
	if !c.mayChange() {
		return nil
	}
	next := &gossip.View{Cluster: c.view.Cluster, Origin: c.view.Origin, Epoch: c.view.Epoch + 1, Forks: c.view.Forks, Standing: c.view.Standing, TokensFrom: c.view.TokensFrom}
	changed := c.foreign.stepForeign(next)
	for i := range c.view.Members {
		m := c.view.Members[i]
		if why := c.removalCause(&m); why != 0 {
			d := gossip.Departure{ID: m.ID, Cause: why}
			if why == gossip.CauseDead {
				d = c.evidence.departed(m.ID)
			}
			next.Out, changed = append(next.Out, d), true
			continue
		}
		if c.turnsLeaving(&m) {
			m.Status, changed = gossip.Leaving, true
		}
		next.Members = append(next.Members, m)
	}
	changed = c.raiseJoiners(next) || changed
	if len(o.joins) > 0 && !c.now.Before(o.batchAt) {
		changed = c.admitJoiners(next) || changed
	}
	if !changed {
		return nil
	}
	c.rankCluster(next)
	return next
}

// raiseJoiners makes joiners up that have answered in this view, once every voter that stays
// has. The first joiner waits a moment for the rest.
func (c *Core) raiseJoiners(next *gossip.View) bool {
	o := c.leadership
	ready, late := 0, 0
	for i := range next.Members {
		if m := &next.Members[i]; m.Status == gossip.Joining {
			if c.joinerReady(m) {
				ready++
			} else {
				late++
			}
		}
	}
	if ready == 0 || !c.allHeard(next) {
		return false
	}
	if o.raiseAt == 0 {
		o.raiseAt = c.now.Add(c.batchWait())
	}
	if late > 0 && c.now.Before(o.raiseAt) {
		return false
	}
	for i := range next.Members {
		if m := &next.Members[i]; m.Status == gossip.Joining && c.joinerReady(m) {
			m.Status = gossip.Up
		}
	}
	return true
}

// joinerReady reports whether a joiner has answered in its view recently: as a voter, a silent
// one would only make the quorum larger.
func (c *Core) joinerReady(m *gossip.Member) bool {
	p := c.leadership.peers[m.ID]
	return p.epoch >= m.Joined && p.round+1 >= c.leadership.round
}

// mayChange reports whether there may be a reason for a new view. It allocates nothing: it
// is called at every answer to a ping.
func (c *Core) mayChange() bool {
	o := c.leadership
	if len(o.joins) > 0 && !c.now.Before(o.batchAt) {
		return true
	}
	if _, changed, _ := c.foreign.foreignNext(); changed {
		return true
	}
	for i := range c.view.Members {
		if m := &c.view.Members[i]; m.Status == gossip.Joining || c.turnsLeaving(m) || c.removalCause(m) != 0 {
			return true
		}
	}
	return false
}

// allHeard reports whether every voter that stays holds the current view. Only then do
// its joiners become up, so that every living voter's view contains every node that
// votes.
func (c *Core) allHeard(next *gossip.View) bool {
	for i := range next.Members {
		m := &next.Members[i]
		if m.Status.Votes() && m.ID != c.self() && c.leadership.peers[m.ID].epoch < c.view.Epoch {
			return false
		}
	}
	return true
}

// removalCause returns why the next view leaves a member out, 0 if it does not.
func (c *Core) removalCause(m *gossip.Member) gossip.Cause {
	o := c.leadership
	if m.ID == c.self() {
		return causeIf(gossip.CauseLeft, c.departure.leaving && c.mayLeave())
	}
	p := o.peers[m.ID]
	switch {
	case o.leaves[m.ID]:
		return causeIf(gossip.CauseLeft, !c.now.Before(o.batchAt))
	case c.evidence.certainlyDead(m.ID):
		return causeIf(gossip.CauseDead, c.undoubted(m.ID))
	case p.leaseWithheldSince != 0:
		return causeIf(gossip.CauseYielded, !c.now.Before(c.removeFrom(p.leaseWithheldSince)))
	}
	woke := o.wokeAt != 0 && c.now.Before(o.wokeAt.Add(c.cfg.Ping))
	if c.evidence.dead(m.ID) && c.undoubted(m.ID) && !woke && c.outlived(m) {
		return gossip.CauseDead
	}
	if woke {
		return 0 // its messages may still wait to be read
	}
	return causeIf(gossip.CauseSilent, !c.now.Before(c.removeFrom(max(p.answeredAt, o.since))))
}

// mayLeave reports whether, in a leaving leader's state, another voter answers and stays.
// Members that leave at the same time go in the same view. The leader does not wait for
// later leave requests: the leaving members send them to each other, and one of them
// leads the rest out (allLeave).
func (c *Core) mayLeave() bool {
	o := c.leadership
	if c.now.Before(o.batchAt) {
		return false
	}
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if p := o.peers[m.ID]; m.ID != c.self() && m.Status.Votes() && !c.evidence.dead(m.ID) &&
			!o.leaves[m.ID] && p.round+1 >= o.round && p.epoch == c.view.Epoch {
			return true
		}
	}
	return false
}

// admitJoiners appends the nodes that wait for admission.
func (c *Core) admitJoiners(next *gossip.View) bool {
	o := c.leadership
	joins := o.joins
	o.joins, o.batchAt = nil, 0
	if len(c.view.Foreign) > 0 || c.foreign.least > next.Epoch.Generation() {
		return false // they retry
	}
	changed := false
	for _, n := range joins {
		if c.view.Member(n.ID) != nil || next.Member(n.ID) != nil || c.gone[n.ID] || c.evidence.early[n.ID] != nil || len(next.Members) >= membersMax {
			continue
		}
		status := gossip.Joining
		if c.mutant == mutantJoinerVotes {
			status = gossip.Up
		}
		next.Members = append(next.Members, gossip.Member{Node: n, Joined: next.Epoch, Status: status})
		changed = true
	}
	return changed
}

// causeIf returns the cause if it applies, else none.
func causeIf(c gossip.Cause, applies bool) gossip.Cause {
	if applies {
		return c
	}
	return 0
}

// rankCluster updates the standing of the next view. It is frozen during a contest.
func (c *Core) rankCluster(next *gossip.View) {
	if len(c.view.Foreign) > 0 {
		return
	}
	answered := 0
	for i := range next.Members {
		m := &next.Members[i]
		if p := c.leadership.peers[m.ID]; m.Status.Votes() && (m.ID == c.self() || p != nil && p.t0 != 0 && p.round+1 >= c.leadership.round) {
			answered++
		}
	}
	next.Standing.Peak = max(next.Standing.Peak, answered)
	if len(next.Foreign) > 0 && !c.cfg.Authenticated {
		next.Standing.Size = max(next.Standing.Size, answered)
	}
}
