package route

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Due reports whether an Action is due.
func (r *Route[M]) Due() bool { return r.backlog != nil && r.backlog.due.actions != 0 }

// Next returns the next Action that is due, false if there is none.
func (r *Route[M]) Next() (a Action[M], ok bool) {
	for r.Due() {
		switch due := &r.backlog.due; {
		case due.actions&(doFlow-1) != 0:
			return r.nextBefore(), true
		case due.actions&doFlow != 0:
			if a, ok = r.nextToLeave(); ok {
				return a, true
			}
		default:
			due.clearDue(doFreed)
			return Action[M]{Kind: Freed}, true
		}
	}
	releaseBacklog(r)
	return a, false
}

// nextBefore returns an Action that is due before messages leave.
func (r *Route[M]) nextBefore() (a Action[M]) {
	switch due := &r.backlog.due; {
	case due.clearDue(doHide):
		a.Kind = Hide
	case due.clearDue(doMisrouted):
		a.Kind, a.Token = Misrouted, r.token
	case due.clearDue(doMarker):
		a.Kind, a.To, a.Token = Marker, r.backlog.owner, r.backlog.marker
	case due.clearDue(doSettle):
		a.Kind, a.To, a.Token = Marker, r.backlog.settle.owner, protocol.Token{Seq: r.backlog.settle.number}
	case due.clearDue(doReport):
		due.clearDue(doRepeat)
		a.Kind, a.To, a.Token, a.First = Report, r.home, r.token, true
	case due.clearDue(doRepeat):
		a.Kind, a.To, a.Token = Report, r.home, r.token
	case due.actions&doListed != 0:
		if a = due.nextListed(); a.Kind == AskGate {
			a.To, a.Token = r.home, r.token
		}
	case due.clearDue(doNeedHome):
		a.Kind = NeedHome
	default:
		due.clearDue(doAwaitRoom)
		a.Kind, a.To = AwaitRoom, r.home
	}
	return a
}

// nextToLeave returns the Action of the next message that leaves; false if none does for now,
// or something else is due before it.
func (r *Route[M]) nextToLeave() (a Action[M], ok bool) {
	if len(r.backlog.buf) > 0 {
		return r.nextBuffered()
	}
	if !r.published {
		r.backlog.buf, r.published = nil, true
		if r.open && r.local && !r.backlog.isSettling() {
			return Action[M]{Kind: Publish, To: r.home, Token: r.token}, true
		}
	}
	if r.backlog.held.areWaiting() {
		return r.nextOfCallers()
	}
	r.endFlow()
	return a, false
}

// endFlow is called when the buffer is empty and no caller's message may leave.
func (r *Route[M]) endFlow() {
	r.backlog.due.clearDue(doFlow)
	if r.free() {
		r.backlog.due.actions |= doFreed
	}
}

func (r *Route[M]) nextBuffered() (a Action[M], ok bool) {
	switch it := &r.backlog.buf[0]; {
	case !r.reachable() || r.awaiting:
	case !r.window.MayLeave(it.Class):
		r.holdUp()
	default:
		return r.departure(it, Buffered), true
	}
	r.backlog.due.clearDue(doFlow)
	return a, false
}

func (r *Route[M]) nextOfCallers() (a Action[M], ok bool) {
	if !r.free() || r.local {
		r.backlog.held.retryHeld(&r.backlog.due)
		return a, false
	}
	w := r.backlog.held.nextCaller(&r.window, &r.turn)
	if w == nil {
		r.holdUp()
		r.endFlow()
		return a, false
	}
	r.backlog.leaving = w
	return r.departure(&w.Item, Waiting), true
}

// Done reports how an Action went. Actions other than Send, Deliver and Publish need none.
func (r *Route[M]) Done(a *Action[M], how Outcome) {
	switch {
	case a.Kind != Send && a.Kind != Deliver && a.Kind != Publish:
	case how == Down:
		r.suspend()
	case a.Kind == Publish:
		r.suspended = false
	case a.Source == Offered && how == Full: // its caller waits for room
	default:
		if how == Sent {
			r.window.Left(a.Item.Bytes)
		}
		r.doneItem(a.Source, how)
	}
}

// doneItem is called when an Item has left, or never will, or when a connection has no room for
// one that waits.
func (r *Route[M]) doneItem(from Source, how Outcome) {
	switch {
	case how == Full:
		r.awaiting = true
		r.backlog.due.clearDue(doFlow)
		r.backlog.due.actions |= doAwaitRoom
	case from == Buffered:
		r.backlog.bytes -= r.backlog.buf[0].Bytes
		r.backlog.buf[0] = Item[M]{}
		r.backlog.buf = r.backlog.buf[1:]
	case from == Waiting:
		r.backlog.due.wakeCaller(r.backlog.leaving, how)
		r.backlog.leaving = nil
	}
}

// RoomFound ends an AwaitRoom action for home: the connection has room (Sent), is closed
// (Down), or this node has stopped (Gone).
func (r *Route[M]) RoomFound(home gossip.NodeID, how Outcome) {
	r.awaiting = false
	switch {
	case how == Gone:
	case how == Down && r.open && r.home == home:
		r.suspend()
	default:
		r.startFlow()
	}
}
