package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// What a proof of death does, and what it does not. A proof is certain if no rejecting
// network can give it, and weak otherwise.
//
//   - Certain: the member is removed without the wait of RemoveAfter, once no member
//     that answers in time reports a link with it (doubt).
//   - Certain: acceptors are released from their promise to the dead leader.
//   - Certain, with EvidenceFull: it allows a total quorum, and so the emergency takeover.
//   - Weak: the leader grants the member nothing, asks the others as above, and removes
//     it when its lease has certainly ended (outlived). A wrong weak proof therefore costs
//     a member its place and never lets two run the same thing. The promise to a leader
//     that is weakly proven dead stands until its end.
//
// The takeover is the dangerous part. All members that are not certainly dead must
// answer, and then they continue without the majority. If the proofs are true, the
// only way to be wrong is that the candidate was removed before the others died, and
// that they let in members that live. Removal at the member's own wish and by certain
// proof are out of the question; removal by weak proof takes L, removal for silence
// RemoveAfter, which is longer. So a candidate counts proofs only if all of them were in
// its hands before L had passed since its newest grant was asked for (inWindow). Later
// proofs never count: time no longer shows whether the candidate was removed in between.
// A weak proof that becomes certain counts from that moment, not from its first.
//
// It proposes afresh, not what it uncovers: whoever accepted that and lives is in the
// total quorum, so nothing that was committed on the strength of it has a living
// voter. A joiner may know such a view; it gives up waiting and comes back
// (joinerPatience), and yields whenever lineages meet (contest.go).

// proof says that a peer's process is gone.
type proof struct {
	at     clock.Instant
	reason string
	// certain is set on a proof that no rejecting network can give.
	certain bool
	// assumed is set on what AssumeCrash only assumes; it counts as certain.
	assumed bool
	// deniedUntil is set when a member still hears the peer: the proof does not
	// count before.
	deniedUntil clock.Instant
}

func (c *Core) onProof(e ProvenDead) {
	id := e.Subject
	if id == c.self() || c.cfg.Evidence == EvidenceOff || c.gone[id] {
		return
	}
	fresh := &proof{at: c.now, reason: e.Reason, certain: e.Certain}
	if c.view.Member(id) == nil {
		// The view that has it as a member may be on its way here.
		if p := c.early[id]; p.yieldsTo(fresh) && (p != nil || len(c.early) < earlyMax) {
			c.early[id] = fresh
		}
		return
	}
	p := c.proofs[id]
	if !p.yieldsTo(fresh) {
		return
	}
	if p != nil {
		fresh.deniedUntil = p.deniedUntil
	}
	c.proveDead(id, fresh)
}

// yieldsTo reports whether a proof is superseded by a fresh one about the same peer:
// none by any, a weak proof and an assumption by a certain one.
func (p *proof) yieldsTo(fresh *proof) bool {
	return p == nil || fresh.certain && (p.assumed || !p.certain)
}

// proveDead takes a member for dead.
func (c *Core) proveDead(id NodeID, p *proof) {
	c.proofs[id] = p
	c.stir()
	kind := "proven dead"
	if !p.certain {
		kind = "taken for dead"
	}
	c.trace(kind, id, p.reason)
	if id == c.leader && c.certainlyDead(id) {
		c.vacantAt = min(c.vacantAt, c.now)
	}
	if c.cand != nil {
		// A candidate whose electorate has changed asks again, at once.
		c.cand, c.standAfter = nil, 0
	}
}

// earlyMax bounds the proofs that are kept for nodes that stand in no view.
const earlyMax = 1024

// countEarlyProofs lets proofs count whose subjects the view has brought.
func (c *Core) countEarlyProofs() {
	if len(c.early) == 0 {
		return
	}
	for i := range c.view.Members {
		id := c.view.Members[i].ID
		if p := c.early[id]; p != nil && c.proofs[id].yieldsTo(p) {
			c.proofs[id] = p
		}
		delete(c.early, id)
	}
}

// onAlive takes a proof back.
func (c *Core) onAlive(id NodeID) {
	delete(c.proofs, id)
	delete(c.early, id)
	if c.office != nil {
		delete(c.office.doubts, id)
	}
}

// dead reports whether there is a proof of id's death, weak or certain, that no member
// denies.
func (c *Core) dead(id NodeID) bool {
	p := c.proofs[id]
	return p != nil && !c.now.Before(p.deniedUntil)
}

// certainlyDead reports whether there is a certain proof of id's death that no member
// denies.
func (c *Core) certainlyDead(id NodeID) bool {
	return c.dead(id) && (c.proofs[id].certain || c.mutant == mutantWeakIsCertain)
}

// mayLive reports whether id's death is not certain.
func (c *Core) mayLive(id NodeID) bool { return !c.certainlyDead(id) }

// deny takes note that other members have links with nodes that are proven dead here.
// It reports whether one of them was certainly dead: weak proofs carry no candidacy, so
// their denial ends none.
func (c *Core) deny(ids []NodeID) (certain bool) {
	for _, id := range ids {
		if p := c.proofs[id]; p != nil {
			// It is asked again and again, and denied as often: that is one denial.
			if p.deniedUntil == 0 || c.now.Sub(p.deniedUntil) > c.cfg.Lease {
				c.trace("proof denied", id, p.reason)
			}
			p.deniedUntil = c.now.Add(c.cfg.Ping / 2)
			certain = certain || p.certain
		}
	}
	return certain
}

// deadMembers lists the members of the view whose death is proven: for certain, or only
// weakly.
func (c *Core) deadMembers() (certain, weak []NodeID) {
	if len(c.proofs) == 0 {
		return nil, nil
	}
	for i := range c.view.Members {
		switch id := c.view.Members[i].ID; {
		case c.certainlyDead(id):
			certain = append(certain, id)
		case c.dead(id):
			weak = append(weak, id)
		}
	}
	return certain, weak
}

