package membership

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

func (l *links) refused(id gossip.NodeID, x *link) {
	now := l.p.Run.Now()
	x.lostAt = min(x.lostAt, now)
	if x.refusals == 0 {
		x.firstRefusal = now
	}
	x.refusals++
	l.conclude(id, x)
}

func (l *links) conclude(id gossip.NodeID, x *link) {
	if x.certain || !x.met || !x.member || x.lostAt == virtual.Never || x.refusals < 2 {
		return
	}
	now := l.p.Run.Now()
	if now.Sub(x.firstRefusal) < refusalsSpan || x.in && now.Sub(x.lostAt) < refusalsReadOut {
		return
	}
	if l.p.Run.Config.LateProofs && now < x.late(l.p.Run) {
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
func (l *links) sealed(id gossip.NodeID) bool {
	r := l.p.Run
	believed := r.Rand.Seal.IntN(100) < r.Config.SealPercent
	refused, forged := l.p.Net.PortClosed(id)
	return believed && (refused || forged)
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
func (k proofKind) certain(s *seed.Config) bool {
	switch k {
	case goodbyeProof:
		return !s.Plaintext
	case sealedProof, otherNodeProof:
		return s.Evidence == gossip.EvidenceFull // within a quorum, no answer of the network is
	}
	return false
}

// late returns when a proof arrives in runs with late proofs, drawn once for each proof.
// It arrives immediately, a little later, or possibly after the window in which it counts.
func (x *link) late(r *run.Run) virtual.Instant {
	if x.proofAt == 0 {
		d := []time.Duration{0, r.Config.Lease / 4, 3 * r.Config.RemoveAfter}[r.Rand.Net.IntN(3)]
		x.proofAt = r.Now().Add(r.Rand.Net.Duration(0, d))
	}
	return x.proofAt
}

// prove reports a death to the core.
func (l *links) prove(id gossip.NodeID, kind proofKind, why string) {
	x, r := l.peers[id], l.p.Run
	certain := kind.certain(&r.Config)
	if x == nil || x.final || x.proof && !kind.final() && (x.certain || !certain) {
		return
	}
	if certain && !x.certain {
		l.lastProof, x.certainAt = r.Now(), r.Now()
	}
	x.proof, x.certain, x.final = true, x.certain || certain, kind.final()
	l.p.Event("proof", uint64(id), func() string { return r.Names.Name(id) + " " + why })
	if l.p.Net.Living(id) {
		r.Hit(coverage.WrongEvidence)
		if !r.Config.Reject {
			r.Fail("evidence", "%s proves the living %s dead: %s", l.p.Label, r.Names.Name(id), why)
		}
	}
	if kind.final() {
		l.p.Net.Forget(id)
	}
	l.step(view.ProvenDead{Subject: id, Reason: why, Certain: certain})
	l.onPeer(id, transport.Message, false)
}

// withdrawProof withdraws the proof of a peer's death, unless the proof is final.
func (l *links) withdrawProof(id gossip.NodeID) {
	x := l.peers[id]
	if x == nil {
		return
	}
	x.refusals, x.proofAt = 0, 0
	if x.proof && !x.final {
		x.proof, x.certain = false, false
		l.p.Event("alive", uint64(id), nil)
		l.step(view.Alive{Subject: id})
	}
}
