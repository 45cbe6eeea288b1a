package view

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
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
func (o *leadership) beginProposal(p *proposal) {
	p.base, p.accepted, p.packed = o.view.Epoch, map[gossip.NodeID]bool{}, o.packView(p.next, o.view)
	o.countBoth(p.next)
	o.proposal, o.prep, o.batchAt, o.raiseAt = p, nil, 0, 0
	o.noteGeneration(p.next.Epoch.Generation())
	if o.now.Before(p.notBefore) {
		return
	}
	o.acceptOwn()
	o.traceEvent("proposes", 0, p.next.Epoch.String())
	o.sendRound()
}

// countBoth counts the answers in the proposed view as well.
func (o *leadership) countBoth(next *gossip.View) {
	for _, p := range o.peers { // order-free: each is set by itself
		p.next, p.stays = false, false
	}
	for i := range next.Members {
		m := &next.Members[i]
		if p := o.peers[m.ID]; p != nil {
			p.stays, p.next = true, m.Status.Votes()
		}
	}
	o.proposed = o.newTally(next)
}

func (o *leadership) acceptOwn() {
	p := o.proposal
	o.acceptor.storeAttempt(p.base, &attempt{ballot: o.ballot, next: p.next, emergency: p.emergency})
	p.accepted[o.self()] = true
}

// carryAttempt proposes another leader's attempt. A removal for silence waits until the removed
// members can no longer take over by their proofs (inWindow).
func (o *leadership) carryAttempt(a *attempt) {
	p := &proposal{next: a.next, emergency: a.emergency, carried: true}
	for i := range o.view.Members {
		if id := o.view.Members[i].ID; a.next.Member(id) == nil && o.evidence.mayLive(id) {
			p.notBefore = o.removeFrom(o.since)
		}
	}
	o.traceEvent("carries", a.ballot.Node, fmt.Sprintf("to %v", a.next.Epoch))
	o.beginProposal(p)
}

// takeOver proposes the view of an emergency takeover: the members that answered, in a
// generation above all generations met, so that no epoch, term or token of the dead
// members is ever used again. A dead leader may have opened that very generation in order
// before any other member learned of it, so the epoch is above those of such views.
func (o *leadership) takeOver(answered map[gossip.NodeID]bool) {
	generation := o.generation + 1
	next := &gossip.View{Cluster: o.view.Cluster, Origin: o.view.Origin, Epoch: gossip.TakeoverEpoch(generation), Standing: o.view.Standing, TokensFrom: o.view.TokensFrom, Foreign: o.view.Foreign}
	for i := range o.view.Members {
		m := o.view.Members[i]
		if !answered[m.ID] {
			next.Out = append(next.Out, o.evidence.departed(m.ID))
			continue
		}
		if m.Status == gossip.Joining {
			m.Status = gossip.Up // every living member has answered, so each has it in its view
		}
		next.Members = append(next.Members, m)
	}
	next.Forks = withFork(o.view.Forks, gossip.Fork{From: o.view.Epoch, To: next.Epoch, Kept: len(next.Members), By: o.self()})
	if assert.Enabled {
		o.assertTakeover(next)
	}
	o.traceEvent("emergency takeover", o.self(), fmt.Sprintf("%d of %d members answer", len(next.Members), len(o.view.Members)))
	o.beginProposal(&proposal{next: next, emergency: true})
}

// driveProposal reports whether both quorums have accepted.
func (o *leadership) driveProposal() bool {
	p := o.proposal
	if o.now.Before(p.notBefore) {
		return false
	}
	if !p.accepted[o.self()] {
		o.acceptOwn()
		o.sendRound()
	}
	in := func(id gossip.NodeID) bool { return p.accepted[id] }
	return o.quorums.carriesStep(p.next, p.emergency, in)
}

