package view

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// office is what a node does as leader.
type office struct {
	ballot Ballot
	// since is when its prepare came back. The promises in it were given before, each
	// behind the end of what it had promised a former leader; the prepare itself may
	// have left long before that.
	since clock.Instant
	// free is set while a prepare in the current view has come back with nothing
	// uncovered. Invariant: without it no lease is held or granted.
	free bool
	// prep is the prepare under way in a view that a carried attempt led to.
	prep *preparation

	// round is the number of the newest round of pings; sent holds when the newest
	// rounds left.
	round    uint64
	sent     [roundsKept]clock.Instant
	nextPing clock.Instant
	// now and next count the answers of the current view and of the proposed one.
	now, next *tally
	// settled is the newest round that left before the current view was committed:
	// such a round counts no more.
	settled uint64
	// backedUntil is the end of the leader lease if it had not to be free for one: who
	// is backed does not step down, though it may hold no lease yet.
	backedUntil clock.Instant
	// drivenAt is when the leader last did anything, wokeAt when it did so after a
	// pause in which it could hear nobody.
	drivenAt, wokeAt clock.Instant
	// stirred is set when something may be about to change in the view.
	stirred bool
	// leaseUntil is the end of the leader lease. Invariant: it never goes back.
	leaseUntil clock.Instant
	peers      map[NodeID]*peer

	proposal *proposal
	// former is the view that this leader led to the present one, packed the present one
	// as it is told to who holds the former.
	former, packed *View

	joins  []Node
	leaves map[NodeID]bool
	// notices holds who has said that it will leave.
	notices map[NodeID]bool
	// batchAt is when the joins and leaves that wait are proposed.
	batchAt clock.Instant
	// raiseAt is until when a joiner that could become up waits for others.
	raiseAt clock.Instant
	doubts  map[NodeID]*doubt
}

const roundsKept = 64

// peer is what the leader knows of a member.
type peer struct {
	// t0 is the member's clock in its newest answer, round the newest it answered.
	t0    int64
	round uint64
	// answeredAt is when that answer came; when office was taken, for who has not
	// answered since.
	answeredAt clock.Instant
	// epoch is the view that the member holds for certain.
	epoch       Epoch
	unreachable []NodeID
	// whole is set when it has asked for whole views.
	whole bool
	// starved is since when it is granted nothing, though it answers.
	starved clock.Instant
	// now and next report whether it votes in the current view and in the proposed
	// one, stays whether it stands in the proposed one.
	now, next, stays bool
}

// preparation is a prepare by a node that is in office already.
type preparation struct {
	base  Epoch
	yes   map[NodeID]bool
	found findings
}

