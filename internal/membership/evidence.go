package membership

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// How many refusals, over which span, prove that a process has ended once its connection
// has broken. The kernel of a dead process refuses every dial; a single refusal may be
// due to a full backlog, or a listener that is not yet up.
const (
	refusalsMin  = 2
	refusalsSpan = 20 * time.Millisecond
	// When more than half of our links break at the same time, the fault is more likely
	// ours: then a longer span of refusals is required. It guards against a local
	// firewall that rejects for an instant while its rules are replaced; a failed card or
	// cable causes time-outs, not refusals. No span guards against a firewall that keeps
	// rejecting; CrashEvidence does. The last of n survivors waits for the whole span, so
	// it counts from the first refusal by any peer whose link broke with this one: how
	// long we have been refused is a property of our side. Processes that are killed at
	// the same instant end one after the other.
	refusalsMinSuspectSelf  = 3
	refusalsSpanSuspectSelf = 50 * time.Millisecond
	selfSuspectWindow       = 150 * time.Millisecond
	// readOutMax and readOutPart bound how long a proof waits until all bytes that the
	// peer had sent are read: each byte read later would withdraw the proof.
	readOutMax  = 300 * time.Millisecond
	readOutPart = 5
)

// readOut is how long a proof waits for unread bytes, at a lease of L. It is a part of L,
// the window in which proofs replace a quorum.
func readOut(lease time.Duration) time.Duration { return min(readOutMax, lease/readOutPart) }

const (
	// unreachableAfter is how long there must be no link to a member before it is
	// reported: a connection that breaks and is re-established immediately is not
	// reported.
	unreachableAfter = 200 * time.Millisecond
	// unlearnAfter is how long a non-member is dialled in vain.
	unlearnAfter = 5 * time.Second
	// oracleEvery is how often the oracle is asked about an unreachable member.
	oracleEvery = 500 * time.Millisecond
)

// evidence derives the states of peers from connection events: gone, alive, unreachable.
// It is a plain state machine; the loop owns it.
//
// A connection that breaks without a goodbye proves nothing yet: the transport dials
// again immediately and keeps dialling, and each outcome is an event. Two refusals,
// refusalsSpan apart, with nothing left to read from the peer, are a weak proof; an
// answer of the peer's host makes it certain (sealing.go). Both are withdrawn when
// anything is received from the peer. Another incarnation at the address, and a goodbye
// on an authenticated connection, are final. Nothing else proves anything: not silence,
// not a time-out, not a refusal by a peer that this node never met.
type evidence struct {
	self   gossip.NodeID
	level  gossip.CrashEvidence
	oracle bool
	// inquires is set when the UDP ports of peers can be probed, authenticated when
	// connections prove the peer's identity.
	inquires, authenticated bool
	// nextBaseline is when the next baseline is due.
	nextBaseline clock.Instant
	// readOut is how long a proof waits for unread bytes of the peer. echoAfter is how
	// long a challenged peer may take to answer; asked counts challenged peers that have
	// not answered.
	readOut   time.Duration
	echoAfter time.Duration
	asked     int
	count     *counters
	peers     map[gossip.NodeID]*peerLinks
	// seniors are the members before this node in the view, by seniority.
	seniors []gossip.NodeID
	// down counts the peers with a lost link, so that nothing is scanned while there are
	// none.
	down int
	// reported is the last list of unreachable members sent to the core.
	reported []gossip.NodeID
	// unserved is set while this node is in a view and its lease has ended, or has not
	// been renewed for half of L: other members may have crashed undetected, and the
	// proofs of a total quorum must arrive within L of the newest grant.
	unserved bool
}

// peerLinks is the state of the links with one peer.
type peerLinks struct {
	node   gossip.Node
	member bool
	out    [transportClasses]bool
	in     [transportClasses]bool
	// met is set once a connection with it was established: only then is a refusal
	// evidence.
	met bool
	// reached is set once we had a connection to it.
	reached bool
	// lostAt is when the control connection to it broke, or when it became a member
	// without one; 0 while connected. Invariant: counted in down iff not 0.
	lostAt       clock.Instant
	refusals     int
	firstRefusal clock.Instant
	proof        EvidenceKind
	// disowns is set when it refused this incarnation as over, and has not accepted it
	// since.
	disowns bool
	// warned is set once its wrong address was logged.
	warned  bool
	asking  bool
	askNext clock.Instant
	// roundTrip is that of the control connection when it was established, 0 if unknown.
	roundTrip time.Duration
	seal      sealing
	// askedAt is when it was challenged, 0 when no answer is awaited (counted in asked).
	// unresponsive is set when an answer did not arrive.
	askedAt      clock.Instant
	unresponsive bool
}