// commitProposal adopts the proposed view and sends it to all members.
func (c *Core) commitProposal() {
	o, before := c.leadership, c.view
	p := o.proposal
	if assert.Enabled {
		o.assertCommit(p)
	}
	o.proposal = nil
	c.traceEvent("commits", 0, p.next.Epoch.String())
	tell := p.next
	for i := range before.Members {
		if id := before.Members[i].ID; tell.Member(id) == nil && c.evidence.mayLive(id) {
			c.sendTo(id, &Decided{View: p.packed})
		}
	}
	if c.departure.leaving && tell.Member(c.self()) == nil {
		c.startFarewell(tell)
		return
	}
	c.adoptView(tell)
	if c.ended {
		o.sendDecided(tell)
		return
	}
	o.free = !p.carried
	o.followView(before)
	o.sendRound()
}

// sendDecided sends a carried view that leaves this leader out to its members, before the
// leader ends.
func (o *leadership) sendDecided(v *gossip.View) {
	for i := range v.Members {
		o.sendTo(v.Members[i].ID, &Decided{View: Whole(v)})
	}
}

// followView makes the leader's per-member state match the new view.
func (o *leadership) followView(before *gossip.View) {
	o.former, o.packed = before, o.packView(o.view, before)
	for i := range before.Members {
		id := before.Members[i].ID
		if o.view.Member(id) == nil {
			delete(o.peers, id)
			delete(o.leaves, id)
			delete(o.notices, id)
			delete(o.doubts.asked, id)
		}
	}
	for i := range o.view.Members {
		m := &o.view.Members[i]
		if o.peers[m.ID] == nil {
			o.peers[m.ID] = &peer{answeredAt: o.now}
		}
	}
	for i := range o.view.Members {
		m := &o.view.Members[i]
		p := o.peers[m.ID]
		p.now, p.next, p.stays = m.Status.Votes(), false, false
		if m.Status == gossip.Leaving {
			delete(o.notices, m.ID)
		}
	}
	o.current, o.proposed, o.reviewNeeded = o.newTally(o.view), nil, true
	if n := len(o.view.Members); n >= o.packFrom {
		o.changeFrom = o.now.Add(viewSpacing * time.Duration(n))
	}
	o.lastStaleRound = o.round
	o.peers[o.self()].epoch = o.view.Epoch
	o.foreign.followForeign(before)
	if len(o.joins) > 0 || len(o.leaves) > 0 || len(o.notices) > 0 {
		o.batchAt = o.now.Add(o.batchWait())
	}
}

// viewSpacing is how long a view of packFrom or more members stands at least, for each of them. A
// view costs its leader two messages to each member, so a tenth of a thousand nodes that crash would
// cost two hundred thousand messages if each made a view; those that crash within the spacing go into
// one. The first change after a pause does not wait.
const viewSpacing = 50 * time.Microsecond

// removeFrom returns when a leader may remove a member for silence that began at since.
func (o *leadership) removeFrom(since clock.Instant) clock.Instant {
	return since.Add(o.cfg.RemoveAfter + o.margin(o.cfg.RemoveAfter))
}

// proposeNext begins the next view if there is a reason for one, and if a living plain quorum
// of it has answered the last round: a view that cannot act is worse than a late one.
func (o *leadership) proposeNext() bool {
	// Return early without a reason to change, and without a quorum: proposeNext is called at
	// every answer to a ping.
	due := o.batchAt != 0 && !o.now.Before(o.batchAt) || o.raiseAt != 0 && !o.now.Before(o.raiseAt)
	if !o.reviewNeeded && !due && len(o.evidence.proofs) == 0 {
		return false
	}
	if o.current.newestAnswered(nil, o.round, max(o.round, 2)-2) == 0 && o.round > 0 {
		return false
	}
	if o.now.Before(o.changeFrom) {
		return false
	}
	o.reviewNeeded = false
	next := o.buildNext()
	if next == nil {
		if due {
			o.batchAt, o.raiseAt = 0, 0
		}
		return false
	}
	answered := func(id gossip.NodeID) bool {
		p := o.peers[id]
		return id == o.self() || p != nil && p.round+1 >= o.round && p.t0 != 0 && !o.evidence.dead(id)
	}
	if !o.quorums.plain(next, answered) || !o.quorums.plain(o.view, answered) {
		return false
	}
	o.beginProposal(&proposal{next: next})
	return true
}