// hears lists those of ids that this node has a link with, or is itself.
func (c *Core) hears(ids []NodeID) []NodeID {
	var out []NodeID
	for _, id := range ids {
		if id == c.self() || c.links[id] && c.proofs[id] == nil {
			out = append(out, id)
		}
	}
	return out
}

// inWindow reports whether, at a moment when all certain proofs of the view's dead
// were already in this node's hands, no leader could have removed it without its wish:
// less than L (less the drift margin) had passed since its newest grant was asked for,
// and a leader with a weak proof waits for L. A node that was removed, wakes and finds
// all others dead looks exactly like a sole survivor; time is what tells them apart.
func (c *Core) inWindow() bool {
	if c.mutant == mutantLateEvidence {
		return true
	}
	if c.grantedAt == 0 {
		return false
	}
	last := clock.Instant(0)
	for i := range c.view.Members {
		if p := c.proofs[c.view.Members[i].ID]; p != nil && p.certain {
			last = max(last, p.at)
		}
	}
	window := c.cfg.Lease
	if c.mutant == mutantWideWindow {
		window = c.cfg.RemoveAfter
	}
	return last.Sub(c.grantedAt) < window-c.margin(window)
}

// total reports whether the set is a total quorum of the view that may be used.
func (c *Core) total(in has) bool {
	if c.leaving && c.mutant != mutantLeaverTakesOver {
		// It may have been left out at its own wish, which no window shows.
		return false
	}
	return c.cfg.Evidence == EvidenceFull && c.votes() && totalQuorum(c.view, in, c.certainlyDead) && (c.inWindow() || c.assumes()) &&
		c.cfg.Partition.Survives(c.view, func(id NodeID) bool { return in(id) && c.mayLive(id) })
}

// plain asks the policy whether a set is a plain quorum.
func (c *Core) plain(v *View, in has) bool {
	if c.mutant == mutantQuorumOfLiving || c.mutant == mutantDeadOutFirst {
		living := *v
		living.Members = slices.DeleteFunc(slices.Clone(v.Members), func(m Member) bool { return c.proofs[m.ID] != nil })
		if c.mutant == mutantQuorumOfLiving {
			living.Members = slices.DeleteFunc(living.Members, func(m Member) bool { return slices.Contains(c.unreachable, m.ID) })
		}
		v = &living
	}
	return c.cfg.Partition.Quorum(v, in)
}

// doubt is the question whether anyone still hears a member that is proven dead to
// the leader. Proofs are facts about one node's connections; another may have one
// that works. It costs a round trip, and at most doubtWait when a member is slow.
type doubt struct {
	asked    clock.Instant
	waiting  []NodeID
	answered map[NodeID]bool
}

func (c *Core) doubtWait() time.Duration { return c.cfg.Ping / 4 }

// undoubted reports whether a proven death has stood the question of all members
// that answer in time. It asks them the first time.
func (c *Core) undoubted(id NodeID) bool {
	o := c.office
	d := o.doubts[id]
	if d == nil {
		d = &doubt{asked: c.now, waiting: c.witnesses(id), answered: map[NodeID]bool{}}
		for _, w := range d.waiting {
			c.send(w, &Doubt{Ballot: o.ballot, Dead: []NodeID{id}})
		}
		o.doubts[id] = d
	}
	missing := slices.ContainsFunc(d.waiting, func(w NodeID) bool { return !d.answered[w] && c.proofs[w] == nil })
	return !missing || !c.now.Before(d.asked.Add(c.doubtWait()))
}

// outlived reports whether a member whose death is proven holds no lease: it is
// certainly dead, or what it was granted has ended.
//
// Its lease is t0 + r on its own clock. A leader measured r <= L after t0 had left the
// member, and that answer came here at answeredAt at the latest. Later grants do not
// extend it, since r shrinks as t0 ages. A former leader's grant rests on a round that
// left before since: a promiser lies in both quorums, and its promise to the former
// leader had ended, or that leader was dead. The members are asked once more when the
// wait is over: a link may have come back meanwhile.
func (c *Core) outlived(m *Member) bool {
	o := c.office
	if c.certainlyDead(m.ID) || c.mutant == mutantWeakRemovesSoon {
		return true
	}
	ended := max(o.peers[m.ID].answeredAt, o.since).Add(c.cfg.Lease + c.margin(c.cfg.Lease))
	if c.now.Before(ended) {
		return false
	}
	if o.doubts[m.ID].asked.Before(ended) {
		delete(o.doubts, m.ID)
		return c.undoubted(m.ID)
	}
	return true
}

// witnesses lists the voters that may still hear a node.
func (c *Core) witnesses(id NodeID) []NodeID {
	var out []NodeID
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.Status.Votes() && m.ID != id && m.ID != c.self() && c.mayLive(m.ID) {
			out = append(out, m.ID)
		}
	}
	return out
}

func (c *Core) onDoubt(from NodeID, m *Doubt) {
	c.send(from, &Doubted{Ballot: m.Ballot, Asked: m.Dead, Hears: c.hears(m.Dead)})
}

func (c *Core) onDoubted(from NodeID, m *Doubted) {
	o := c.office
	if o == nil || o.ballot != m.Ballot {
		return
	}
	for _, id := range m.Asked {
		if d := o.doubts[id]; d != nil {
			d.answered[from] = true
		}
	}
	c.stir()
	c.deny(m.Hears)
	for _, id := range m.Hears {
		delete(o.doubts, id)
	}
}
