package gossip

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// How many refusals, over which span, prove that a process is gone once its
// connection has broken. A kernel whose process has died refuses every dial; a
// single refusal may be a backlog that was full, or a listener that was not yet up.
const (
	refusalsMin  = 2
	refusalsSpan = 20 * time.Millisecond
	// When more than half of our links break at once, the fault is more likely ours:
	// then more is asked for. What it guards against is a firewall of our own that
	// rejects for an instant, while its rules are replaced: a card or cable that is gone
	// gives time-outs, and no refusals. No span guards against one that goes on
	// rejecting; CrashEvidence does. All of it is time that the last of n waits, so it
	// counts from the first refusal by any that broke with the one in question: how long
	// we have been refused is about us. Processes that are killed at the same instant end
	// one after the other.
	refusalsMinSuspectSelf  = 3
	refusalsSpanSuspectSelf = 50 * time.Millisecond
	selfSuspectWindow       = 150 * time.Millisecond
	// readOutMax and readOutPart bound how long a proof waits for the end of what the peer
	// had already sent to us: each byte of it, read later, would take the proof back.
	readOutMax  = 300 * time.Millisecond
	readOutPart = 5
)

// readOut is how long a proof waits for bytes that are not read yet, at a lease of L. It
// is a part of L, the window in which proofs replace a quorum.
func readOut(lease time.Duration) time.Duration { return min(readOutMax, lease/readOutPart) }

const (
	// unreachableAfter is how long there must be no link to a member before it is
	// reported: a connection that breaks and stands again at once is no news.
	unreachableAfter = 200 * time.Millisecond
	// unlearnAfter is how long a node that is no member is looked for in vain.
	unlearnAfter = 5 * time.Second
	// oracleEvery is how often the oracle is asked about an unreachable member.
	oracleEvery = 500 * time.Millisecond
)

// evidence turns what happens to connections into facts about peers: gone, alive,
// unreachable. It is a plain state machine; the loop owns it.
//
// A connection that breaks without a goodbye proves nothing yet: the transport
// dials again at once and keeps dialling, and each outcome is an event. Refused
// twice, refusalsSpan apart, with nothing left to read from the peer, is a weak proof;
// the host's own word makes it certain (sealing.go). Both are taken back when anything is
// received from the peer. Another incarnation at the address, and a goodbye on an
// authenticated connection, are final. Nothing else proves anything: not silence, not a
// time-out, not a refusal by a peer we never met.
type evidence struct {
	self   view.NodeID
	level  view.CrashEvidence
	oracle bool
	// inquires is set when the UDP ports of peers can be asked, authenticated when
	// connections prove who speaks on them.
	inquires, authenticated bool
	// nextBaseline is when baselines has something to do.
	nextBaseline clock.Instant
	// readOut is how long a proof waits for bytes that the peer had sent. echoAfter is how
	// long a challenged peer may take to answer; asked counts those that have not.
	readOut   time.Duration
	echoAfter time.Duration
	asked     int
	count     *counters
	peers     map[view.NodeID]*peerLinks
	// seniors are the members that come before this node in the view, by seniority.
	seniors []view.NodeID
	// down counts the peers with a lost link, so that nothing is scanned while all
	// is well.
	down int
	// reported is what the core was last told is unreachable.
	reported []view.NodeID
	// unserved is set while this node stands in a view and its lease has ended, or has not
	// been renewed for half of L: others may be gone without a word, and the proofs of a
	// total quorum must come within L of the newest grant.
	unserved bool
}

// peerLinks is what is known of one peer.
type peerLinks struct {
	node   view.Node
	member bool
	out    [transportClasses]bool
	in     [transportClasses]bool
	// met says that a connection with it stood once: only then is a refusal evidence.
	met bool
	// reached says that we had a connection to it once.
	reached bool
	// lostAt is when the control connection to it broke, or when it became a member
	// without one; 0 while it stands. Invariant: counted in down iff not 0.
	lostAt       clock.Instant
	refusals     int
	firstRefusal clock.Instant
	proof        EvidenceKind
	// disowns is set when it refused this incarnation as over, and has not welcomed it since.
	disowns bool
	// warned says that the operator was told of its wrong address.
	warned  bool
	asking  bool
	askNext clock.Instant
	seal    sealing
	// askedAt is when it was challenged, 0 when no answer is awaited (counted in
	// asked). mute says that one did not come.
	askedAt clock.Instant
	mute    bool
}

