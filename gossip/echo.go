package gossip

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// A member that hears a peer denies the proof that it is dead (DESIGN 4.5). An open
// connection is not hearing: behind a firewall that has begun to reject, an idle one
// stays open for ever, since a reset is only provoked by sending. So whoever is told
// of a proof asks the peer to answer. The reset, where there is one, comes at once;
// where nothing comes for echoAfter, the link no longer counts, until something does.
// Every message of this package is an answer.
//
// echoAfter is L. A member that is thought dead by the leader has no lease left by
// then. A leader that is thought dead keeps our promise for L from the receipt of its
// newest ping; a ping that came after the challenge would have been the answer. So a
// denial that ends though the peer lives, and is slow, lets nobody run twice. A
// shorter wait would.

// echo asks the receiver to answer with echoed.
type echo struct{}

// echoed answers echo.
type echoed struct{}

func (echo) tag() byte   { return tagEcho }
func (echoed) tag() byte { return tagEchoed }

// deadTold returns those of whom a message says that they are dead.
func deadTold(m view.Message) []view.NodeID {
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

// challenge asks members that are said to be dead, and seem to be connected, for an
// answer.
func (e *evidence) challenge(now clock.Instant, ids []view.NodeID, a *actions) {
	for _, id := range ids {
		p := e.peers[id]
		if p == nil || !p.member || p.proof != 0 || p.askedAt != 0 || !p.connected() {
			continue
		}
		p.askedAt = now
		e.asked++
		a.tell(id, echo{})
	}
}

// answered takes a sign of life, which answers a challenge.
func (e *evidence) answered(id view.NodeID, a *actions) {
	p := e.peers[id]
	if p == nil || p.askedAt == 0 && !p.mute {
		return
	}
	e.unask(p)
	e.setMute(p, false, a)
}

// unask ends the wait for an answer.
func (e *evidence) unask(p *peerLinks) {
	if p.askedAt != 0 {
		p.askedAt = 0
		e.asked--
	}
}

// muted does what is due about answers that did not come.
func (e *evidence) muted(now clock.Instant, a *actions) {
	if e.asked == 0 {
		return
	}
	for _, p := range e.peers { // order-free: each peer is judged alone
		if p.askedAt != 0 && now.Sub(p.askedAt) >= e.echoAfter {
			e.unask(p)
			e.setMute(p, true, a)
		}
	}
}

// setMute tells the core when the link to p comes to count for nothing, or counts
// again.
func (e *evidence) setMute(p *peerLinks, mute bool, a *actions) {
	stood := p.stands()
	if p.mute = mute; p.stands() != stood {
		a.core = append(a.core, view.Link{Subject: p.node.ID, Up: !stood})
		if mute {
			a.note("link without an answer", p.node.ID, "said to be dead by others")
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
