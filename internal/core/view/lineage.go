package view

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// Views of one cluster form a line, as long as evidence of death is right. When a
// living node was proven dead, an emergency takeover may open a second line beside
// the first. When the two meet, one must yield, and both sides must choose the same: the
// line without an emergency takeover at the point where they part wins. Between two with
// one, the line wins that kept more members of the last common view, then the one with
// the higher epoch. The members of the other return as new incarnations.
//
// A view carries the emergency takeovers of its history (Forks), which suffice to decide:
// within a generation there is one view per epoch.

// relation is the relation of another view to ours.
type relation uint8

const (
	same         relation = iota
	newer                 // the other continues our line
	older                 // ours continues the other's line
	wins                  // the lines have parted, ours wins
	loses                 // the lines have parted, ours loses
	otherCluster          // the other is of another cluster
)

// compareViews returns the relation of view b to view a.
func compareViews(a, b *gossip.View) relation {
	if a.Cluster != b.Cluster {
		return otherCluster
	}
	fa, fb := partingForks(a.Forks, b.Forks)
	switch {
	case fa == nil && fb == nil:
		return byEpoch(a.Epoch, b.Epoch)
	case fb == nil:
		// a went through a takeover that b does not include.
		if b.Epoch <= fa.From {
			return older
		}
		return loses
	case fa == nil:
		if a.Epoch <= fb.From {
			return newer
		}
		return wins
	}
	// Of two takeovers of different views, that of the later one stands: at the earlier point
	// its line continued in order.
	if cmp.Or(cmp.Compare(fa.From, fb.From), compareForks(fa, fb)) > 0 {
		return wins
	}
	return loses
}

func byEpoch(a, b gossip.Epoch) relation {
	switch {
	case a < b:
		return newer
	case a > b:
		return older
	}
	return same
}

// compareForks orders two takeovers of one view: the higher one stands.
func compareForks(a, b *gossip.Fork) int {
	return cmp.Or(cmp.Compare(a.Kept, b.Kept), cmp.Compare(a.To, b.To), cmp.Compare(a.By, b.By))
}

// partingForks returns the first takeovers behind the common history of two lines, nil
// where a line has none. Lists may have lost their oldest entries.
func partingForks(a, b []gossip.Fork) (fa, fb *gossip.Fork) {
	a, b = trimForks(a, b), trimForks(b, a)
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	if len(a) > 0 {
		fa = &a[0]
	}
	if len(b) > 0 {
		fb = &b[0]
	}
	return fa, fb
}

// trimForks drops the entries of a that b has lost, being full.
func trimForks(a, b []gossip.Fork) []gossip.Fork {
	for len(b) == forksMax && len(a) > 0 && a[0].To < b[0].To {
		a = a[1:]
	}
	return a
}

// forksMax bounds the history that a view carries; the oldest entries go first.
const forksMax = 128

func withFork(forks []gossip.Fork, f gossip.Fork) []gossip.Fork {
	if len(forks) >= forksMax {
		forks = forks[len(forks)-forksMax+1:]
	}
	return append(forks[:len(forks):len(forks)], f)
}

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

// confirmPeer asks the sender of a view that wins over ours whether it is alive. It reports
// whether this node ends without that: it is joining.
func (l *lineage) confirmPeer(from gossip.NodeID, v *SentView) (ends bool) {
	if !l.status.Votes() {
		return true
	}
	if l.conflict.with == from && l.now.Before(l.conflict.until) {
		return false
	}
	l.conflict = lineageConflict{with: from, nonce: l.random(), until: l.now.Add(l.cfg.Ping), view: v}
	l.sendTo(from, &Contest{View: l.ref(), Nonce: l.conflict.nonce})
	return false
}

// onContest answers whether this node's lineage is alive, or ends it.
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
	c.sendTo(from, &Contested{View: c.ref(), Nonce: m.Nonce, Proof: c.lineage.membership.proof(m.Nonce, from, c.self())})
}

// onContested reports whether the answer to a Contest ends this node: its view still wins.
func (l *lineage) onContested(from gossip.NodeID, m *Contested) (ends bool) {
	if m.View == nil || l.view == nil || l.conflict.with != from || l.conflict.nonce != m.Nonce {
		return false
	}
	shown := l.conflict.view
	l.conflict = lineageConflict{}
	if compareViews(l.view, m.View.View) != loses {
		return false
	}
	l.showOthers(shown)
	return true
}

// showOthers sends the winning lineage's view to the members of this one, which may not
// have met its nodes.
func (l *lineage) showOthers(v *SentView) {
	if !v.Packed() {
		l.evidence.toElectorate(&Decided{View: v})
	}
}

// stepAside ends the incarnation in favour of another lineage.
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

// lineage holds a node's state about other lineages of its cluster: the questions in flight,
// the proof of its own membership, and the nodes that belong to another lineage.
type lineage struct {
	*history
	evidence *evidence
	follower *follower
	joining  *joining

	conflict   lineageConflict
	membership membership
	// nextConsult is when the members may next be asked about a non-member's view.
	nextConsult clock.Instant
	// nodes holds nodes of another lineage that a member has shown (speaker.go).
	nodes map[gossip.NodeID]bool
}

// adoptSecret adopts the secret that a leader sends, unless this node has one.
func (m *membership) adoptSecret(secret [2]uint64) {
	if m.secret == ([2]uint64{}) {
		m.secret = secret
	}
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
func (l *lineage) requestProof(from gossip.NodeID, v *SentView) {
	m := &l.membership
	if m.secret == ([2]uint64{}) || !l.status.Votes() || v.Packed() || l.now.Before(m.asked.until) {
		return
	}
	m.asked = lineageConflict{with: from, nonce: l.random(), until: l.now.Add(l.cfg.Ping), view: v}
	l.sendTo(from, &Contest{View: l.ref(), Nonce: m.asked.nonce})
}