// buildNext returns the next view, nil if nothing changes now.
func (o *leadership) buildNext() *gossip.View {
	if !o.mayChange() {
		return nil
	}
	next := &gossip.View{Cluster: o.view.Cluster, Origin: o.view.Origin, Epoch: o.view.Epoch + 1, Forks: o.view.Forks, Standing: o.view.Standing, TokensFrom: o.view.TokensFrom}
	changed := o.foreign.stepForeign(next)
	for i := range o.view.Members {
		m := o.view.Members[i]
		if why := o.removalCause(&m); why != 0 {
			d := gossip.Departure{ID: m.ID, Cause: why}
			if why == gossip.CauseDead {
				d = o.evidence.departed(m.ID)
			}
			next.Out, changed = append(next.Out, d), true
			continue
		}
		if o.turnsLeaving(&m) {
			m.Status, changed = gossip.Leaving, true
		}
		next.Members = append(next.Members, m)
	}
	changed = o.raiseJoiners(next) || changed
	if len(o.joins) > 0 && !o.now.Before(o.batchAt) {
		changed = o.admitJoiners(next) || changed
	}
	if !changed {
		return nil
	}
	o.rankCluster(next)
	return next
}

// raiseJoiners makes joiners up that have answered in this view, once every voter that stays
// has. The first joiner waits a moment for the rest.
func (o *leadership) raiseJoiners(next *gossip.View) bool {
	ready, late := 0, 0
	for i := range next.Members {
		if m := &next.Members[i]; m.Status == gossip.Joining {
			if o.joinerReady(m) {
				ready++
			} else {
				late++
			}
		}
	}
	if ready == 0 || !o.allHeard(next) {
		return false
	}
	if o.raiseAt == 0 {
		o.raiseAt = o.now.Add(o.batchWait())
	}
	if late > 0 && o.now.Before(o.raiseAt) {
		return false
	}
	for i := range next.Members {
		if m := &next.Members[i]; m.Status == gossip.Joining && o.joinerReady(m) {
			m.Status = gossip.Up
		}
	}
	return true
}

// joinerReady reports whether a joiner has answered in its view recently: as a voter, a silent
// one would only make the quorum larger.
func (o *leadership) joinerReady(m *gossip.Member) bool {
	p := o.peers[m.ID]
	return p.epoch >= m.Joined && p.round+1 >= o.round
}

// mayChange reports whether there may be a reason for a new view. It allocates nothing: it
// is called at every answer to a ping.
func (o *leadership) mayChange() bool {
	if len(o.joins) > 0 && !o.now.Before(o.batchAt) {
		return true
	}
	if _, changed, _ := o.foreign.foreignNext(); changed {
		return true
	}
	for i := range o.view.Members {
		if m := &o.view.Members[i]; m.Status == gossip.Joining || o.turnsLeaving(m) || o.removalCause(m) != 0 {
			return true
		}
	}
	return false
}

// allHeard reports whether every voter that stays holds the current view. Only then do
// its joiners become up, so that every living voter's view contains every node that
// votes; and only then does a new generation open (foreign.go).
func (o *leadership) allHeard(next *gossip.View) bool {
	for i := range next.Members {
		m := &next.Members[i]
		if m.Status.Votes() && m.ID != o.self() && o.peers[m.ID].epoch < o.view.Epoch {
			return false
		}
	}
	return true
}