const transportClasses = int(transport.Data) + 1

func newEvidence(self gossip.NodeID, level gossip.CrashEvidence, oracle bool, lease time.Duration, count *counters) *evidence {
	return &evidence{
		self: self, level: level, oracle: oracle, readOut: readOut(lease), echoAfter: lease, count: count,
		nextBaseline: clock.Never, peers: map[gossip.NodeID]*peerLinks{},
	}
}

// linksOf returns the links of a node, which need not be a member.
func (e *evidence) linksOf(p transport.Peer) *peerLinks {
	l := e.peers[p.ID]
	if l == nil {
		l = &peerLinks{node: gossip.Node{ID: p.ID, Name: p.Name, Addr: p.Addr}}
		e.peers[p.ID] = l
	}
	return l
}

// verified reports whether a node's address was confirmed by the node itself, or by a
// view.
func (e *evidence) verified(id gossip.NodeID) bool {
	p := e.peers[id]
	return p != nil && (p.met || p.member)
}

// reaches reports whether there is a control connection to a node.
func (e *evidence) reaches(id gossip.NodeID) bool {
	p := e.peers[id]
	return p != nil && p.out[transport.Control]
}

// onLink handles an event of the transport.
func (e *evidence) onLink(now clock.Instant, ev transport.PeerEvent, a *actions) {
	if ev.Type == transport.OtherNode {
		if p := e.peers[ev.Former]; p != nil {
			e.warnWrongAddress(p, fmt.Sprintf("%q answers there", ev.Peer.Name), a)
			e.recordProof(now, p, EvidenceOtherNode, a)
		}
		return
	}
	p := e.linksOf(ev.Peer)
	if ev.Type == transport.Accepted && !p.member {
		p.node.Name, p.node.Addr = ev.Peer.Name, ev.Peer.Addr // confirmed by the node itself
	}
	stood := p.works()
	defer func() {
		if p.works() != stood {
			a.core = append(a.core, view.Link{Subject: p.node.ID, Up: !stood})
		}
	}()
	switch ev.Type {
	case transport.Connected:
		p.out[ev.Class], p.met, p.reached, p.unresponsive = true, true, true, false
		if ev.Class == transport.Control {
			p.disowns, p.roundTrip = false, ev.RoundTrip
			e.restored(p)
			e.wantBaseline(now, p)
		}
		e.withdrawProof(p.node.ID, a)
		a.addEvent(PeerUp{ID: p.node.ID, Class: ev.Class})
	case transport.Accepted:
		p.in[ev.Class], p.met, p.unresponsive = true, true, false
		e.withdrawProof(p.node.ID, a)
	case transport.Lost:
		p.out[ev.Class] = false
		if ev.Class == transport.Control {
			e.onLost(now, p)
			a.hold = append(a.hold, p.node.Addr)
		}
		a.addEvent(PeerLost{ID: p.node.ID, Class: ev.Class, Err: ev.Err})
	case transport.AcceptedLost:
		p.in[ev.Class] = false
		a.addEvent(PeerLost{ID: p.node.ID, Class: ev.Class, Incoming: true, Err: ev.Err})
		e.conclude(now, p, a)
	case transport.Refused:
		e.warnWrongAddress(p, "nothing listens there", a)
		undialled(p, ev, a)
		e.onRefused(now, p, ev.Class, a)
	case transport.DialFailed:
		e.warnWrongAddress(p, fmt.Sprint(ev.Err), a)
		undialled(p, ev, a)
		e.onLost(now, p)
		p.refusals = 0
		p.disowns = p.disowns && ev.Class != transport.Control || disowning(ev.Err)
	}
}