// takeOffice follows a prepare that a quorum has promised.
func (c *Core) takeOffice(w way) {
	cand := c.cand
	o := &office{
		ballot: cand.ballot, since: c.now, nextPing: c.now, drivenAt: c.now, stirred: true,
		peers: map[NodeID]*peer{}, leaves: map[NodeID]bool{}, notices: map[NodeID]bool{}, doubts: map[NodeID]*doubt{},
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
	c.office, c.cand, c.failures, c.leader = o, nil, 0, c.self()
	maps.Copy(o.leaves, c.leavers)
	if len(o.leaves) > 0 {
		o.batchAt = c.now.Add(c.batchWait())
	}
	o.now = c.newTally(c.view)
	c.followForeign(nil)
	for _, id := range slices.Concat(c.deadMembers()) {
		// Members that promised were asked about the dead, and have no link with them.
		o.doubts[id] = &doubt{asked: cand.began, waiting: c.witnesses(id), answered: maps.Clone(cand.yes)}
	}
	c.trace("office", c.self(), "")
	switch w {
	case wayTakeOver:
		c.takeOver(cand.yes)
	case wayCarry:
		c.carry(cand.found.attempt)
	default:
		o.free = true
	}
}

// stepDown leaves office. Leases that were granted run out by themselves.
func (c *Core) stepDown(why string) {
	if c.office == nil {
		return
	}
	c.office, c.foreign.met = nil, nil
	c.leader, c.vacantAt = 0, c.now
	c.standAfter = c.now.Add(c.cfg.Ping/4 + c.upTo(c.cfg.Ping))
	if c.lease.Leader {
		c.lease.Leader = false
		l := c.lease
		c.out.Lease = &l
	}
	c.trace("steps down", c.self(), why)
}

// driveOffice does what the leader's office asks for now.
func (c *Core) driveOffice() bool {
	o := c.office
	if c.now.Sub(o.drivenAt) > c.cfg.Lease/2 && c.mutant != mutantStallRemoves {
		o.wokeAt = c.now
	}
	o.drivenAt = c.now
	c.driveLeaderLease()
	if c.now.Sub(max(o.backedUntil, o.since.Add(c.cfg.Lease))) > c.cfg.Lease {
		c.stepDown("no lease for too long")
		c.standAfter = c.now.Add(c.cfg.Ping + c.upTo(c.cfg.Lease))
		return true
	}
	if o.proposal != nil && c.hopeless(o.proposal.next, o.proposal.emergency, c.mayLive) && !c.mustTakeOver() {
		c.makeRoom()
		return true
	}
	if c.mustTakeOver() {
		c.stepDown("the living are no quorum any more")
		c.standAfter = c.now
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
	} else if c.propose() {
		return true
	}
	if !c.now.Before(o.nextPing) {
		c.sendRound()
	}
	return false
}

// mustTakeOver reports whether only an emergency takeover can go on from here.
func (c *Core) mustTakeOver() bool {
	if len(c.proofs) == 0 {
		return false
	}
	if p := c.office.proposal; p != nil {
		// One death too many, and a takeover is begun anew, or an attempt taken over.
		return c.hopeless(p.next, p.emergency, c.mayLive) && c.total(c.mayLive)
	}
	return !c.plain(c.view, c.mayLive) && c.total(c.mayLive)
}

// hopeless reports whether a view on top of ours can no longer be committed: too many
// of the members that would have to accept it are dead. It may have been committed
// before they died, so a leader that finds it cannot drop it; but it does not bind a
// total quorum, which continues without the dead as if it had not found it (evidence.go).
func (c *Core) hopeless(next *View, emergency bool, living has) bool {
	if len(c.proofs) == 0 {
		return false
	}
	return !(c.plain(c.view, living) && c.plain(next, living)) && !(emergency && allOf(next, living))
}

// BeyondHelp reports whether what this node has accepted on top of its view can never
// be committed any more, and it cannot take over either: waiting is in vain, though the
// living may be a quorum of the view.
func (c *Core) BeyondHelp() bool {
	if c.over || c.view == nil || len(c.proofs) == 0 {
		return false
	}
	a := c.attempts[c.view.Epoch]
	return a != nil && c.hopeless(a.next, a.emergency, func(id NodeID) bool { return !c.dead(id) }) && !c.total(c.mayLive)
}

// way says what a prepare that a quorum has answered leads to.
type way uint8

const (
	// wayAfresh: nothing was uncovered.
	wayAfresh way = iota
	// wayCarry: an attempt was uncovered, to be carried on.
	wayCarry
	// wayTakeOver: an emergency takeover.
	wayTakeOver
	// wayWait: a takeover, if all the living answer.
	wayWait
	// wayNone: what was uncovered needs the dead, and this node cannot take over.
	wayNone
)

// choose picks the way on from what a quorum has promised and uncovered.
func (c *Core) choose(in has, plain bool, found *attempt) way {
	switch {
	case !plain:
		return wayTakeOver
	case found == nil || c.mutant == mutantDropAttempt:
		return wayAfresh
	case !c.hopeless(found.next, found.emergency, c.mayLive) || c.mutant == mutantCarryHopeless:
		return wayCarry
	case c.total(in):
		return wayTakeOver
	case c.total(c.mayLive):
		return wayWait
	}
	return wayNone
}

// makeRoom leaves office for long enough that somebody else may try who can.
func (c *Core) makeRoom() {
	c.stepDown("what it carries needs the dead")
	c.standAfter = c.now.Add(c.cfg.Lease + c.upTo(c.cfg.Lease))
}

// officeDeadline returns when the leader next wants to be driven.
func (c *Core) officeDeadline() clock.Instant {
	o := c.office
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
	return clock.Min(d, c.evidenceAt())
}

// sendRound pings every member; while a proposal is under way the pings are accepts.
func (c *Core) sendRound() {
	o := c.office
	o.round++
	o.now.open(o.round)
	o.next.open(o.round)
	o.sent[o.round%roundsKept] = c.now
	o.stirred = true
	o.nextPing = c.now.Add(c.cfg.Ping)
	// The leader is an acceptor too, and has answered its own round.
	c.guard = guard{leader: c.self(), until: c.now.Add(c.cfg.Lease + c.margin(c.cfg.Lease))}
	pings := make([]Ping, len(c.view.Members)) // one piece of memory for all
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID == c.self() {
			continue
		}
		c.send(m.ID, c.roundMessage(m, o.peers[m.ID], &pings[i]))
	}
	if c.mutant != mutantAskOnce {
		c.sendPrepare()
	}
	c.driveLeaderLease()
	c.driveForeign()
}