// removalCause returns why the next view leaves a member out, 0 if it does not.
func (o *leadership) removalCause(m *gossip.Member) gossip.Cause {
	if m.ID == o.self() {
		return causeIf(gossip.CauseLeft, o.departure.leaving && o.mayLeave())
	}
	p := o.peers[m.ID]
	switch {
	case o.leaves[m.ID]:
		return causeIf(gossip.CauseLeft, !o.now.Before(o.batchAt))
	case o.evidence.certainlyDead(m.ID):
		return causeIf(gossip.CauseDead, o.doubts.undoubted(m.ID))
	case p.leaseWithheldSince != 0:
		return causeIf(gossip.CauseYielded, !o.now.Before(o.removeFrom(p.leaseWithheldSince)))
	}
	woke := o.wokeAt != 0 && o.now.Before(o.wokeAt.Add(o.cfg.Ping))
	if o.evidence.dead(m.ID) && o.doubts.undoubted(m.ID) && !woke && o.outlived(m) {
		return gossip.CauseDead
	}
	if woke {
		return 0 // its messages may still wait to be read
	}
	return causeIf(gossip.CauseSilent, !o.now.Before(o.removeFrom(max(p.answeredAt, o.since))))
}

// mayLeave reports whether, in a leaving leader's state, another voter answers and stays.
// Members that leave at the same time go in the same view. The leader does not wait for
// later leave requests: the leaving members send them to each other, and one of them
// leads the rest out (allLeave).
func (o *leadership) mayLeave() bool {
	if o.now.Before(o.batchAt) {
		return false
	}
	for i := range o.view.Members {
		m := &o.view.Members[i]
		if p := o.peers[m.ID]; m.ID != o.self() && m.Status.Votes() && !o.evidence.dead(m.ID) &&
			!o.leaves[m.ID] && p.round+1 >= o.round && p.epoch == o.view.Epoch {
			return true
		}
	}
	return false
}

// admitJoiners appends the nodes that wait for admission.
func (o *leadership) admitJoiners(next *gossip.View) bool {
	joins := o.joins
	o.joins, o.batchAt = nil, 0
	if len(o.view.Foreign) > 0 || next.Least != 0 {
		return false // they retry
	}
	changed := false
	for _, n := range joins {
		if o.view.Member(n.ID) != nil || next.Member(n.ID) != nil || o.gone[n.ID] || o.evidence.early[n.ID] != nil || len(next.Members) >= membersMax || !speaksWith(next, &n) {
			continue
		}
		next.Members = append(next.Members, gossip.Member{Node: n, Joined: next.Epoch, Status: gossip.Joining})
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
func (o *leadership) rankCluster(next *gossip.View) {
	if len(o.view.Foreign) > 0 {
		return
	}
	answered := 0
	for i := range next.Members {
		m := &next.Members[i]
		if p := o.peers[m.ID]; m.Status.Votes() && (m.ID == o.self() || p != nil && p.t0 != 0 && p.round+1 >= o.round) {
			answered++
		}
	}
	next.Standing.Peak = max(next.Standing.Peak, answered)
	if len(next.Foreign) > 0 && !o.cfg.Authenticated {
		next.Standing.Size = max(next.Standing.Size, answered)
	}
}

// outlived reports whether a member whose death is proven holds no lease: it is certainly
// dead, or its last grant has ended.
//
// Its lease is t0 + r on its own clock. A leader measured r <= L after the member sent
// t0, and that answer arrived here at answeredAt at the latest. Later grants do not
// extend the lease, since r shrinks as t0 ages. A former leader's grant rests on a round
// sent before since: a promiser is in both quorums, and its promise to the former leader
// had ended, or that leader was dead. After the wait the members are asked once more: a
// link may have been restored meanwhile.
func (o *leadership) outlived(m *gossip.Member) bool {
	if o.evidence.certainlyDead(m.ID) {
		return true
	}
	ended := max(o.peers[m.ID].answeredAt, o.since).Add(o.cfg.Lease + o.margin(o.cfg.Lease))
	if o.now.Before(ended) {
		return false
	}
	return o.doubts.undoubtedSince(m.ID, ended)
}
