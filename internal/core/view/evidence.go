package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// The effects of a proof of death. A proof is certain if no rejecting network can produce
// it, and weak otherwise.
//
//   - Certain: the member is removed without the wait of RemoveAfter, once no member
//     that answers in time reports a link with it (doubt).
//   - Certain: acceptors are released from their promise to the dead leader.
//   - Certain, with EvidenceFull: it allows a total quorum, and so the emergency takeover.
//   - Weak: the leader grants the member nothing, asks the other members as above, and
//     removes it when its lease has certainly ended (outlived). A wrong weak proof
//     therefore costs a member its place but never lets two nodes run the same entity.
//     The promise to a leader that is weakly proven dead holds until its end.
//
// The takeover is the dangerous part. All members that are not certainly dead must
// answer, and then they continue without the majority. If the proofs are true, this is
// wrong only if the candidate was removed before the other members died, and they
// admitted members that live. The candidate has not left by itself, and no certain proof
// of its death exists; removal by weak proof takes L, removal for silence RemoveAfter,
// which is longer. So a candidate counts proofs only if it had all of them before L had
// passed since its newest grant was requested (inWindow). Later proofs never count: time
// no longer shows whether the candidate was removed in between. A weak proof that becomes
// certain counts from that moment, not from its first.
//
// The candidate proposes a new view, not an uncovered attempt: every living acceptor of
// that attempt is in the total quorum, so no view that followed it has a living voter. A
// joiner may hold such a view; it stops waiting and returns (joinerPatience), and
// yields whenever lineages meet (lineage.go).

// proof is a proof that a peer's process has ended.
type proof struct {
	at     clock.Instant
	reason string
	// certain is set on a proof that no rejecting network can produce.
	certain bool
	// assumed is set on an assumption of AssumeCrash; it counts as certain.
	assumed bool
	// deniedUntil is set when a member has a link with the peer: until then the proof
	// does not count.
	deniedUntil clock.Instant
}

// evidence holds the proofs of death of a view's members, and this node's links, by which
// it denies proofs of other nodes.
type evidence struct {
	*history
	// proofs holds the proven deaths of members, early those of nodes that are in no view
	// of this node yet.
	proofs map[gossip.NodeID]*proof
	early  map[gossip.NodeID]*proof
	links  map[gossip.NodeID]bool
	// unreachable is never modified in place: sent answers share it.
	unreachable []gossip.NodeID
}

// onProof records a proof, and reports whether it is a new one of a member's death.
func (e *evidence) onProof(ev ProvenDead) bool {
	id := ev.Subject
	if id == e.self() || e.cfg.Evidence == gossip.EvidenceOff || e.gone[id] {
		return false
	}
	fresh := &proof{at: e.now, reason: ev.Reason, certain: ev.Certain}
	if e.view.Member(id) == nil {
		// The view that has it as a member may be on its way here.
		if p := e.early[id]; p.yieldsTo(fresh) && (p != nil || len(e.early) < earlyMax) {
			e.early[id] = fresh
		}
		return false
	}
	p := e.proofs[id]
	if !p.yieldsTo(fresh) {
		return false
	}
	if p != nil {
		fresh.deniedUntil = p.deniedUntil
	}
	e.recordProof(id, fresh)
	return true
}

// yieldsTo reports whether a fresh proof about the same peer supersedes p: any supersedes
// nil, a certain one supersedes a weak one and an assumption.
func (p *proof) yieldsTo(fresh *proof) bool {
	return p == nil || fresh.certain && (p.assumed || !p.certain)
}

// recordProof records the proof of a member's death.
func (e *evidence) recordProof(id gossip.NodeID, p *proof) {
	e.proofs[id] = p
	kind := "proven dead"
	if !p.certain {
		kind = "taken for dead"
	}
	e.traceEvent(kind, id, p.reason)
}

// earlyMax bounds the proofs about nodes that are in no view.
const earlyMax = 1024

