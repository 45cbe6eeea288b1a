package membership

import (
	"context"
	"net/netip"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/internal/wire"
)

// Sealed refusals: from a refused connection to a certain proof.
//
// A refusal is weak: a router that rejects sends the same reset as the host of a dead
// process. So a node probes the UDP port that only the peer's process holds
// (transport.Inquirer). The host of a dead process answers "port unreachable" in its own
// name; a router does so in the router's. A proof is certain with:
//
//	baseline   while the link stands: the process answered, and was asked at the very
//	           address that we ask, with some TTL. It excludes translated addresses, ports
//	           that are always rejected, and networks without UDP.
//	then       the control connection is lost and refused as a weak proof takes it,
//	and        an error "port unreachable" quotes a fresh question, its sender is the
//	           address asked, and its TTL is that of the baseline.
//
// An answer of the process while connections are refused proves that it lives: its
// refusals are then ignored for voidFor. A firewall on the peer's own host, or a bridge
// that forges its address, cannot be distinguished from death if it rejects both.
const (
	// baselineEvery is how often a reachable peer is probed, baselineRetry how often
	// without a baseline, baselineFor how long a baseline is valid.
	baselineEvery = 10 * time.Second
	baselineRetry = time.Second
	baselineFor   = 30 * time.Second
	// inquiryMax is how long an inquiry waits for a result.
	inquiryMax = 300 * time.Millisecond
	// inquiryRetry is the wait between inquiries about a peer that refuses, and
	// inquiriesMax their number: kernels send one ICMP error a second to one host.
	inquiryRetry = time.Second
	// inquiryRank is the delay between the inquiries of successive members by seniority.
	inquiryRank  = 15 * time.Millisecond
	inquiriesMax = 5
	// voidFor is how long refusals are ignored after the process has answered.
	voidFor = time.Second
	// holdFor is how long datagrams of discovery to a lost peer are held back.
	holdFor = 300 * time.Millisecond
)

// sealing is the state of the probes of one peer's UDP port.
type sealing struct {
	// addr and ttl are those of the baseline, baseAt is when it was taken, 0 if never.
	addr   netip.Addr
	ttl    int
	baseAt clock.Instant
	// asking is set while an inquiry is in flight; next is when the next may begin.
	asking bool
	next   clock.Instant
	// turn is when this node may probe the peer, which is weakly proven dead; 0 before
	// the proof. reported is set once a member has reported a sealed refusal.
	turn     clock.Instant
	reported bool
	// asked counts the inquiries since the peer was proven dead.
	asked int
	// voidUntil is until when refusals are ignored.
	voidUntil clock.Instant
	// since is when the baseline became missing; warned is set once that was logged.
	since  clock.Instant
	warned bool
}

// onAnswer handles an answer of the peer's process, and reports whether it is a baseline.
func (s *sealing) onAnswer(now clock.Instant, q *transport.Inquiry) bool {
	if !q.Asked.IsValid() || q.By != q.Asked || q.TTL == 0 {
		s.baseAt = 0
		return false
	}
	s.addr, s.ttl, s.baseAt = q.Asked, q.TTL, now
	return true
}

// makesCertain reports whether a result makes the refusals of a peer, whose control connection
// was lost at lostAt, a certain proof.
func (s *sealing) makesCertain(lostAt clock.Instant, q *transport.Inquiry) bool {
	return q.Outcome == transport.PortUnreachable && s.baseAt != 0 && lostAt.Sub(s.baseAt) <= baselineFor &&
		q.Asked == s.addr && q.By == s.addr && q.TTL == s.ttl
}

