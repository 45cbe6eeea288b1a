package sim

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// links keeps a connection to every member and derives facts about peers, as gossip does.
// A connection that breaks, and is then refused twice, 20 ms apart, proves the peer dead
// until a message from it arrives. The proof is certain if the peer's own kernel has
// answered (sealed), and weak otherwise. Another incarnation at the address, or a goodbye,
// is a final proof.
type links struct {
	p        *proc
	peers    map[nodeID]*link
	reported []nodeID
}

type link struct {
	met, member, up bool
	// in and inControl are set while the peer's connections to this process are up.
	in, inControl bool
	// proof is set while the peer counts as dead; certain is set while the core holds the
	// proof as certain; final is set when the proof is never withdrawn.
	proof, certain, final bool
	lostAt                virtual.Instant // never while the link stands
	refusals              int
	firstRefusal          virtual.Instant
	// proofAt is when a late proof comes.
	proofAt virtual.Instant
}

const (
	refusalsSpan     = 20 * time.Millisecond
	refusalsReadOut  = 300 * time.Millisecond
	unreachableAfter = 200 * time.Millisecond
	keepEvery        = 20 * time.Millisecond
)

func (l *links) peer(id nodeID) *link {
	x := l.peers[id]
	if x == nil {
		x = &link{lostAt: virtual.Never}
		l.peers[id] = x
	}
	return x
}