// roundMessage is what a member is told in the present round; p is where a ping is put.
func (c *Core) roundMessage(m *Member, q *peer, p *Ping) Message {
	o := c.office
	life := o.backedUntil.After(c.now) || c.now.Sub(o.since) < 2*c.cfg.Lease
	*p = Ping{Ballot: o.ballot, Cluster: c.view.Cluster, Epoch: c.view.Epoch, Round: o.round, Life: life}
	c.grant(p, m, q)
	if o.proposal != nil && !c.now.Before(o.proposal.notBefore) {
		a := &Accept{Ping: *p, Base: c.view, Next: o.proposal.packed, Emergency: o.proposal.emergency}
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
		p.View = c.view
	default:
		p.View = c.ref() // it may hold it, and asks if it does not
	}
	return p
}

// sendPrepare asks those for a promise who have not given theirs, if a prepare is
// under way in office.
func (c *Core) sendPrepare() {
	prep := c.office.prep
	if prep == nil || prep.base != c.view.Epoch {
		return
	}
	msg := &Prepare{Ballot: c.office.ballot, Base: c.ref()}
	msg.Dead, msg.Weak = c.deadMembers()
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; !prep.yes[id] && c.mayLive(id) {
			c.send(id, msg)
		}
	}
}

func (c *Core) onPong(from NodeID, m *Pong) {
	o := c.office
	if o == nil || m.Ballot != o.ballot {
		return
	}
	p := o.peers[from]
	if p == nil || m.Round > o.round {
		return
	}
	if m.Round >= p.round {
		o.answer(from, p, m.Round)
		p.t0, p.answeredAt, p.unreachable = m.T0, c.now, m.Unreachable
	}
	if m.Epoch > p.epoch {
		p.epoch, p.whole = m.Epoch, false
		o.stirred = true
	}
	if o.proposal != nil && m.Accepted == o.proposal.base && m.Accepted != 0 {
		o.proposal.accepted[from] = true
	}
}

// answer notes that a member answered a round.
func (o *office) answer(id NodeID, p *peer, round uint64) {
	if p.now {
		o.now.answer(id, p.round, round, o.round)
	}
	if p.next && o.next != nil {
		o.next.answer(id, p.round, round, o.round)
	}
	p.round = round
}

// stir makes the leader look whether the view has to change.
func (c *Core) stir() {
	if c.office != nil {
		c.office.stirred = true
	}
}

// sentAt returns when a round left.
func (o *office) sentAt(round uint64) clock.Instant { return o.sent[round%roundsKept] }

// drivePreparation prepares in the view that a carried attempt led to.
func (c *Core) drivePreparation() bool {
	o := c.office
	if o.prep == nil || o.prep.base != c.view.Epoch {
		o.prep = &preparation{base: c.view.Epoch, yes: map[NodeID]bool{c.self(): true}}
		o.prep.found.attempt = c.attempts[c.view.Epoch]
		c.sendPrepare()
	}
	in := func(id NodeID) bool { return o.prep.yes[id] }
	plain := c.plain(c.view, in)
	if !plain && !c.total(in) {
		return false
	}
	prep := o.prep
	w := c.choose(in, plain, prep.found.attempt)
	if w == wayWait {
		return false
	}
	o.prep = nil
	switch w {
	case wayTakeOver:
		c.takeOver(prep.yes)
	case wayCarry:
		c.carry(prep.found.attempt)
	case wayAfresh:
		o.free, o.stirred = true, true
		o.nextPing = c.now
		c.trace("free", c.self(), "")
	default:
		c.makeRoom()
	}
	return true
}

// promised takes a promise to a node in office.
func (o *office) promised(c *Core, from NodeID, m *Promised) {
	if p := o.peers[from]; p != nil {
		p.answeredAt, p.epoch = c.now, max(p.epoch, m.Base)
		if p.round == 0 {
			p.t0 = m.T0
		}
		o.stirred = true
	}
	c.deny(m.Hears)
	for _, id := range m.Hears {
		delete(o.doubts, id)
	}
	for _, d := range o.doubts { // order-free: each is told the same
		d.answered[from] = true
	}
	if o.prep == nil || o.prep.base != m.Base {
		return
	}
	o.prep.yes[from] = true
	o.prep.found.take(from, m)
}