// undialled reports a failed attempt to connect: the frames queued for it are lost, as if
// a connection had broken, and asks among them must not wait for their deadlines.
func undialled(p *peerLinks, ev transport.PeerEvent, a *actions) {
	if ev.Class == transport.Message {
		a.addEvent(PeerLost{ID: p.node.ID, Class: ev.Class, Err: ev.Err})
	}
}

// warnWrongAddress warns, once per node, of one that is connected to us but was never reached at
// the address that it advertises.
func (e *evidence) warnWrongAddress(p *peerLinks, why string, a *actions) {
	if p.warned || p.reached || !p.in[transport.Control] {
		return
	}
	p.warned = true
	a.addWarning("a node does not answer at the address it advertises",
		fmt.Sprintf("%q advertises %s: %s; check its Advertise and Listen", p.node.Name, p.node.Addr, why))
}

// works reports whether there are control connections in both directions, and the peer,
// if challenged, has answered.
func (p *peerLinks) works() bool { return p.connected() && !p.unresponsive }

// connected reports whether there are control connections in both directions.
func (p *peerLinks) connected() bool { return p.out[transport.Control] && p.in[transport.Control] }

func (e *evidence) onLost(now clock.Instant, p *peerLinks) {
	if p.lostAt == 0 {
		p.lostAt = now
		p.askNext = now.Add(unreachableAfter)
		e.down++
	}
}

func (e *evidence) restored(p *peerLinks) {
	if p.lostAt != 0 {
		p.lostAt, p.refusals = 0, 0
		e.down--
	}
}

func (e *evidence) onRefused(now clock.Instant, p *peerLinks, c transport.Class, a *actions) {
	e.count.refused.Add(1)
	if c != transport.Control {
		return
	}
	e.onLost(now, p)
	if p.refusals == 0 {
		p.firstRefusal = now
	}
	p.refusals++
	e.conclude(now, p, a)
}

// conclude proves p gone once the refusals suffice.
func (e *evidence) conclude(now clock.Instant, p *peerLinks, a *actions) {
	if p.proof != 0 && !e.isWeak(p) || !p.reached || !p.member || p.refusals < refusalsMin || now.Sub(p.firstRefusal) < refusalsSpan {
		return
	}
	if suspect, since := e.suspectSelf(p); suspect &&
		(p.refusals < refusalsMinSuspectSelf || now.Sub(since) < refusalsSpanSuspectSelf) {
		return
	}
	if p.in != [transportClasses]bool{} && now.Sub(p.lostAt) < e.readOut || now.Before(p.seal.voidUntil) {
		return
	}
	if p.proof == 0 {
		e.recordProof(now, p, EvidenceRefused, a)
	}
	if p.seal.reported && e.isWeak(p) {
		e.recordProof(now, p, EvidenceSealed, a)
		return
	}
	e.inquireOf(now, p, a)
}

// isWeak reports whether a peer is proven dead by refusals, which an answer of its host can
// make certain.
func (e *evidence) isWeak(p *peerLinks) bool {
	return p.proof == EvidenceRefused || p.proof == EvidenceGoodbye && !e.authenticated
}

// isFinal reports whether a proof is never withdrawn. A goodbye that any host on the
// network can forge is not final.
func (e *evidence) isFinal(k EvidenceKind) bool {
	return k == EvidenceGoodbye && e.authenticated || k == EvidenceOtherNode
}

// isCertain reports whether the view core may treat a proof as certain (view.ProvenDead).
// With EvidenceWithinQuorum no answer of the network is: neither a sealed refusal nor
// another node that answers at the address.
func (e *evidence) isCertain(k EvidenceKind) bool {
	switch k {
	case EvidenceGoodbye:
		return e.authenticated
	case EvidenceOracle:
		return true
	case EvidenceSealed, EvidenceOtherNode:
		return e.level == gossip.EvidenceFull
	}
	return false
}

