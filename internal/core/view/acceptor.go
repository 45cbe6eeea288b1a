package view

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// guard is the acceptor's promise to a leader: no other leader's ballot before until,
// unless the leader is certainly dead or has left the view. Leader leases rest on it; a
// weak proof of the leader's death does not release it.
type guard struct {
	leader gossip.NodeID
	until  clock.Instant
}

// wouldPromise reports whether this acceptor may promise ballot to candidate, which
// claims that some members are certainly dead. Its certain proof of the leader's death
// counts here unless this node has a link with the leader.
func (c *Core) wouldPromise(candidate gossip.NodeID, b gossip.Ballot, claimed []gossip.NodeID) bool {
	if b.Less(c.promised) || b == c.promised && b.Node != candidate {
		return false
	}
	g := c.guard
	if g.leader == candidate || g.leader == 0 || !c.now.Before(g.until) {
		return true
	}
	if c.mutant == mutantIgnorePromise {
		return true
	}
	if g.leader == c.self() {
		return false
	}
	if c.evidence.certainlyDead(g.leader) {
		return true
	}
	if c.cfg.Evidence == gossip.EvidenceOff {
		return false
	}
	for _, id := range claimed {
		if id == g.leader {
			return !c.evidence.links[id]
		}
	}
	return false
}

func (c *Core) onPreVote(from gossip.NodeID, m *PreVote) {
	if !c.learnView(from, m.Base) {
		return
	}
	c.sendTo(from, &PreVoted{
		Ballot: m.Ballot, Base: m.Base.Epoch, Promised: c.promised,
		Yes: c.wouldPromise(from, m.Ballot, m.Dead), Hears: c.evidence.linkedOf(m.Asked()),
	})
}

func (c *Core) onPrepare(from gossip.NodeID, m *Prepare) {
	if !c.learnView(from, m.Base) {
		return
	}
	if !c.wouldPromise(from, m.Ballot, m.Dead) {
		c.sendTo(from, &Nack{Ballot: m.Ballot, Promised: c.promised})
		return
	}
	c.promiseBallot(m.Ballot)
	reply := &Promised{
		Ballot: m.Ballot, Base: m.Base.Epoch, Generation: c.generation,
		T0: int64(c.now), Hears: c.evidence.linkedOf(m.Asked()),
	}
	if a := c.attempts[m.Base.Epoch]; a != nil {
		reply.Accepted, reply.AcceptedBallot, reply.Emergency = c.packView(a.next, c.view), a.ballot, a.emergency
	}
	c.sendTo(from, reply)
}

// promiseBallot raises the promised ballot. A leader or candidate that promises another's
// higher ballot drops its own attempt. The promiser then does not stand for a while:
// otherwise two candidates could outbid each other forever.
func (c *Core) promiseBallot(b gossip.Ballot) {
	if !c.promised.Less(b) {
		return
	}
	c.promised = b
	c.roundSeen = max(c.roundSeen, b.Round)
	if b.Node != c.self() {
		c.stepDown("promised a higher ballot")
		c.candidacy = nil
		if c.mutant != mutantOutbid {
			c.candidateUntil = c.now.Add(c.cfg.Ping/4 + c.upTo(c.cfg.Ping))
		}
	}
}

// followBallot handles the common part of pings and accepts: it follows the sender's ballot, or
// rejects it and reports false.
func (c *Core) followBallot(from gossip.NodeID, p *Ping) bool {
	if p.Ballot.Less(c.promised) {
		c.sendTo(from, &Nack{Ballot: p.Ballot, Promised: c.promised})
		return false
	}
	c.promiseBallot(p.Ballot)
	c.heardAt = c.now
	c.guard = guard{leader: from, until: c.now.Add(c.cfg.Lease + c.margin(c.cfg.Lease))}
	if p.Life {
		if c.leader != from {
			c.repeatLeave()
		}
		c.leader, c.candidacy, c.failures = from, nil, 0
		c.leaderlessSince = c.guard.until
	}
	return true
}

func (c *Core) onPing(from gossip.NodeID, m *Ping) {
	if c.view != nil && m.Cluster != c.view.Cluster {
		c.traceEvent("other cluster", from, "ping of another cluster")
		return
	}
	if m.View != nil && !c.learnView(from, m.View) {
		return
	}
	if c.view == nil {
		return
	}
	if m.Epoch < c.view.Epoch {
		c.sendTo(from, &Decided{View: Whole(c.view)})
		return
	}
	if m.Epoch > c.view.Epoch {
		// This node lacks the leader's view, so its promise would not count. The answer
		// to round 0 makes the leader send the view.
		c.sendTo(from, &Pong{Ballot: m.Ballot, Epoch: c.view.Epoch, T0: int64(c.now)})
		return
	}
	if !c.followBallot(from, m) {
		return
	}
	c.membership.adoptSecret(m.Secret)
	c.holder.adoptGrant(m)
	c.pong(from, m, 0)
}

// onAccept stores a proposed view. If this node already holds the decided view, it
// replies with that view (learnView) and stores nothing.
func (c *Core) onAccept(from gossip.NodeID, m *Accept) {
	if m.Next == nil || !c.learnView(from, m.Base) {
		return
	}
	next := c.unpackView(m.Next)
	if next == nil || !c.followBallot(from, &m.Ping) {
		return
	}
	base := m.Base.Epoch
	c.attempts[base] = &attempt{ballot: m.Ping.Ballot, next: next, emergency: m.Emergency}
	c.noteGeneration(m.Next.Epoch.Generation())
	c.membership.adoptSecret(m.Ping.Secret)
	c.holder.adoptGrant(&m.Ping)
	c.pong(from, &m.Ping, base)
}

func (c *Core) pong(to gossip.NodeID, p *Ping, accepted gossip.Epoch) {
	c.sendTo(to, &Pong{
		Ballot: p.Ballot, Epoch: c.view.Epoch, Round: p.Round, T0: int64(c.now),
		Accepted: accepted, Unreachable: c.evidence.unreachable,
	})
}

// attempt is the view that an acceptor has accepted as the successor of another. It stays
// until the node learns a later decided view.
type attempt struct {
	ballot    gossip.Ballot
	next      *gossip.View
	emergency bool
}

// higher returns the attempt with the higher ballot; nil counts as none.
func (a *attempt) higher(o *attempt) *attempt {
	if a == nil || o != nil && a.ballot.Less(o.ballot) {
		return o
	}
	return a
}