// countEarlyProofs applies the early proofs about nodes that are now in the view.
func (e *evidence) countEarlyProofs() {
	if len(e.early) == 0 {
		return
	}
	for i := range e.view.Members {
		id := e.view.Members[i].ID
		if p := e.early[id]; p != nil && e.proofs[id].yieldsTo(p) {
			e.proofs[id] = p
		}
		delete(e.early, id)
	}
}

// withdrawProof withdraws the proof of a node's death.
func (e *evidence) withdrawProof(id gossip.NodeID) {
	delete(e.proofs, id)
	delete(e.early, id)
}

// forgetMember drops the state about a former member.
func (e *evidence) forgetMember(id gossip.NodeID) {
	delete(e.proofs, id)
	delete(e.links, id)
}

// setLink records whether there is a link with a node.
func (e *evidence) setLink(id gossip.NodeID, up bool) {
	if up {
		e.links[id] = true
	} else {
		delete(e.links, id)
	}
}

// dead reports whether there is a proof of id's death, weak or certain, that no member
// denies.
func (e *evidence) dead(id gossip.NodeID) bool {
	p := e.proofs[id]
	return p != nil && !e.now.Before(p.deniedUntil)
}

// certainlyDead reports whether there is a certain proof of id's death that no member
// denies.
func (e *evidence) certainlyDead(id gossip.NodeID) bool {
	return e.dead(id) && e.proofs[id].certain
}

// mayLive reports whether id's death is not certain.
func (e *evidence) mayLive(id gossip.NodeID) bool { return !e.certainlyDead(id) }

// deny records that other members have links with nodes that are proven dead here. It
// reports whether one of those proofs was certain: candidacies do not rest on weak
// proofs, so their denial ends none.
func (e *evidence) deny(ids []gossip.NodeID) (certain bool) {
	for _, id := range ids {
		if p := e.proofs[id]; p != nil {
			// The question is repeated and denied each time; all those denials count as
			// one.
			if p.deniedUntil == 0 || e.now.Sub(p.deniedUntil) > e.cfg.Lease {
				e.traceEvent("proof denied", id, p.reason)
			}
			p.deniedUntil = e.now.Add(e.cfg.Ping / 2)
			certain = certain || p.certain
		}
	}
	return certain
}

// deadMembers lists the members of the view that are proven dead, by certain and by weak
// proofs.
func (e *evidence) deadMembers() (certain, weak []gossip.NodeID) {
	if len(e.proofs) == 0 {
		return nil, nil
	}
	for i := range e.view.Members {
		switch id := e.view.Members[i].ID; {
		case e.certainlyDead(id):
			certain = append(certain, id)
		case e.dead(id):
			weak = append(weak, id)
		}
	}
	return certain, weak
}

// linkedOf lists those of ids with which this node has a link, and itself.
func (e *evidence) linkedOf(ids []gossip.NodeID) []gossip.NodeID {
	var out []gossip.NodeID
	for _, id := range ids {
		if id == e.self() || e.links[id] && e.proofs[id] == nil {
			out = append(out, id)
		}
	}
	return out
}

// witnesses lists the voters that may have a link with a node.
func (e *evidence) witnesses(id gossip.NodeID) []gossip.NodeID {
	var out []gossip.NodeID
	for i := range e.view.Members {
		m := &e.view.Members[i]
		if m.Status.Votes() && m.ID != id && m.ID != e.self() && e.mayLive(m.ID) {
			out = append(out, m.ID)
		}
	}
	return out
}

// departed returns the departure of a member whose death is proven or assumed here.
func (e *evidence) departed(id gossip.NodeID) gossip.Departure {
	d := gossip.Departure{ID: id, Cause: gossip.CauseDead}
	if p := e.proofs[id]; p != nil {
		d.Evidence = p.reason[:min(len(p.reason), evidenceBytesMax)]
		if p.assumed {
			d.Cause = gossip.CauseAssumed
		}
	}
	return d
}