// runBaselines probes the peers whose baseline is due.
func (e *evidence) runBaselines(now clock.Instant, a *actions) {
	if !e.inquires || now.Before(e.nextBaseline) {
		return
	}
	e.nextBaseline = clock.Never
	for _, p := range e.peers { // order-free: each is probed by itself
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

// wantBaseline schedules a probe of a peer whose link has come up or which became a
// member.
func (e *evidence) wantBaseline(now clock.Instant, p *peerLinks) {
	if !e.inquires || !p.member || p.lostAt != 0 {
		return
	}
	s := &p.seal
	s.turn, s.reported = 0, false
	if s.asked = 0; s.since == 0 {
		s.since = now
	}
	if s.baseAt == 0 {
		s.next = now
	}
	e.nextBaseline = clock.Min(e.nextBaseline, s.next)
}

// inquireOf probes a peer that is weakly proven dead, if this node may do so now.
func (e *evidence) inquireOf(now clock.Instant, p *peerLinks, a *actions) {
	s := &p.seal
	if !e.inquires || !e.isWeak(p) || s.baseAt == 0 || s.asking || s.asked >= inquiriesMax || s.asked > 0 && now.Before(s.next) {
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

// rankOf returns how long this node waits before it probes a peer. The two most senior of
// the reachable members probe immediately: one of them leads next. Each further one
// follows after inquiryRank, unless it receives the result meanwhile: a kernel sends few
// ICMP errors to one host, six and then one a second.
func (e *evidence) rankOf(p *peerLinks) time.Duration {
	before := 0
	for _, id := range e.seniors {
		if q := e.peers[id]; q != nil && q != p && q.lostAt == 0 {
			before++
		}
	}
	return min(time.Duration(max(before-1, 0))*inquiryRank, inquiryMax)
}

// sealed reports to the members that a peer's host has confirmed the end of its process.
type sealed struct{ Subject gossip.NodeID }

func (*sealed) messageTag() byte { return tagSealed }

func (m *sealed) codeFields(c *wire.Coder) { wire.U64(c, &m.Subject) }

// sendSealed sends a sealed refusal to the members, so that they need not probe.
func (e *evidence) sendSealed(subject gossip.NodeID, a *actions) {
	for id, p := range e.peers { // order-free: each gets the same
		if p.member && id != subject && p.proof == 0 && p.out[transport.Control] {
			a.addMessage(id, &sealed{subject})
		}
	}
}

// onSealed handles a member's report of a sealed refusal. It counts as this node's own
// once the peer refuses this node, too: a process that has ended has ended for all nodes,
// and its id never returns.
func (e *evidence) onSealed(now clock.Instant, from, subject gossip.NodeID, a *actions) {
	if q := e.peers[from]; q == nil || !q.member || !e.inquires {
		return
	}
	p := e.peers[subject]
	if p == nil || !p.member || p.lostAt == 0 || p.seal.baseAt == 0 || now.Before(p.seal.voidUntil) {
		return
	}
	p.seal.reported = true
	e.conclude(now, p, a)
}

// inquiryDue returns when inquireOf must next be called for a peer.
func (e *evidence) inquiryDue(p *peerLinks) clock.Instant {
	if s := &p.seal; e.inquires && e.isWeak(p) && p.refusals > 0 && s.baseAt != 0 && !s.asking && s.asked < inquiriesMax {
		if s.asked == 0 {
			return s.turn
		}
		return s.next
	}
	return clock.Never
}

// onInquiry handles the outcome of an inquiry.
func (e *evidence) onInquiry(now clock.Instant, id gossip.NodeID, q *transport.Inquiry, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	s := &p.seal
	s.asking = false
	switch {
	case q.Outcome == transport.Answered && p.lostAt != 0:
		// The process lives: something else refuses its connections.
		s.onAnswer(now, q)
		s.voidUntil, s.next, s.turn, s.reported = now.Add(voidFor), now.Add(inquiryRetry), 0, false
		e.withdrawProof(id, a)
	case q.Outcome == transport.Answered && s.onAnswer(now, q):
		s.since, s.next = now, now.Add(baselineEvery)
	case e.isWeak(p) && s.makesCertain(p.lostAt, q):
		e.recordProof(now, p, EvidenceSealed, a)
		e.sendSealed(id, a)
	case p.lostAt != 0:
		s.next = now.Add(inquiryRetry)
	default:
		s.next = now.Add(baselineRetry)
		e.warnUnsealed(now, p, a)
	}
	e.nextBaseline = clock.Min(e.nextBaseline, s.next)
}

// warnUnsealed warns, once per peer, that a crash of the peer will not be certain.
func (e *evidence) warnUnsealed(now clock.Instant, p *peerLinks, a *actions) {
	s := &p.seal
	if s.warned || e.level != gossip.EvidenceFull || now.Sub(s.since) < baselineFor {
		return
	}
	s.warned = true
	a.addWarning("a node does not answer at its UDP port", "a crash of "+p.node.Name+" at "+p.node.Addr+
		" will take a lease to remove it and cannot replace a quorum; let UDP through to the port of Listen, without address translation")
}

// inquirePort probes a node in a goroutine of its own.
func (n *Node) inquirePort(node gossip.Node) {
	inquirer := n.transport.(transport.Inquirer) // evidence.inquires is set
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, inquiryMax)
		defer cancel()
		q := inquirer.Inquire(ctx, transport.Peer{ID: node.ID, Name: node.Name, Addr: node.Addr})
		n.inbox.Put(inquiredIn{node.ID, q})
	})
}

// inquiredIn is the outcome of an inquiry.
type inquiredIn struct {
	id gossip.NodeID
	q  transport.Inquiry
}
