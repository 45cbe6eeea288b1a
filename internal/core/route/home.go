package route

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Close closes the route. If owner is not 0, a marker with token follows everything that was
// sent there.
func (r *Route[M]) Close(owner gossip.NodeID, token protocol.Token) {
	r.open, r.suspended, r.asked = false, false, false
	r.ReleaseCallers()
	require(r, doHide)
	if owner != 0 {
		r.Mark(owner, token)
	}
	r.Reask()
}

// Mark sends a marker of the coordinator, for the first time or again.
func (r *Route[M]) Mark(owner gossip.NodeID, token protocol.Token) {
	b := needBacklog(r)
	b.owner, b.marker = owner, token
	b.due.actions |= doMarker
}

// Open opens the route, or turns it to another home, and lets the buffer leave. local: the home
// is this node. It reports whether this ends a wait of buffered messages.
func (r *Route[M]) Open(home gossip.NodeID, token protocol.Token, local bool) (ended bool) {
	if r.open && r.home == home && r.token == token && !r.suspended {
		return false
	}
	if r.backlog.isSettling() && r.backlog.settle.owner != home {
		// The messages in flight to the former home will be refused there, or are lost with
		// it; they must not hold up the new home.
		r.sortBack()
	}
	if r.reachable() && r.home != home && !r.local {
		// It turns without a coordinator's marker: a coordinator that has just taken office may
		// not have a record of this node. Messages that the old home refuses leave first.
		r.settleWith(r.home)
	}
	require(r, doHide)
	ended = r.asked && r.backlog.length() > 0
	r.open, r.suspended, r.asked = true, false, false
	if r.home != home {
		r.before = r.window.Sent()
	}
	if r.home != home || r.token != token {
		r.ReleaseCallers()
		r.window.Open()
		r.blocked = false
	}
	r.home, r.token, r.local = home, token, local
	r.startFlow()
	return ended
}

// Reset forgets the home: this node's incarnation has ended. The buffer stays for the next one.
func (r *Route[M]) Reset() {
	require(r, doHide)
	r.sortBack()
	r.open, r.suspended, r.asked, r.blocked, r.local = false, false, false, false, false
	r.home, r.token = 0, protocol.Token{}
	r.ReleaseCallers()
}

// PeerLost suspends the route if its home is peer, whose connection broke.
func (r *Route[M]) PeerLost(peer gossip.NodeID) {
	if r.backlog.settlesWith(peer) {
		// The acknowledgement will not arrive over a connection that is gone.
		r.settled()
	}
	if r.open && r.home == peer {
		r.suspend()
	}
}

// PeerUp resumes a route whose home is peer, to which a connection is open.
func (r *Route[M]) PeerUp(peer gossip.NodeID) {
	if !r.suspended || r.home != peer {
		return
	}
	r.suspended = false
	r.startFlow()
	if r.blocked {
		// The report, or the grant, may be lost with the former connection.
		require(r, doRepeat)
	}
}

// NeedsLook reports whether a Look may do anything: the route waits for refusals, is suspended or
// blocked, or has gates. Only events change it, never the passing of time.
func NeedsLook[M any](r *Route[M]) bool {
	return r.suspended || r.blocked || r.backlog.isSettling() || r.backlog != nil && len(r.backlog.held.gates) > 0
}

// Look repeats what may have been lost: the marker of a route that waits for refusals, the
// report of a blocked one, and with gates questions about all gates. It returns the home of a
// suspended route, which the caller connects to, 0 if there is none.
func (r *Route[M]) Look(gates bool) (down gossip.NodeID) {
	if r.backlog.isSettling() {
		require(r, doSettle)
	}
	if gates && r.backlog != nil {
		r.backlog.due.askGates(r.backlog.gateIDs())
	}
	switch {
	case r.blocked && r.reachable():
		require(r, doRepeat)
	case r.suspended && r.local:
		r.suspended = false
		r.startFlow()
	case r.suspended:
		return r.home
	}
	return 0
}

// Stop applies a stop of the home from: messages for the entity id may leave if their class is
// lowest or above; flow.Open ends the stop.
func (r *Route[M]) Stop(from gossip.NodeID, token protocol.Token, id string, lowest flow.Class) {
	if r.home == from && r.token == token && !r.local && r.reachable() {
		if b := needBacklog(r); b.held.setGate(id, lowest, &b.due) {
			r.startFlow()
		}
	}
}

// Grant applies a grant of the home from.
func (r *Route[M]) Grant(from gossip.NodeID, token protocol.Token, g flow.Grant) {
	if r.home == from && r.token == token && r.window.Raise(g) && r.blocked {
		r.blocked = false
		r.startFlow()
	}
}

// Shrink lowers the window at the request of the home from, and returns the report that the home
// must receive behind all messages to it; false if none.
func (r *Route[M]) Shrink(from gossip.NodeID, token protocol.Token, asked uint64) (flow.Report, bool) {
	if r.home != from || r.token != token || !r.reachable() {
		return flow.Report{}, false
	}
	return r.window.Shrink(asked)
}
