package membership

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/internal/transport"
)

// links keeps a connection to every member and derives facts about peers, as the shell does.
// A connection that breaks, and is then refused twice, 20 ms apart, proves the peer dead
// until a message from it arrives. The proof is certain if the peer's own kernel has
// answered (sealed), and weak otherwise. Another incarnation at the address, or a goodbye,
// is a final proof.
type links struct {
	p *process.Process
	// step gives the view core an event, onPeer informs the layers above, and onTick is called
	// at every tick.
	step   func(view.Event)
	onPeer func(id gossip.NodeID, class transport.Class, up bool)
	onTick func()

	peers    map[gossip.NodeID]*link
	reported []gossip.NodeID
	// lastProof is when the newest certain proof of a death came.
	lastProof virtual.Instant
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
	// proofAt is when a late proof comes, certainAt when the newest certain proof came.
	proofAt, certainAt virtual.Instant
}

const (
	refusalsSpan     = 20 * time.Millisecond
	refusalsReadOut  = 300 * time.Millisecond
	unreachableAfter = 200 * time.Millisecond
	keepEvery        = 20 * time.Millisecond
)

func (l *links) peer(id gossip.NodeID) *link {
	x := l.peers[id]
	if x == nil {
		x = &link{lostAt: virtual.Never}
		l.peers[id] = x
	}
	return x
}

// down lists the peers without a connection, in order.
func (l *links) down() (ids []gossip.NodeID) {
	for id, x := range l.peers {
		if !x.up {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// setMembers takes a newer view: links to its members are kept up.
func (l *links) setMembers(v *gossip.View) {
	for _, x := range l.peers {
		x.member = false
	}
	for i := range v.Members {
		if id := v.Members[i].ID; id != l.p.ID() {
			x := l.peer(id)
			x.member = true
			l.dialPeer(id, x)
			l.conclude(id, x)
		}
	}
}

func (l *links) dialPeer(id gossip.NodeID, x *link) {
	if !x.final && l.p.Net.Dial(id) {
		if !x.up && x.lostAt == virtual.Never {
			x.lostAt = l.p.Run.Now()
		}
	}
}

// keep dials again what is down, and reports it.
func (l *links) keep() {
	l.p.Run.After(keepEvery, func() {
		if l.p.Active() {
			l.p.Thread.Run(l.tend)
			l.keep()
		}
	})
}

func (l *links) tend() {
	if l.p.Removed() {
		return
	}
	var silent []gossip.NodeID
	for _, id := range l.down() {
		x := l.peers[id]
		if !x.member || x.up {
			continue
		}
		l.dialPeer(id, x)
		l.conclude(id, x)
		if l.p.Run.Now().Sub(x.lostAt) >= unreachableAfter {
			silent = append(silent, id)
		}
	}
	l.onTick()
	if l.p.Removed() {
		return
	}
	if !slices.Equal(silent, l.reported) {
		l.reported = silent
		l.step(view.Unreachable{Nodes: slices.Clone(silent)})
	}
}

// onEvent takes an event of the transport.
func (l *links) onEvent(typ transport.PeerEventType, class transport.Class, id, former gossip.NodeID) {
	if l.p.Removed() {
		return
	}
	if typ == transport.OtherNode {
		l.prove(former, otherNodeProof, "other node")
		return
	}
	x := l.peer(id)
	stood := x.up && x.inControl
	l.onLink(typ, class, id, x)
	if stands := x.up && x.inControl; stands != stood {
		l.step(view.Link{Subject: id, Up: stands})
	}
}

func (l *links) onLink(typ transport.PeerEventType, class transport.Class, id gossip.NodeID, x *link) {
	control := class == transport.Control
	switch typ {
	case transport.Connected:
		x.met = true
		if control {
			x.up, x.lostAt, x.refusals = true, virtual.Never, 0
		}
		l.withdrawProof(id)
		l.onPeer(id, class, true)
	case transport.Accepted:
		x.met, x.in = true, true
		x.inControl = x.inControl || control
		l.withdrawProof(id)
	case transport.Lost:
		if control {
			x.up = false
			x.lostAt = min(x.lostAt, l.p.Run.Now())
		}
		l.onPeer(id, class, false)
	case transport.AcceptedLost:
		x.in = false
		if !control {
			// Answers arrive on the peer's message connection, so its loss is reported to
			// the upper layers. That of a control connection is not: it would count as
			// silence, and Accepted, when the peer opens another, does not end that.
			l.onPeer(id, class, false)
		}
		x.inControl = x.inControl && !control
		l.conclude(id, x)
	case transport.Refused:
		if control {
			l.refused(id, x)
		}
	case transport.DialFailed:
		x.refusals = 0
		x.lostAt = min(x.lostAt, l.p.Run.Now())
	}
}

// allDead reports whether all other members count as dead.
func (l *links) allDead(v *gossip.View) bool {
	for i := range v.Members {
		if id := v.Members[i].ID; id != l.p.ID() && !l.peer(id).proof {
			return false
		}
	}
	return len(v.Members) > 1
}
