package membership

import (
	"context"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/transport"
)

const (
	// hintsMax bounds the hints that wait to be dialled.
	hintsMax = 256
	// hintEvery is the interval of dials for hints, hintsBurst how many may follow each
	// other, hintsAtOnce how many may be in flight.
	hintEvery   = 250 * time.Millisecond
	hintsBurst  = 16
	hintsAtOnce = 8
)

// hints decides which of the nodes that memberlist has found are dialled, and when. A
// hint is unverified: an attacker may have chosen its address. So each costs one
// handshake, at a bounded rate, and only a node that completes the handshake is learnt
// (and dialled again when its connection breaks). It is a plain state machine; the loop
// owns it.
type hints struct {
	// Invariant: len(waiting) <= hintsMax; 0 <= probing <= hintsAtOnce.
	waiting []transport.Peer
	probing int
	// fullAt is when the bucket of dials is full again.
	fullAt clock.Instant
}

// offerHint queues a hint, and reports whether there was room.
func (h *hints) offerHint(p transport.Peer) bool {
	for i := range h.waiting {
		if h.waiting[i].ID == p.ID || h.waiting[i].Addr == p.Addr {
			return true
		}
	}
	if len(h.waiting) >= hintsMax {
		return false
	}
	h.waiting = append(h.waiting, p)
	return true
}

// startDials requests the due dials.
func (h *hints) startDials(now clock.Instant, a *actions) {
	for len(h.waiting) > 0 && h.probing < hintsAtOnce && !now.Before(h.nextAt()) {
		a.lookAt = append(a.lookAt, h.waiting[0])
		h.waiting = h.waiting[1:]
		h.probing++
		h.fullAt = max(h.fullAt, now).Add(hintEvery)
	}
	if len(h.waiting) == 0 {
		h.waiting = nil
	}
}

// nextAt is when the bucket allows a dial.
func (h *hints) nextAt() clock.Instant { return h.fullAt.Add(-(hintsBurst - 1) * hintEvery) }

// dialDone records the end of a dial.
func (h *hints) dialDone() { h.probing-- }

func (h *hints) nextDialAt() clock.Instant {
	if len(h.waiting) == 0 || h.probing >= hintsAtOnce {
		return clock.Never
	}
	return h.nextAt()
}

// hintIn is the outcome of a dial for a hint.
type hintIn struct {
	peer transport.Peer
	err  error
}

// lookAt dials the address of a hint once, in a goroutine.
func (n *Node) lookAt(p transport.Peer) {
	n.counters.probes.Add(1)
	n.wg.Go(func() {
		ctx, cancel := context.WithTimeout(n.ctx, 2*time.Second)
		defer cancel()
		who, err := n.transport.Probe(ctx, p.Addr)
		if err != nil {
			n.counters.probesFailed.Add(1)
		}
		n.inbox.Put(hintIn{who, err})
	})
}

// onHint handles a node that memberlist has found.
func (l *loop) onHint(p transport.Peer) {
	if l.n.View().Member(p.ID) != nil || l.evidence.verified(p.ID) || l.forming.points.tracks(p) {
		return
	}
	if !l.hints.offerHint(p) {
		l.n.counters.HintsDropped.Add(1)
	}
}

// onHintDial handles the outcome of a dial for a hint: the node that answered has identified
// itself.
func (l *loop) onHintDial(now clock.Instant, in hintIn) {
	l.hints.dialDone()
	if in.err == nil && in.peer.ID != l.n.self.ID {
		l.acts.learn = append(l.acts.learn, in.peer)
		l.forming.discovered(now, in.peer)
	}
}