const transportClasses = int(transport.Data) + 1

func newEvidence(self view.NodeID, level view.CrashEvidence, oracle bool, lease time.Duration, count *counters) *evidence {
	return &evidence{
		self: self, level: level, oracle: oracle, readOut: readOut(lease), echoAfter: lease, count: count,
		nextBaseline: clock.Never, peers: map[view.NodeID]*peerLinks{},
	}
}

// peer returns what is known of a node, which need not be a member.
func (e *evidence) peer(p transport.Peer) *peerLinks {
	l := e.peers[p.ID]
	if l == nil {
		l = &peerLinks{node: view.Node{ID: p.ID, Name: p.Name, Addr: p.Addr}}
		e.peers[p.ID] = l
	}
	return l
}

// vouched reports whether more than hearsay tells where a node is: the node itself,
// or a view.
func (e *evidence) vouched(id view.NodeID) bool {
	p := e.peers[id]
	return p != nil && (p.met || p.member)
}

// reaches reports whether a control connection to a node stands.
func (e *evidence) reaches(id view.NodeID) bool {
	p := e.peers[id]
	return p != nil && p.out[transport.Control]
}

// link takes an event of the transport.
func (e *evidence) link(now clock.Instant, ev transport.PeerEvent, a *actions) {
	if ev.Type == transport.OtherNode {
		if p := e.peers[ev.Former]; p != nil {
			e.misled(p, fmt.Sprintf("%q answers there", ev.Peer.Name), a)
			e.prove(now, p, EvidenceOtherNode, a)
		}
		return
	}
	p := e.peer(ev.Peer)
	if ev.Type == transport.Accepted && !p.member {
		p.node.Name, p.node.Addr = ev.Peer.Name, ev.Peer.Addr // its own word, not hearsay
	}
	stood := p.stands()
	defer func() {
		if p.stands() != stood {
			a.core = append(a.core, view.Link{Subject: p.node.ID, Up: !stood})
		}
	}()
	switch ev.Type {
	case transport.Connected:
		p.out[ev.Class], p.met, p.reached, p.mute = true, true, true, false
		if ev.Class == transport.Control {
			p.disowns = false
			e.restored(p)
			e.wantBaseline(now, p)
		}
		e.heard(p.node.ID, a)
		a.event(PeerUp{p.node.ID, ev.Class})
	case transport.Accepted:
		p.in[ev.Class], p.met, p.mute = true, true, false
		e.heard(p.node.ID, a)
	case transport.Lost:
		p.out[ev.Class] = false
		if ev.Class == transport.Control {
			e.lost(now, p)
			a.hold = append(a.hold, p.node.Addr)
		}
		a.event(PeerLost{ID: p.node.ID, Class: ev.Class, Err: ev.Err})
	case transport.AcceptedLost:
		p.in[ev.Class] = false
		a.event(PeerLost{ID: p.node.ID, Class: ev.Class, Incoming: true, Err: ev.Err})
		e.conclude(now, p, a)
	case transport.Refused:
		e.misled(p, "nothing listens there", a)
		undialled(p, ev, a)
		e.refused(now, p, ev.Class, a)
	case transport.DialFailed:
		e.misled(p, fmt.Sprint(ev.Err), a)
		undialled(p, ev, a)
		e.lost(now, p)
		p.refusals = 0
		p.disowns = p.disowns && ev.Class != transport.Control || disowning(ev.Err)
	}
}

// undialled reports a failed attempt to connect: what was queued for it is gone
// with it, as if a connection had broken, and asks among it must not wait for their
// deadlines.
func undialled(p *peerLinks, ev transport.PeerEvent, a *actions) {
	if ev.Class == transport.Message {
		a.event(PeerLost{ID: p.node.ID, Class: ev.Class, Err: ev.Err})
	}
}

// misled tells the operator, once per node, of one that is connected to us and was
// never reached at the address it advertises.
func (e *evidence) misled(p *peerLinks, why string, a *actions) {
	if p.warned || p.reached || !p.in[transport.Control] {
		return
	}
	p.warned = true
	a.warn("a node does not answer at the address it advertises",
		fmt.Sprintf("%q advertises %s: %s; check its Advertise and Listen", p.node.Name, p.node.Addr, why))
}

