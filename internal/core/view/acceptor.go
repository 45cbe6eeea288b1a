package view

import (
	"fmt"

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

// acceptor holds a member's promises and the attempts that it has accepted.
type acceptor struct {
	*history
	evidence *evidence
	// promised is the highest ballot that this acceptor has promised. Invariant: it
	// never goes down.
	promised Ballot
	// roundSeen is the highest round met in any ballot: this node's next round is above
	// it.
	roundSeen uint64
	// attempts holds the accepted attempt per base epoch. Invariant: no epoch before
	// view's.
	attempts map[gossip.Epoch]*attempt
	guard    guard
}

// wouldPromise reports whether this acceptor may promise ballot to candidate, which
// claims that some members are certainly dead. Its certain proof of the leader's death
// counts here unless this node has a link with the leader.
func (a *acceptor) wouldPromise(candidate gossip.NodeID, b Ballot, claimed []gossip.NodeID) bool {
	if b.Less(a.promised) || b == a.promised && b.Node != candidate {
		return false
	}
	g := a.guard
	if g.leader == candidate || g.leader == 0 || !a.now.Before(g.until) {
		return true
	}
	if g.leader == a.self() {
		return false
	}
	if a.evidence.certainlyDead(g.leader) {
		return true
	}
	if a.cfg.Evidence == gossip.EvidenceOff {
		return false
	}
	for _, id := range claimed {
		if id == g.leader {
			return !a.evidence.links[id]
		}
	}
	return false
}

// onPreVote answers whether this acceptor would promise a ballot.
func (a *acceptor) onPreVote(from gossip.NodeID, m *PreVote) {
	a.sendTo(from, &PreVoted{
		Ballot: m.Ballot, Base: m.Base.Epoch, Promised: a.promised,
		Yes: a.wouldPromise(from, m.Ballot, m.Dead), Linked: a.evidence.linkedOf(m.Asked()),
	})
}

// onPrepare promises a ballot or rejects it. It reports whether the promise supersedes this
// node's own attempt.
func (a *acceptor) onPrepare(from gossip.NodeID, m *Prepare) (superseded bool) {
	if !a.wouldPromise(from, m.Ballot, m.Dead) {
		a.sendTo(from, &Nack{Ballot: m.Ballot, Promised: a.promised})
		return false
	}
	superseded = a.promiseBallot(m.Ballot)
	reply := &Promised{
		Ballot: m.Ballot, Base: m.Base.Epoch, Generation: a.generation,
		T0: int64(a.now), Linked: a.evidence.linkedOf(m.Asked()),
	}
	if stored := a.attempts[m.Base.Epoch]; stored != nil {
		reply.Accepted, reply.AcceptedBallot, reply.Emergency = a.packView(stored.next, a.view), stored.ballot, stored.emergency
	}
	a.sendTo(from, reply)
	return superseded
}

// promiseBallot raises the promised ballot, and reports whether that supersedes this node's
// own attempt to lead.
func (a *acceptor) promiseBallot(b Ballot) (superseded bool) {
	if !a.promised.Less(b) {
		return false
	}
	a.promised = b
	a.noteBallot(b)
	return b.Node != a.self()
}

// noteBallot makes this node's next ballot higher than b, without promising anything.
func (a *acceptor) noteBallot(b Ballot) { a.roundSeen = max(a.roundSeen, b.Round) }

// nextBallot returns a ballot of this node above all that it has met.
func (a *acceptor) nextBallot() Ballot {
	return Ballot{Round: max(a.promised.Round, a.roundSeen) + 1, Node: a.self()}
}

// followLeader promises to follow the sender of a ping. If its ballot is too low, it rejects
// the ping and returns false. It also reports whether the promise supersedes this node's own
// attempt.
func (a *acceptor) followLeader(from gossip.NodeID, p *Ping) (follows, superseded bool) {
	if p.Ballot.Less(a.promised) {
		a.sendTo(from, &Nack{Ballot: p.Ballot, Promised: a.promised})
		return false, false
	}
	superseded = a.promiseBallot(p.Ballot)
	a.guardLeader(from)
	return true, superseded
}

// guardLeader begins or renews the promise to a leader.
func (a *acceptor) guardLeader(id gossip.NodeID) {
	a.guard = guard{leader: id, until: a.now.Add(a.cfg.Lease + a.margin(a.cfg.Lease))}
}

// storeAttempt stores a proposed view as the successor of base.
func (a *acceptor) storeAttempt(base gossip.Epoch, accepted *attempt) {
	a.attempts[base] = accepted
	a.noteGeneration(accepted.next.Epoch.Generation())
}

// dropSuperseded drops the attempts that the newest view supersedes, and the promise to a
// leader that it leaves out.
func (a *acceptor) dropSuperseded() {
	for base := range a.attempts { // order-free: each entry is checked by itself
		if base < a.view.Epoch {
			delete(a.attempts, base)
		}
	}
	if a.view.Member(a.guard.leader) == nil {
		a.guard = guard{}
	}
}

// leaveField drops this node's own attempt to lead: it has promised a higher ballot of
// another node. It does not stand for a while, so that two candidates do not outbid each
// other forever.
func (c *Core) leaveField() {
	c.stepDown("promised a higher ballot")
	c.campaign.yieldToCandidate()
}

// followBallot handles the common part of pings and accepts: it follows the sender's ballot, or
// rejects it and reports false.
func (c *Core) followBallot(from gossip.NodeID, p *Ping) bool {
	follows, superseded := c.acceptor.followLeader(from, p)
	if superseded {
		c.leaveField()
	}
	if !follows {
		return false
	}
	c.follower.pingedAt = c.now
	if p.Life {
		if c.follower.adoptLeader(from, c.acceptor.guard.until) {
			c.departure.repeatLeave()
		}
		c.campaign.endCampaign()
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
	c.lineage.membership.adoptSecret(m.Secret)
	c.holder.adoptGrant(m)
	c.acceptor.pong(from, m, 0)
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
	c.acceptor.storeAttempt(base, &attempt{ballot: m.Ping.Ballot, next: next, emergency: m.Emergency})
	c.lineage.membership.adoptSecret(m.Ping.Secret)
	c.holder.adoptGrant(&m.Ping)
	c.acceptor.pong(from, &m.Ping, base)
}

// pong answers a ping, or an accept of the given epoch.
func (a *acceptor) pong(to gossip.NodeID, p *Ping, accepted gossip.Epoch) {
	a.sendTo(to, &Pong{
		Ballot: p.Ballot, Epoch: a.view.Epoch, Round: p.Round, T0: int64(a.now),
		Accepted: accepted, Unreachable: a.evidence.unreachable,
	})
}

// attempt is the view that an acceptor has accepted as the successor of another. It stays
// until the node learns a later decided view.
type attempt struct {
	ballot    Ballot
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

// checkAttempts returns an error if an attempt is older than the newest view.
func (a *acceptor) checkAttempts() error {
	for base := range a.attempts { // order-free: any violation suffices
		if base < a.view.Epoch {
			return fmt.Errorf("%v keeps an attempt on %v in view %v", a.self(), base, a.view.Epoch)
		}
	}
	return nil
}
