package gossip

import (
	"context"
	"net/netip"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// Sealed refusals: how a refused connection becomes a certain proof.
//
// A refusal is weak: a router that rejects sends the same reset as the host of a dead
// process. So a node asks the UDP port that the peer's process alone holds
// (transport.Inquirer). The host of a dead process answers "port unreachable" in its own
// name; a router does so in the router's. What is certain:
//
//	baseline   while the link stands: the process answered, and was asked at the very
//	           address that we ask, with some TTL. It excludes translated addresses, ports
//	           that are always rejected, and networks without UDP.
//	then       the control connection is lost and refused as a weak proof takes it,
//	and        an error "port unreachable" quotes a fresh question, its sender is the
//	           address asked, and its TTL is that of the baseline.
//
// An answer of the process while connections are refused shows that it lives: refusals
// then count for nothing for voidFor. What nothing tells from death: a firewall on the
// peer's own host, or a bridge that forges its address, which rejects both.
const (
	// baselineEvery is how often a peer is asked while all is well, baselineRetry how often
	// while there is no baseline, baselineFor how long one counts.
	baselineEvery = 10 * time.Second
	baselineRetry = time.Second
	baselineFor   = 30 * time.Second
	// inquiryMax is how long an inquiry waits for what comes back.
	inquiryMax = 300 * time.Millisecond
	// inquiryRetry is the wait before the question is repeated about a peer that refuses, and
	// inquiriesMax how often it is asked: kernels send one ICMP error a second to one host.
	inquiryRetry = time.Second
	// inquiryRank is how much later each member asks than the one before it in seniority.
	inquiryRank  = 15 * time.Millisecond
	inquiriesMax = 5
	// voidFor is how long refusals count for nothing after the process has answered.
	voidFor = time.Second
	// holdFor is how long datagrams of discovery to a peer that was lost are held.
	holdFor = 300 * time.Millisecond
)

// sealing is what the UDP port of one peer has shown.
type sealing struct {
	// addr and ttl are those of the baseline, baseAt is when it was taken, 0 if never.
	addr   netip.Addr
	ttl    int
	baseAt clock.Instant
	// asking is set while an inquiry is under way; next is when the next may begin.
	asking bool
	next   clock.Instant
	// turn is when this node may ask about the peer, which is weakly proven dead; 0 before
	// that is known. told is set once a member has told of a sealed refusal.
	turn clock.Instant
	told bool
	// asked counts the inquiries since the peer was proven dead.
	asked int
	// voidUntil is until when refusals count for nothing.
	voidUntil clock.Instant
	// since is from when on a baseline is missing; warned says that the operator knows.
	since  clock.Instant
	warned bool
}

// answered takes an answer of the peer's process, and reports whether it is a baseline.
func (s *sealing) answered(now clock.Instant, q *transport.Inquiry) bool {
	if !q.Asked.IsValid() || q.By != q.Asked || q.TTL == 0 {
		s.baseAt = 0
		return false
	}
	s.addr, s.ttl, s.baseAt = q.Asked, q.TTL, now
	return true
}

// seals reports whether what came back makes the refusals of a peer, whose control
// connection was lost at lostAt, a certain proof.
func (s *sealing) seals(lostAt clock.Instant, q *transport.Inquiry) bool {
	return q.Outcome == transport.PortUnreachable && s.baseAt != 0 && lostAt.Sub(s.baseAt) <= baselineFor &&
		q.Asked == s.addr && q.By == s.addr && q.TTL == s.ttl
}

// baselines asks the peers whose baseline is due.
func (e *evidence) baselines(now clock.Instant, a *actions) {
	if !e.inquires || now.Before(e.nextBaseline) {
		return
	}
	e.nextBaseline = clock.Never
	for _, p := range e.peers { // order-free: each is asked by itself
		if !p.member || p.lostAt != 0 {
			continue
		}
		if s := &p.seal; !s.asking && !now.Before(s.next) {
			s.asking = true
			a.inquire = append(a.inquire, p.node)
		} else if !s.asking {
			e.nextBaseline = clock.Min(e.nextBaseline, s.next)
		}
	}
}

// wantBaseline has a peer asked soon, whose link has come up or which became a member.
func (e *evidence) wantBaseline(now clock.Instant, p *peerLinks) {
	if !e.inquires || !p.member || p.lostAt != 0 {
		return
	}
	s := &p.seal
	s.turn, s.told = 0, false
	if s.asked = 0; s.since == 0 {
		s.since = now
	}
	if s.baseAt == 0 {
		s.next = now
	}
	e.nextBaseline = clock.Min(e.nextBaseline, s.next)
}

// inquireOf asks a peer that is weakly proven dead, if it may be asked now.
func (e *evidence) inquireOf(now clock.Instant, p *peerLinks, a *actions) {
	s := &p.seal
	if !e.inquires || !e.weak(p) || s.baseAt == 0 || s.asking || s.asked >= inquiriesMax || s.asked > 0 && now.Before(s.next) {
		return
	}
	if s.turn == 0 {
		s.turn = now.Add(e.rankOf(p))
	}
	if now.Before(s.turn) {
		return
	}
	s.asking = true
	s.asked++
	a.inquire = append(a.inquire, p.node)
}

// rankOf returns how long this node waits before it asks about a peer. The two most senior
// of the members that are reached ask immediately: one of them leads next. Each of the
// others follows inquiryRank behind the one before it, unless it is told meanwhile: the
// kernels of all hosts send few ICMP errors to one, six and then one a second.
func (e *evidence) rankOf(p *peerLinks) time.Duration {
	before := 0
	for _, id := range e.seniors {
		if q := e.peers[id]; q != nil && q != p && q.lostAt == 0 {
			before++
		}
	}
	return min(time.Duration(max(before-1, 0))*inquiryRank, inquiryMax)
}

// sealed tells the members that the host of a peer has said that its process is gone.
type sealed struct{ Subject view.NodeID }

func (sealed) tag() byte { return tagSealed }

// tellSealed spares the others the question.
func (e *evidence) tellSealed(subject view.NodeID, a *actions) {
	for id, p := range e.peers { // order-free: each is told the same
		if p.member && id != subject && p.proof == 0 && p.out[transport.Control] {
			a.tell(id, sealed{subject})
		}
	}
}

// sealedTold takes a member's word for a sealed refusal. It counts as this node's own once
// the peer refuses here, too: a process that is gone for one is gone for all, and its id
// never returns.
func (e *evidence) sealedTold(now clock.Instant, from, subject view.NodeID, a *actions) {
	if q := e.peers[from]; q == nil || !q.member || !e.inquires {
		return
	}
	p := e.peers[subject]
	if p == nil || !p.member || p.lostAt == 0 || p.seal.baseAt == 0 || now.Before(p.seal.voidUntil) {
		return
	}
	p.seal.told = true
	e.conclude(now, p, a)
}

// inquiryDue returns when inquireOf next has something to do for a peer.
func (e *evidence) inquiryDue(p *peerLinks) clock.Instant {
	if s := &p.seal; e.inquires && e.weak(p) && p.refusals > 0 && s.baseAt != 0 && !s.asking && s.asked < inquiriesMax {
		if s.asked == 0 {
			return s.turn
		}
		return s.next
	}
	return clock.Never
}

// inquired takes what became of an inquiry.
func (e *evidence) inquired(now clock.Instant, id view.NodeID, q *transport.Inquiry, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	s := &p.seal
	s.asking = false
	switch {
	case q.Outcome == transport.Answered && p.lostAt != 0:
		// It lives, whatever refuses in its name.
		s.answered(now, q)
		s.voidUntil, s.next, s.turn, s.told = now.Add(voidFor), now.Add(inquiryRetry), 0, false
		e.heard(id, a)
	case q.Outcome == transport.Answered && s.answered(now, q):
		s.since, s.next = now, now.Add(baselineEvery)
	case e.weak(p) && s.seals(p.lostAt, q):
		e.prove(now, p, EvidenceSealed, a)
		e.tellSealed(id, a)
	case p.lostAt != 0:
		s.next = now.Add(inquiryRetry)
	default:
		s.next = now.Add(baselineRetry)
		e.warnUnsealed(now, p, a)
	}
	e.nextBaseline = clock.Min(e.nextBaseline, s.next)
}

// warnUnsealed tells the operator, once per peer, that a crash of the peer will not be
// certain.
func (e *evidence) warnUnsealed(now clock.Instant, p *peerLinks, a *actions) {
	s := &p.seal
	if s.warned || e.level != view.EvidenceFull || now.Sub(s.since) < baselineFor {
		return
	}
	s.warned = true
	a.warn("a node does not answer at its UDP port", "the crash of "+p.node.Name+" at "+p.node.Addr+
		" will take a lease to remove it and cannot replace a quorum; let UDP through to the port of Listen, without address translation")
}

// inquire asks in a goroutine of its own.
func (n *Node) inquire(node view.Node) {
	inquirer := n.transport.(transport.Inquirer) // evidence.inquires is set
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, inquiryMax)
		defer cancel()
		q := inquirer.Inquire(ctx, transport.Peer{ID: node.ID, Name: node.Name, Addr: node.Addr})
		n.inbox.put(inquiredIn{node.ID, q})
	})
}
