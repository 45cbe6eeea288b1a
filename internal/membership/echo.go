package membership

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/wire"
)

// A member that has a working link with a peer denies the proof of the peer's death. An
// open connection alone is no sign of life: behind a firewall that has begun to reject,
// an idle one stays open forever, since only sending provokes a reset. So a member that
// receives a message about a proof sends the peer an echo. A reset, if any, arrives
// immediately. If nothing arrives for echoAfter, the link no longer counts until
// something does. Every message of this package is an answer.
//
// echoAfter is L. A member that is dead to the leader has no lease left by then. A leader
// that is proven dead has our promise for L from the receipt of its newest ping; a ping
// after the challenge would have been the answer. So a denial that ends although the peer
// lives, and is slow, never lets two nodes run the same entity. A shorter wait would.

// echo asks the receiver to answer with echoed.
type echo struct{}

// echoed answers echo.
type echoed struct{}

func (*echo) messageTag() byte   { return tagEcho }
func (*echoed) messageTag() byte { return tagEchoed }

func (*echo) codeFields(*wire.Coder)   {}
func (*echoed) codeFields(*wire.Coder) {}

// deadIn returns the nodes that are dead to a message's sender.
func deadIn(m view.Message) []gossip.NodeID {
	switch m := m.(type) {
	case *view.Doubt:
		return m.Dead
	case *view.PreVote:
		return m.Dead
	case *view.Prepare:
		return m.Dead
	}
	return nil
}

// sendEchoes sends an echo to connected members that are dead to another member.
func (e *evidence) sendEchoes(now clock.Instant, ids []gossip.NodeID, a *actions) {
	for _, id := range ids {
		p := e.peers[id]
		if p == nil || !p.member || p.proof != 0 || p.askedAt != 0 || !p.connected() {
			continue
		}
		p.askedAt = now
		e.asked++
		a.addMessage(id, &echo{})
	}
}

// onSignOfLife records a sign of life, which answers a challenge.
func (e *evidence) onSignOfLife(id gossip.NodeID, a *actions) {
	p := e.peers[id]
	if p == nil || p.askedAt == 0 && !p.unresponsive {
		return
	}
	e.endChallenge(p)
	e.setUnresponsive(p, false, a)
}

// endChallenge ends the wait for an answer.
func (e *evidence) endChallenge(p *peerLinks) {
	if p.askedAt != 0 {
		p.askedAt = 0
		e.asked--
	}
}

// checkUnanswered discounts the links of peers whose answer is overdue.
func (e *evidence) checkUnanswered(now clock.Instant, a *actions) {
	if e.asked == 0 {
		return
	}
	for _, p := range e.peers { // order-free: each peer is checked alone
		if p.askedAt != 0 && now.Sub(p.askedAt) >= e.echoAfter {
			e.endChallenge(p)
			e.setUnresponsive(p, true, a)
		}
	}
}

// setUnresponsive reports to the core when the link to p stops counting, or counts again.
func (e *evidence) setUnresponsive(p *peerLinks, mute bool, a *actions) {
	stood := p.works()
	if p.unresponsive = mute; p.works() != stood {
		a.core = append(a.core, view.Link{Subject: p.node.ID, Up: !stood})
		if mute {
			a.addNote("link without an answer", p.node.ID, "a member has a proof of its death, and it does not answer; its link no longer counts")
		}
	}
}

// answerDue returns when the next answer is overdue.
func (e *evidence) answerDue() clock.Instant {
	d := clock.Never
	if e.asked == 0 {
		return d
	}
	for _, p := range e.peers {
		if p.askedAt != 0 {
			d = clock.Min(d, p.askedAt.Add(e.echoAfter))
		}
	}
	return d
}