// suspectSelf reports whether more than half of our links to members, and more than one,
// broke at about the same time as the refused one to p. It also returns since when those
// that broke with it have been refused.
func (e *evidence) suspectSelf(p *peerLinks) (suspect bool, since clock.Instant) {
	links, together := 0, 0
	since = p.firstRefusal
	for _, q := range e.peers {
		if !q.member || !q.met {
			continue
		}
		links++
		if q.lostAt == 0 {
			continue
		}
		apart := q.lostAt.Sub(p.lostAt).Abs()
		if apart < selfSuspectWindow {
			together++
		}
		if apart < refusalsSpanSuspectSelf && q.refusals > 0 {
			since = min(since, q.firstRefusal)
		}
	}
	return links > 1 && 2*together > links, since
}

// recordProof records a proof of p's death.
func (e *evidence) recordProof(now clock.Instant, p *peerLinks, kind EvidenceKind, a *actions) {
	if p.proof != 0 && (e.isFinal(p.proof) || !e.isFinal(kind) && (e.isCertain(p.proof) || !e.isCertain(kind))) {
		return
	}
	first := p.proof == 0
	p.proof = kind
	e.onLost(now, p)
	e.count.evidence[kind].Add(1)
	a.core = append(a.core, e.proofEvent(p))
	if e.isFinal(kind) {
		a.forget = append(a.forget, p.node.ID)
	} else {
		a.doubt = append(a.doubt, p.node.ID)
	}
	if first {
		a.addEvent(PeerDead{ID: p.node.ID, Kind: kind})
	}
	a.addNote("proof of death", p.node.ID, kind.String())
}

// proofEvent returns p's proof as an event for the core.
func (e *evidence) proofEvent(p *peerLinks) view.ProvenDead {
	return view.ProvenDead{Subject: p.node.ID, Reason: p.proof.String(), Certain: e.isCertain(p.proof)}
}

// withdrawProof withdraws a proof that is not final, after a sign of life of the peer.
func (e *evidence) withdrawProof(id gossip.NodeID, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	p.refusals = 0
	p.seal.turn, p.seal.reported = 0, false
	if p.proof == 0 || e.isFinal(p.proof) {
		return
	}
	p.proof = 0
	e.count.evidenceBack.Add(1)
	a.core = append(a.core, view.Alive{Subject: id})
	a.trust = append(a.trust, id)
	a.addEvent(PeerAlive{ID: id})
	a.addNote("proof withdrawn", id, "the peer sent a sign of life")
}

// onGoodbye handles a peer's signing off.
func (e *evidence) onGoodbye(now clock.Instant, id gossip.NodeID, a *actions) {
	if p := e.peers[id]; p != nil {
		e.recordProof(now, p, EvidenceGoodbye, a)
	}
}

// onOracle handles the oracle's answer.
func (e *evidence) onOracle(now clock.Instant, id gossip.NodeID, gone bool, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	p.asking = false
	if gone && p.member && (p.lostAt != 0 || e.unserved) {
		e.recordProof(now, p, EvidenceOracle, a)
	}
}

// onView adopts the members of a newer view.
func (e *evidence) onView(now clock.Instant, v *gossip.View, a *actions) {
	for _, p := range e.peers {
		p.member = false
	}
	e.seniors = e.seniors[:0]
	junior := false
	for i := range v.Members {
		m := &v.Members[i]
		if junior = junior || m.ID == e.self; !junior {
			e.seniors = append(e.seniors, m.ID)
		}
		if m.ID == e.self {
			continue
		}
		p := e.linksOf(transport.Peer{ID: m.ID, Name: m.Name, Addr: m.Addr})
		p.node, p.member = m.Node, true
		if p.proof != 0 {
			// The core drops proofs about nodes that are not members.
			a.core = append(a.core, e.proofEvent(p))
		}
		if !p.out[transport.Control] {
			e.onLost(now, p)
		}
		e.conclude(now, p, a)
		e.wantBaseline(now, p)
	}
}

// onLease records the state of this node's lease: fresh if it was renewed recently.
func (e *evidence) onLease(fresh, inView bool) { e.unserved = inView && !fresh }

// runDue performs the due actions: reports, the oracle, and dropping non-members.
func (e *evidence) runDue(now clock.Instant, a *actions) {
	var unreachable []gossip.NodeID
	e.checkUnanswered(now, a)
	e.runBaselines(now, a)
	if e.isIdle() && len(e.reported) == 0 {
		return
	}
	for id, p := range e.peers {
		if p.lostAt == 0 {
			if e.unserved && p.member {
				e.requestOracle(now, p, a)
			}
			continue
		}
		since := now.Sub(p.lostAt)
		switch {
		case !p.member:
			if since >= unlearnAfter {
				e.dropPeer(p, a)
			}
			continue
		case since >= unreachableAfter:
			unreachable = append(unreachable, id)
		}
		e.conclude(now, p, a)
		e.requestOracle(now, p, a)
	}
	e.reportUnreachable(unreachable, a)
}