// evidenceAt is when a denied proof counts again.
func (e *evidence) evidenceAt() clock.Instant {
	d := clock.Never
	for _, p := range e.proofs { // order-free: a minimum
		if p.deniedUntil.After(e.now) {
			d = clock.Min(d, p.deniedUntil)
		}
	}
	return d
}

// toElectorate sends a message to all members that are not certainly dead.
func (e *evidence) toElectorate(m Message) {
	for i := range e.view.Members {
		if id := e.view.Members[i].ID; e.mayLive(id) {
			e.sendTo(id, m)
		}
	}
}

// AssumeCrash: a node that has held no lease for After assumes that members have crashed
// if they were silent for as long and it has no link with them. From then on they count
// as certainly dead: they are not asked, and a total quorum does not need them. The
// window of other proofs (inWindow) does not apply: it prevents a part from continuing
// beside a majority, which this policy accepts.

// silence records when each member last gave a sign of life, only for AssumeCrash.
type silence struct {
	*history
	evidence *evidence
	holder   *leaseHolder

	after time.Duration
	// since is when this node was first in a view.
	since clock.Instant
	// lastSign is the time of a member's last sign of life, or when this node met it.
	lastSign map[gossip.NodeID]clock.Instant
}

func newSilence(p gossip.Policy) *silence {
	if a, ok := p.(gossip.AssumeCrash); ok {
		return &silence{after: a.After, lastSign: map[gossip.NodeID]clock.Instant{}}
	}
	return nil
}

// signOfLife records a sign of life of a peer and withdraws the assumption of its crash.
func (s *silence) signOfLife(id gossip.NodeID) {
	if s == nil {
		return
	}
	if s.view.Member(id) != nil {
		s.lastSign[id] = s.now
	}
	if p := s.evidence.proofs[id]; p != nil && p.assumed {
		delete(s.evidence.proofs, id)
		s.traceEvent("not dead after all", id, "")
	}
}

// meetMembers starts the silence timers for members of a new view.
func (s *silence) meetMembers(v *gossip.View) {
	if s == nil {
		return
	}
	if s.since == 0 {
		s.since = s.now
	}
	heard := make(map[gossip.NodeID]clock.Instant, len(v.Members))
	for i := range v.Members {
		id := v.Members[i].ID
		if heard[id] = s.lastSign[id]; heard[id] == 0 {
			heard[id] = s.now
		}
	}
	s.lastSign = heard
}

// servedAt is when this node was last granted a lease. Pings are not enough: a leader
// that gathers no quorum sends them as well.
func (s *silence) servedAt() clock.Instant { return max(s.holder.grantedAt, s.since) }

// assumes reports whether silence now counts as death.
func (s *silence) assumes() bool {
	return s != nil && s.votes() && !s.holder.lease.Valid(s.now) && !s.now.Before(s.servedAt().Add(s.after))
}

// driveAssume assumes that silent members are dead, and returns them.
func (s *silence) driveAssume() (dead []gossip.NodeID) {
	if !s.assumes() {
		return nil
	}
	for i := range s.view.Members {
		if id := s.view.Members[i].ID; s.assumable(id) && !s.now.Before(s.lastSign[id].Add(s.after)) {
			s.evidence.recordProof(id, &proof{at: s.now, reason: "assumed: silent for " + s.after.String(), certain: true, assumed: true})
			dead = append(dead, id)
		}
	}
	return dead
}

// assumable reports whether a member may be assumed dead.
func (s *silence) assumable(id gossip.NodeID) bool {
	p := s.evidence.proofs[id]
	return id != s.self() && !s.evidence.links[id] && (p == nil || !p.certain)
}

// assumeAt returns when driveAssume next has something to do.
func (s *silence) assumeAt() clock.Instant {
	if s == nil || !s.votes() {
		return clock.Never
	}
	d := clock.Never
	for i := range s.view.Members {
		if id := s.view.Members[i].ID; s.assumable(id) {
			d = clock.Min(d, s.lastSign[id].Add(s.after))
		}
	}
	if d == clock.Never {
		return d
	}
	return max(d, s.servedAt().Add(s.after), s.holder.lease.Until)
}
