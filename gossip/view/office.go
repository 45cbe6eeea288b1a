package view

import (
	"maps"

	"github.com/peerage-go/peerage/internal/clock"
)

// office is what a node does as leader.
type office struct {
	ballot Ballot
	// since is when its prepare was sent.
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
	// leaseUntil is the end of the leader lease. Invariant: it never goes back.
	leaseUntil clock.Instant
	peers      map[NodeID]*peer

	proposal *proposal
	joins    []Node
	leaves   map[NodeID]bool
	// batchAt is when the joins and leaves that wait are proposed.
	batchAt clock.Instant
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
	// starved is since when it is granted nothing, though it answers.
	starved clock.Instant
}

// preparation is a prepare by a node that is in office already.
type preparation struct {
	base  Epoch
	yes   map[NodeID]bool
	found findings
}

// takeOffice follows a prepare that a quorum has promised.
func (c *Core) takeOffice(emergency bool) {
	cand := c.cand
	o := &office{
		ballot: cand.ballot, since: cand.began, nextPing: c.now,
		peers: map[NodeID]*peer{}, leaves: map[NodeID]bool{}, doubts: map[NodeID]*doubt{},
	}
	for i := range c.view.Members {
		id := c.view.Members[i].ID
		p := &peer{answeredAt: o.since}
		if t0, ok := cand.found.t0[id]; ok {
			p.t0, p.answeredAt, p.epoch = t0, c.now, c.view.Epoch
		}
		o.peers[id] = p
	}
	c.office, c.cand, c.failures, c.leader = o, nil, 0, c.self()
	for _, id := range c.deadMembers() {
		// Whoever promised was asked about the dead, and hears none of them.
		o.doubts[id] = &doubt{asked: cand.began, waiting: c.witnesses(id), answered: maps.Clone(cand.yes)}
	}
	c.trace("office", c.self(), "")
	switch {
	case emergency:
		c.takeOver(cand.yes)
	case cand.found.attempt != nil && c.mutant != mutantDropAttempt:
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
	c.office = nil
	c.leader, c.vacantAt = 0, c.now
	c.standAfter = c.now.Add(c.cfg.Ping/4 + c.upTo(c.cfg.Ping))
	if c.lease.Leader {
		c.lease.Leader = false
		l := c.lease
		c.out.Lease = &l
	}
	c.trace("steps down", c.self(), why)
}

// graceFrom returns the moment from which the leader has two leases of time to get
// one of its own. While it carries a removal it may hold none, and must wait: if its
// grace ran out in that wait, it would step down, carry the same attempt again, and
// so for ever (found by internal/sim, seed 136 of its time).
func (o *office) graceFrom() clock.Instant {
	if o.proposal != nil {
		return max(o.since, o.proposal.notBefore)
	}
	return o.since
}

// driveOffice does what the leader's office asks for now.
func (c *Core) driveOffice() bool {
	o := c.office
	c.driveLeaderLease()
	if c.now.Sub(max(o.leaseUntil, o.graceFrom().Add(c.cfg.Lease))) > c.cfg.Lease {
		c.stepDown("no lease for too long")
		c.standAfter = c.now.Add(c.cfg.Ping + c.upTo(c.cfg.Lease))
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
	living := func(id NodeID) bool { return !c.dead(id) }
	if p := c.office.proposal; p != nil && p.emergency {
		// A takeover needs all of those that it keeps: one more death, and it is begun anew.
		return !allOf(p.next, living)
	}
	return !c.plain(c.view, living) && c.total(living)
}

// officeDeadline returns when the leader next wants to be driven.
func (c *Core) officeDeadline() clock.Instant {
	o := c.office
	d := o.nextPing
	if o.batchAt.After(c.now) && o.proposal == nil {
		d = clock.Min(d, o.batchAt)
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
	o.sent[o.round%roundsKept] = c.now
	o.nextPing = c.now.Add(c.cfg.Ping)
	// The leader is an acceptor too, and has answered its own round.
	c.guard = guard{leader: c.self(), until: c.now.Add(c.cfg.Lease + c.margin(c.cfg.Lease))}
	life := o.leaseUntil.After(c.now) || c.now.Sub(o.graceFrom()) < 2*c.cfg.Lease
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.ID == c.self() {
			continue
		}
		p := Ping{Ballot: o.ballot, Cluster: c.view.Cluster, Epoch: c.view.Epoch, Round: o.round, Life: life}
		c.grant(&p, m)
		if o.proposal != nil && !c.now.Before(o.proposal.notBefore) {
			c.send(m.ID, &Accept{Ping: p, Base: c.view, Next: o.proposal.next, Emergency: o.proposal.emergency})
			continue
		}
		if q := o.peers[m.ID]; q == nil || q.epoch != c.view.Epoch {
			p.View = c.view
		}
		c.send(m.ID, &p)
	}
	c.driveLeaderLease()
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
		p.round, p.t0, p.answeredAt = m.Round, m.T0, c.now
		p.unreachable = m.Unreachable
	}
	p.epoch = max(p.epoch, m.Epoch)
	if o.proposal != nil && m.Accepted == o.proposal.base && m.Accepted != 0 {
		o.proposal.accepted[from] = true
	}
}

// sentAt returns when a round left.
func (o *office) sentAt(round uint64) clock.Instant { return o.sent[round%roundsKept] }

// answeredRound returns the newest round that a plain quorum answered, of the
// current view and of the proposed one; 0 if none of those remembered. An answer to
// a later round renews the promise later, so it counts for earlier ones too.
func (o *office) answeredRound(c *Core) uint64 {
	oldest := uint64(1)
	if o.round > roundsKept {
		oldest = o.round - roundsKept + 1
	}
	for n := o.round; n >= oldest; n-- {
		in := func(id NodeID) bool {
			return id == c.self() || o.peers[id] != nil && o.peers[id].round >= n
		}
		if !c.plain(c.view, in) {
			continue
		}
		if o.proposal != nil && c.mutant != mutantLeaseInOneView && !c.plain(o.proposal.next, in) {
			continue
		}
		return n
	}
	return 0
}

// drivePreparation prepares in the view that a carried attempt led to.
func (c *Core) drivePreparation() bool {
	o := c.office
	if o.prep == nil || o.prep.base != c.view.Epoch {
		o.prep = &preparation{base: c.view.Epoch, yes: map[NodeID]bool{c.self(): true}}
		o.prep.found.attempt = c.attempts[c.view.Epoch]
		c.toElectorate(&Prepare{Ballot: o.ballot, Base: c.view, Dead: c.deadMembers()})
	}
	in := func(id NodeID) bool { return o.prep.yes[id] }
	plain := c.plain(c.view, in)
	if !plain && !c.total(in) {
		return false
	}
	prep := o.prep
	o.prep = nil
	switch {
	case !plain:
		c.takeOver(prep.yes)
	case prep.found.attempt != nil && c.mutant != mutantDropAttempt:
		c.carry(prep.found.attempt)
	default:
		o.free = true
		o.nextPing = c.now
		c.trace("free", c.self(), "")
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
	}
	if c.deny(m.Hears) {
		for _, id := range m.Hears {
			delete(o.doubts, id)
		}
		return
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