// stands reports whether there are control connections in both directions, and the
// peer, if it was challenged, has answered.
func (p *peerLinks) stands() bool { return p.connected() && !p.mute }

// connected reports whether there are control connections in both directions.
func (p *peerLinks) connected() bool { return p.out[transport.Control] && p.in[transport.Control] }

func (e *evidence) lost(now clock.Instant, p *peerLinks) {
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

func (e *evidence) refused(now clock.Instant, p *peerLinks, c transport.Class, a *actions) {
	e.count.refused.Add(1)
	if c != transport.Control {
		return
	}
	e.lost(now, p)
	if p.refusals == 0 {
		p.firstRefusal = now
	}
	p.refusals++
	e.conclude(now, p, a)
}

// conclude proves p gone when the refusals suffice.
func (e *evidence) conclude(now clock.Instant, p *peerLinks, a *actions) {
	if p.proof != 0 && !e.weak(p) || !p.reached || !p.member || p.refusals < refusalsMin || now.Sub(p.firstRefusal) < refusalsSpan {
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
		e.prove(now, p, EvidenceRefused, a)
	}
	if p.seal.told && e.weak(p) {
		e.prove(now, p, EvidenceSealed, a)
		return
	}
	e.inquireOf(now, p, a)
}

// weak reports whether a peer is proven dead by what the host's own word can make certain.
func (e *evidence) weak(p *peerLinks) bool {
	return p.proof == EvidenceRefused || p.proof == EvidenceGoodbye && !e.authenticated
}

// final reports whether a proof is never taken back. A goodbye that anyone on the network
// can forge is.
func (e *evidence) final(k EvidenceKind) bool {
	return k == EvidenceGoodbye && e.authenticated || k == EvidenceOtherNode
}

// certain reports whether the view core may take a proof for certain (view.ProvenDead).
// With EvidenceWithinQuorum no answer of the network is: neither a sealed refusal nor
// another node that answers at the address.
func (e *evidence) certain(k EvidenceKind) bool {
	switch k {
	case EvidenceGoodbye:
		return e.authenticated
	case EvidenceOracle:
		return true
	case EvidenceSealed, EvidenceOtherNode:
		return e.level == view.EvidenceFull
	}
	return false
}

// suspectSelf reports whether more than half of our links to members, and not just
// the only one, broke about when the one to p did, which is refused, and since when
// those that broke with it are.
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

// prove takes a proof of p's death.
func (e *evidence) prove(now clock.Instant, p *peerLinks, kind EvidenceKind, a *actions) {
	if p.proof != 0 && (e.final(p.proof) || !e.final(kind) && (e.certain(p.proof) || !e.certain(kind))) {
		return
	}
	first := p.proof == 0
	p.proof = kind
	e.lost(now, p)
	e.count.evidence[kind].Add(1)
	a.core = append(a.core, e.proven(p))
	if e.final(kind) {
		a.forget = append(a.forget, p.node.ID)
	} else {
		a.doubt = append(a.doubt, p.node.ID)
	}
	if first {
		a.event(PeerDead{p.node.ID, kind})
	}
	a.note("proof of death", p.node.ID, kind.String())
}

// proven is what the core is told of p's proof.
func (e *evidence) proven(p *peerLinks) view.ProvenDead {
	return view.ProvenDead{Subject: p.node.ID, Reason: p.proof.String(), Certain: e.certain(p.proof)}
}

// heard takes back a proof that is not final: something came from the peer.
func (e *evidence) heard(id view.NodeID, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	p.refusals = 0
	p.seal.turn, p.seal.told = 0, false
	if p.proof == 0 || e.final(p.proof) {
		return
	}
	p.proof = 0
	e.count.evidenceBack.Add(1)
	a.core = append(a.core, view.Alive{Subject: id})
	a.trust = append(a.trust, id)
	a.event(PeerAlive{id})
	a.note("proof taken back", id, "heard of again")
}

// goodbye takes a peer's signing off.
func (e *evidence) goodbye(now clock.Instant, id view.NodeID, a *actions) {
	if p := e.peers[id]; p != nil {
		e.prove(now, p, EvidenceGoodbye, a)
	}
}

// oracleSaid takes the oracle's answer.
func (e *evidence) oracleSaid(now clock.Instant, id view.NodeID, gone bool, a *actions) {
	p := e.peers[id]
	if p == nil {
		return
	}
	p.asking = false
	if gone && p.member && (p.lostAt != 0 || e.unserved) {
		e.prove(now, p, EvidenceOracle, a)
	}
}

// view takes the members of a newer view.
func (e *evidence) view(now clock.Instant, v *view.View, a *actions) {
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
		p := e.peer(transport.Peer{ID: m.ID, Name: m.Name, Addr: m.Addr})
		p.node, p.member = m.Node, true
		if p.proof != 0 {
			// The core takes no proofs about nodes that it does not know as members.
			a.core = append(a.core, e.proven(p))
		}
		if !p.out[transport.Control] {
			e.lost(now, p)
		}
		e.conclude(now, p, a)
		e.wantBaseline(now, p)
	}
}

