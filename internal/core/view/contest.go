package view

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// When two lineages meet, the members of one end. A single message must not cause that:
// the survivor of a takeover may still receive a message that a leader sent before it
// died, with a view that the takeover does not include and that would win by the order of
// lineages (lineage.go). A dead leader cannot answer, though. So a member that is about
// to yield first sends a Contest to the sender, and ends only when the answer carries a
// view that still wins over its own.
//
// A joining member holds nothing and represents no voter: it yields to every other
// lineage, whichever would win. The view that admitted it may have died with its voters.
//
// All members of the last common view may have left both lineages since, so that each is a
// non-member to the other. A non-member that shows a winning view must therefore prove that
// it belongs to the cluster:
//
//	loser    Contest(nonce) ──▶ the node that showed the view
//	         ◀── Contested(nonce, HMAC(secret, nonce | asker | answerer))
//
// The secret is drawn when the cluster forms. Leaders send it to joining members, in
// pings. It is never in a view, because non-members are sent views, too. A removed node
// still has it, and counts as every former member does (speaker.go).

// lineageConflict is the Contest in flight.
type lineageConflict struct {
	with  gossip.NodeID
	nonce uint64
	until clock.Instant
	// view is the view that the other lineage sent.
	view *SentView
}

// confirmPeer asks the sender of a view that wins over ours whether it is alive.
func (c *Core) confirmPeer(from gossip.NodeID, v *SentView) {
	if !c.status.Votes() || c.mutant == mutantDeadSpeak {
		c.stepAside(v.View)
		return
	}
	if c.lineageConflict.with == from && c.now.Before(c.lineageConflict.until) {
		return
	}
	c.lineageConflict = lineageConflict{with: from, nonce: c.random(), until: c.now.Add(c.cfg.Ping), view: v}
	c.sendTo(from, &Contest{View: c.ref(), Nonce: c.lineageConflict.nonce})
}

func (c *Core) onContest(from gossip.NodeID, m *Contest) {
	if m.View == nil || c.view == nil {
		return
	}
	if compareViews(c.view, m.View.View) != wins {
		c.learnView(from, m.View)
		return
	}
	if !c.status.Votes() {
		c.stepAside(m.View.View)
		return
	}
	c.sendTo(from, &Contested{View: c.ref(), Nonce: m.Nonce, Proof: c.membership.proof(m.Nonce, from, c.self())})
}

func (c *Core) onContested(from gossip.NodeID, m *Contested) {
	if m.View == nil || c.view == nil || c.lineageConflict.with != from || c.lineageConflict.nonce != m.Nonce {
		return
	}
	shown := c.lineageConflict.view
	c.lineageConflict = lineageConflict{}
	if compareViews(c.view, m.View.View) == loses {
		c.showOthers(shown)
		c.stepAside(m.View.View)
	}
}

// showOthers sends the winning lineage's view to the members of this one, which may not
// have met its nodes.
func (c *Core) showOthers(v *SentView) {
	if !v.packed() {
		c.toElectorate(&Decided{View: v})
	}
}

func (c *Core) stepAside(v *gossip.View) {
	c.endIncarnation(v.Epoch, "another lineage of the cluster wins")
	c.out.Removed.Outranked = true
}

// membership proves that a node is or was a member of its cluster. The zero value proves
// nothing.
type membership struct {
	// secret is the same on all members.
	secret [2]uint64
	// asked is the question in flight to a non-member.
	asked lineageConflict
}

// proof returns the answerer's proof to the asker, 0 without a secret.
func (m *membership) proof(nonce uint64, asker, answerer gossip.NodeID) uint64 {
	if m.secret == ([2]uint64{}) {
		return 0
	}
	var b []byte
	for _, n := range []uint64{m.secret[0], m.secret[1], nonce, uint64(asker), uint64(answerer)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	mac := hmac.New(sha256.New, b[:16])
	mac.Write(b[16:])
	return binary.BigEndian.Uint64(mac.Sum(nil)) | 1
}

// accepts reports whether msg proves the membership of its sender, a non-member that self
// has asked.
func (m *membership) accepts(self, from gossip.NodeID, msg *Contested) bool {
	return msg.Proof != 0 && m.asked.with == from && m.asked.nonce == msg.Nonce && msg.Proof == m.proof(msg.Nonce, self, from)
}

// requestProof asks a non-member that showed the winning lineage's view v for a proof of
// membership, at most one node per Ping.
func requestProof(c *Core, from gossip.NodeID, v *SentView) {
	m := &c.membership
	if m.secret == ([2]uint64{}) || !c.status.Votes() || v.packed() || c.now.Before(m.asked.until) {
		return
	}
	m.asked = lineageConflict{with: from, nonce: c.random(), until: c.now.Add(c.cfg.Ping), view: v}
	c.sendTo(from, &Contest{View: c.ref(), Nonce: m.asked.nonce})
}