func (l *links) sorted() []nodeID {
	ids := make([]nodeID, 0, len(l.peers))
	for id := range l.peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// members takes a newer view: links to its members are kept up.
func (l *links) members(v *gossip.View) {
	for _, x := range l.peers {
		x.member = false
	}
	for i := range v.Members {
		if id := v.Members[i].ID; id != l.p.node.ID {
			x := l.peer(id)
			x.member = true
			l.dial(id, x)
			l.conclude(id, x)
		}
	}
}

func (l *links) dial(id nodeID, x *link) {
	if to := l.p.w.byID[id]; to != nil && !x.final {
		l.p.dialed(to, transport.Control)
		if !x.up && x.lostAt == virtual.Never {
			x.lostAt = l.p.w.Now()
		}
	}
}

// keep dials again what is down, and reports it.
func (l *links) keep() {
	p := l.p
	p.w.After(keepEvery, func() {
		if !p.alive || p.over {
			return
		}
		p.run(l.tend)
		l.keep()
	})
}

func (l *links) tend() {
	if l.p.over {
		return
	}
	var down []nodeID
	for _, id := range l.sorted() {
		x := l.peers[id]
		if !x.member || x.up {
			continue
		}
		l.dial(id, x)
		l.conclude(id, x)
		if l.p.w.Now().Sub(x.lostAt) >= unreachableAfter {
			down = append(down, id)
		}
	}
	l.p.regroup()
	if l.p.over {
		return
	}
	if !slices.Equal(down, l.reported) {
		l.reported = down
		l.p.step(view.Unreachable{Nodes: slices.Clone(down)})
	}
}

// onPeer takes an event of the transport.
func (p *proc) onPeer(typ transport.PeerEventType, class transport.Class, id, former nodeID) {
	if p.over {
		return
	}
	l := p.links()
	if typ == transport.OtherNode {
		l.prove(former, otherNodeProof, "other node")
		return
	}
	x := l.peer(id)
	stood := x.up && x.inControl
	p.linkEvent(typ, class, id, x)
	if stands := x.up && x.inControl; stands != stood {
		p.step(view.Link{Subject: id, Up: stands})
	}
}

func (p *proc) linkEvent(typ transport.PeerEventType, class transport.Class, id nodeID, x *link) {
	control := class == transport.Control
	l := p.links()
	switch typ {
	case transport.Connected:
		x.met = true
		if control {
			x.up, x.lostAt, x.refusals = true, virtual.Never, 0
		}
		l.withdrawProof(id)
		p.upperPeer(id, class, true)
	case transport.Accepted:
		x.met, x.in = true, true
		x.inControl = x.inControl || control
		l.withdrawProof(id)
	case transport.Lost:
		if control {
			x.up = false
			x.lostAt = min(x.lostAt, p.w.Now())
		}
		p.upperPeer(id, class, false)
	case transport.AcceptedLost:
		x.in = false
		if !control {
			// Answers arrive on the peer's message connection, so its loss is reported to
			// the upper layers. That of a control connection is not: it would count as
			// silence, and Accepted, when the peer opens another, does not end that.
			p.upperPeer(id, class, false)
		}
		x.inControl = x.inControl && !control
		l.conclude(id, x)
	case transport.Refused:
		if control {
			l.refused(id, x)
		}
	case transport.DialFailed:
		x.refusals = 0
		x.lostAt = min(x.lostAt, p.w.Now())
	}
}

func (l *links) refused(id nodeID, x *link) {
	now := l.p.w.Now()
	x.lostAt = min(x.lostAt, now)
	if x.refusals == 0 {
		x.firstRefusal = now
	}
	x.refusals++
	l.conclude(id, x)
}

func (l *links) conclude(id nodeID, x *link) {
	if x.certain || !x.met || !x.member || x.lostAt == virtual.Never || x.refusals < 2 {
		return
	}
	now := l.p.w.Now()
	if now.Sub(x.firstRefusal) < refusalsSpan || x.in && now.Sub(x.lostAt) < refusalsReadOut {
		return
	}
	if l.p.w.swarm.lateProofs && now < x.late(l.p.w) {
		return // asked again at the next tick
	}
	if l.sealed(id) {
		l.prove(id, sealedProof, "sealed refusal")
	} else {
		l.prove(id, refusedProof, "refused")
	}
}

// sealed reports whether the peer's own kernel answers for its closed port, and is
// believed. A network that rejects answers in its own name; the firewall of the peer's own
// host answers as the kernel does (forged).
func (l *links) sealed(id nodeID) bool {
	w, q := l.p.w, l.p.w.byID[id]
	if w.sealRand.IntN(100) >= w.swarm.sealPercent || q == nil {
		return false
	}
	host := &w.hosts[q.slot]
	switch w.blocked(l.p.slot, q.slot) {
	case open:
		return !host.down && host.proc != q
	case reject:
		return w.swarm.forged
	}
	return false
}

// proofKind is the source of a proof.
type proofKind uint8

const (
	refusedProof proofKind = iota
	sealedProof
	otherNodeProof
	goodbyeProof
)

// final reports whether a proof is never withdrawn.
func (k proofKind) final() bool { return k >= otherNodeProof }

// certain reports whether a proof counts as certain in this run.
func (w *world) certain(k proofKind) bool {
	switch k {
	case goodbyeProof:
		return !w.swarm.plaintext
	case sealedProof, otherNodeProof:
		return w.swarm.evidence == gossip.EvidenceFull // within a quorum, no answer of the network is
	}
	return false
}

// late returns when a proof arrives in runs with late proofs, drawn once for each proof.
// It arrives immediately, a little later, or possibly after the window in which it counts.
func (x *link) late(w *world) virtual.Instant {
	if x.proofAt == 0 {
		d := []time.Duration{0, w.swarm.lease / 4, 3 * w.swarm.removeAfter}[w.netRand.IntN(3)]
		x.proofAt = w.Now().Add(w.netRand.Duration(0, d))
	}
	return x.proofAt
}

// prove reports a death to the core.
func (l *links) prove(id nodeID, kind proofKind, why string) {
	x, w := l.peers[id], l.p.w
	certain := w.certain(kind)
	if x == nil || x.final || x.proof && !kind.final() && (x.certain || !certain) {
		return
	}
	if certain && !x.certain {
		l.p.member.lastProof = w.Now()
	}
	x.proof, x.certain, x.final = true, x.certain || certain, kind.final()
	w.event(l.p, "proof", uint64(id), func() string { return w.name(id) + " " + why })
	if q := w.byID[id]; q != nil && q.alive && !q.over {
		w.hit(markWrongEvidence)
		if !w.swarm.reject {
			w.fail("evidence", "%s proves the living %s dead: %s", l.p.label, q.label, why)
		}
	}
	if kind.final() {
		l.p.forgotten[id] = true
	}
	l.p.step(view.ProvenDead{Subject: id, Reason: why, Certain: certain})
	l.p.upperPeer(id, transport.Message, false)
}

// withdrawProof withdraws the proof of a peer's death, unless the proof is final.
func (l *links) withdrawProof(id nodeID) {
	x := l.peers[id]
	if x == nil {
		return
	}
	x.refusals, x.proofAt = 0, 0
	if x.proof && !x.final {
		x.proof, x.certain = false, false
		l.p.w.event(l.p, "alive", uint64(id), nil)
		l.p.step(view.Alive{Subject: id})
	}
}