// leased takes the state of this node's lease: fresh while it was renewed lately.
func (e *evidence) leased(fresh, inView bool) { e.unserved = inView && !fresh }

// tick does what is due: reports, the oracle, and forgetting strangers.
func (e *evidence) tick(now clock.Instant, a *actions) {
	var unreachable []view.NodeID
	e.muted(now, a)
	e.baselines(now, a)
	if e.idle() && len(e.reported) == 0 {
		return
	}
	for id, p := range e.peers {
		if p.lostAt == 0 {
			if e.unserved && p.member {
				e.ask(now, p, a)
			}
			continue
		}
		since := now.Sub(p.lostAt)
		switch {
		case !p.member:
			if since >= unlearnAfter {
				e.drop(p, a)
			}
			continue
		case since >= unreachableAfter:
			unreachable = append(unreachable, id)
		}
		e.conclude(now, p, a)
		e.ask(now, p, a)
	}
	e.report(unreachable, a)
}

// idle reports whether nothing can be due.
func (e *evidence) idle() bool { return e.down == 0 && !(e.unserved && e.oracle) }

// ask asks the oracle about a member that does not answer, or, while this node's lease
// is not renewed, about any: the proofs of a total quorum must come within L.
func (e *evidence) ask(now clock.Instant, p *peerLinks, a *actions) {
	if e.oracle && !p.asking && p.proof == 0 && !now.Before(p.askNext) {
		p.asking, p.askNext = true, now.Add(oracleEvery)
		a.oracle = append(a.oracle, p.node)
	}
}

// report tells the core when the unreachable members are others than before.
func (e *evidence) report(unreachable []view.NodeID, a *actions) {
	slices.Sort(unreachable)
	if slices.Equal(unreachable, e.reported) {
		return
	}
	e.reported = unreachable
	a.core = append(a.core, view.Unreachable{Nodes: slices.Clone(unreachable)})
}

// drop stops looking for a node that is no member and does not answer.
func (e *evidence) drop(p *peerLinks, a *actions) {
	e.restored(p)
	e.unask(p)
	delete(e.peers, p.node.ID)
	a.unlearn = append(a.unlearn, p.node.ID)
}

// deadline returns when tick is wanted next.
func (e *evidence) deadline(now clock.Instant) clock.Instant {
	d := clock.Min(e.answerDue(), e.nextBaseline)
	if e.idle() {
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
		if p.refusals > 0 { // also of one that is proven: others may wait for its time
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

// beyondHelp reports whether the view can never act again: those of its members that
// are not proven dead, if need be all of them, are no quorum. The dead do not return,
// so waiting is in vain; one that is merely silent may still come back.
func (e *evidence) beyondHelp(v *view.View, p view.Policy) bool {
	return v != nil && !p.Quorum(v, func(id view.NodeID) bool {
		peer := e.peers[id]
		return peer == nil || peer.proof == 0
	})
}

// lostForGood is beyondHelp by proofs alone that no rejecting network can give: only then
// may the next incarnation form a cluster without looking for a majority of the others.
func (e *evidence) lostForGood(v *view.View, p view.Policy) bool {
	return v != nil && !p.Quorum(v, func(id view.NodeID) bool {
		peer := e.peers[id]
		return peer == nil || peer.proof == 0 || !e.certain(peer.proof) && !e.final(peer.proof)
	})
}

// askOracle asks in the calling goroutine.
func askOracle(ctx context.Context, oracle func(context.Context, view.Node) (bool, error), n view.Node) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	gone, err := oracle(ctx, n)
	return gone && err == nil
}
