package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// What a proof of death does, and what it does not (DESIGN 4.5).
//
//   - It speeds removal up: the dead go without the wait of RemoveAfter, once nobody
//     who answers in time has said that he still hears them (doubt).
//   - It frees acceptors from what they promised the dead leader.
//   - With EvidenceFull it allows a total quorum, and so the emergency takeover.
//
// The takeover is the dangerous part. All members that are not proven dead must
// answer, and then they go on without the majority. If the proofs are true, the only
// way to be wrong is that somebody removed the candidate before he died, and let
// others in who live. Removal at the member's own wish and by proof are out of the
// question; removal for silence takes RemoveAfter. So a candidate counts proofs only
// if all of them were in its hands before RemoveAfter had passed since its newest
// grant was asked for (inWindow). What comes later is worth nothing, for ever: time
// does not tell any more whether it was removed in between.
//
// It proposes afresh, not what it uncovers: whoever accepted that and lives is in the
// total quorum, so nothing that was committed on the strength of it has a living
// voter. A joiner may know such a view; it gives up waiting and comes back
// (joinerPatience), and yields whenever lineages meet (contest.go).

// proof says that a peer's process is gone.
type proof struct {
	at     clock.Instant
	reason string
	// assumed is set on what AssumeCrash only assumes.
	assumed bool
	// deniedUntil is set when a member still hears the peer: the proof does not
	// count before.
	deniedUntil clock.Instant
}

func (c *Core) onProof(id NodeID, reason string) {
	if id == c.self() || c.cfg.Evidence == EvidenceOff || c.gone[id] {
		return
	}
	if p := c.proofs[id]; p != nil && !p.assumed {
		return
	}
	if c.view.Member(id) == nil {
		// The view that has it as a member may be on its way here.
		if c.early[id] == nil && len(c.early) < earlyMax {
			c.early[id] = &proof{at: c.now, reason: reason}
		}
		return
	}
	c.proveDead(id, &proof{at: c.now, reason: reason})
}

// proveDead takes a member for dead.
func (c *Core) proveDead(id NodeID, p *proof) {
	c.proofs[id] = p
	c.stir()
	c.trace("proven dead", id, p.reason)
	if id == c.leader {
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
		if p := c.early[id]; p != nil && c.proofs[id] == nil {
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

// dead reports whether id's death is proven, and denied by nobody.
func (c *Core) dead(id NodeID) bool {
	p := c.proofs[id]
	return p != nil && !c.now.Before(p.deniedUntil)
}

// deny takes note that others hear nodes that are proven dead here.
func (c *Core) deny(ids []NodeID) bool {
	denied := false
	for _, id := range ids {
		if p := c.proofs[id]; p != nil {
			// It is asked again and again, and denied as often: that is one denial.
			if p.deniedUntil == 0 || c.now.Sub(p.deniedUntil) > c.cfg.Lease {
				c.trace("proof denied", id, p.reason)
			}
			p.deniedUntil = c.now.Add(c.cfg.Ping / 2)
			denied = true
		}
	}
	return denied
}

// deadMembers lists the members of the view whose death is proven.
func (c *Core) deadMembers() []NodeID {
	if len(c.proofs) == 0 {
		return nil
	}
	var out []NodeID
	for i := range c.view.Members {
		if id := c.view.Members[i].ID; c.dead(id) {
			out = append(out, id)
		}
	}
	return out
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

// inWindow reports whether, at a moment when all proofs of the view's dead were
// already in this node's hands, nobody could have removed it for silence: less than
// RemoveAfter (less the drift margin) had passed since its newest grant was asked
// for. A node removed for silence that wakes and finds all others dead looks
// exactly like a sole survivor; time is what tells them apart.
func (c *Core) inWindow() bool {
	if c.mutant == mutantLateEvidence {
		return true
	}
	if c.grantedAt == 0 {
		return false
	}
	last := clock.Instant(0)
	for i := range c.view.Members {
		if p := c.proofs[c.view.Members[i].ID]; p != nil {
			last = max(last, p.at)
		}
	}
	return last.Sub(c.grantedAt) < c.cfg.RemoveAfter-c.margin(c.cfg.RemoveAfter)
}

// total reports whether the set is a total quorum of the view that may be used.
func (c *Core) total(in has) bool {
	if c.leaving && c.mutant != mutantLeaverTakesOver {
		// It may have been left out at its own wish, which no window shows.
		return false
	}
	return c.cfg.Evidence == EvidenceFull && c.votes() && totalQuorum(c.view, in, c.dead) && (c.inWindow() || c.assumes()) &&
		c.cfg.Partition.Survives(c.view, func(id NodeID) bool { return in(id) && !c.dead(id) })
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

// witnesses lists the voters that may still hear a node.
func (c *Core) witnesses(id NodeID) []NodeID {
	var out []NodeID
	for i := range c.view.Members {
		m := &c.view.Members[i]
		if m.Status.Votes() && m.ID != id && m.ID != c.self() && c.proofs[m.ID] == nil {
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
	if c.deny(m.Hears) {
		for _, id := range m.Hears {
			delete(o.doubts, id)
		}
	}
}