// isIdle reports whether no action can be due.
func (e *evidence) isIdle() bool { return e.down == 0 && !(e.unserved && e.oracle) }

// requestOracle asks the oracle about a member that does not answer, or, while this node's lease is
// not renewed, about any: the proofs of a total quorum must arrive within L.
func (e *evidence) requestOracle(now clock.Instant, p *peerLinks, a *actions) {
	if e.oracle && !p.asking && p.proof == 0 && !now.Before(p.askNext) {
		p.asking, p.askNext = true, now.Add(oracleEvery)
		a.oracle = append(a.oracle, p.node)
	}
}

// reportUnreachable sends the unreachable members to the core when they have changed.
func (e *evidence) reportUnreachable(unreachable []gossip.NodeID, a *actions) {
	slices.Sort(unreachable)
	if slices.Equal(unreachable, e.reported) {
		return
	}
	e.reported = unreachable
	a.core = append(a.core, view.Unreachable{Nodes: slices.Clone(unreachable)})
}

// dropPeer stops dialling a non-member that does not answer.
func (e *evidence) dropPeer(p *peerLinks, a *actions) {
	e.restored(p)
	e.endChallenge(p)
	delete(e.peers, p.node.ID)
	a.unlearn = append(a.unlearn, p.node.ID)
}

// nextTickAt returns when runDue must next be called.
func (e *evidence) nextTickAt(now clock.Instant) clock.Instant {
	d := clock.Min(e.answerDue(), e.nextBaseline)
	if e.isIdle() {
		return d
	}
	for _, p := range e.peers {
		if p.lostAt == 0 {
			if e.unserved && e.oracle && p.member && !p.asking && p.proof == 0 {
				d = clock.Min(d, p.askNext)
			}
			continue
		}
		if !p.member {
			d = clock.Min(d, p.lostAt.Add(unlearnAfter))
			continue
		}
		if at := p.lostAt.Add(unreachableAfter); now.Before(at) {
			d = clock.Min(d, at)
		}
		if at := e.inquiryDue(p); now.Before(at) {
			d = clock.Min(d, at)
		}
		if p.refusals > 0 { // also of a proven one: other proofs may wait for its time
			for _, at := range []clock.Instant{p.firstRefusal.Add(refusalsSpan), p.firstRefusal.Add(refusalsSpanSuspectSelf), p.lostAt.Add(e.readOut), p.seal.voidUntil} {
				if now.Before(at) {
					d = clock.Min(d, at)
				}
			}
		}
		if e.oracle && !p.asking && p.proof == 0 {
			d = clock.Min(d, p.askNext)
		}
	}
	return d
}

// beyondHelp reports whether the view can never act again: its members that are not
// proven dead, even all of them together, are no quorum. The dead do not return, so
// waiting is in vain; a silent member may still return.
func (e *evidence) beyondHelp(v *gossip.View, p gossip.Policy) bool {
	return v != nil && !p.Quorum(v, func(id gossip.NodeID) bool {
		peer := e.peers[id]
		return peer == nil || peer.proof == 0
	})
}

// lostForGood is beyondHelp by proofs that no rejecting network can produce: only then
// may the next incarnation form a cluster without a majority of the other members.
func (e *evidence) lostForGood(v *gossip.View, p gossip.Policy) bool {
	return v != nil && !p.Quorum(v, func(id gossip.NodeID) bool {
		peer := e.peers[id]
		return peer == nil || peer.proof == 0 || !e.isCertain(peer.proof) && !e.isFinal(peer.proof)
	})
}

// askOracle asks in the calling goroutine.
func askOracle(ctx context.Context, oracle func(context.Context, gossip.Node) (bool, error), n gossip.Node) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	gone, err := oracle(ctx, n)
	return gone && err == nil
}
