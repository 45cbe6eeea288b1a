package route

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// Route is the way from one node to one shard. The zero Route has no home. M is the type of
// the messages.
//
// The fields that every message reads stand first, so that they share cache lines.
type Route[M any] struct {
	// open: the home is in force.
	open bool
	// suspended: open, but the connection to the home is down, or the shard has not started
	// here yet.
	suspended bool
	// awaiting: an AwaitRoom action is under way, so no buffered message leaves.
	awaiting bool
	// asked: NeedHome, or Misrouted, was returned since the route closed.
	asked bool
	// local: the home is this node.
	local bool
	// blocked: the window is used up, and the home has a report of it.
	blocked bool
	// published: the messages of callers follow, if flow is under way.
	published bool
	// turn is the class of callers served next, of ordinary messages and those of handlers.
	turn flow.Class
	home gossip.NodeID
	// token is that of the allocation to home.
	token protocol.Token
	// window counts the messages that left for the shard, and bounds them.
	window flow.Window
	// backlog is what waits, and what is due; nil at rest.
	backlog *backlog[M]

	// before is the number of the last message that left before the way to home began, which
	// lasts until the route turns to another home.
	before uint64
	// markers numbers the route's own markers.
	markers uint64
}

// settling is the wait for the acknowledgement of a route's own marker.
type settling struct {
	owner gossip.NodeID
	// number tells markers apart. Markers of coordinators have a term, those of routes none.
	number uint64
	// before is that of the way to owner.
	before uint64
}

func (s settling) waiting() bool { return s.owner != 0 }

// Offer decides about a new message: Wait, Buffer, Publish (the shard runs here, and local
// senders bypass the route) or Send.
func (r *Route[M]) Offer(it *Item[M]) (a Action[M]) {
	switch {
	case !r.reachable():
		a.Kind = Buffer
	case r.backlog.length() == 0 && r.local && !r.awaiting:
		a.Kind, a.To, a.Token = Publish, r.home, r.token
	case !(r.backlog.length() == 0 && r.local) && (!r.window.MayLeave(it.Class) || r.backlog.holdsBack(it)):
		a.Kind, a.To = Wait, r.home
	case r.backlog.length() > 0 || r.awaiting:
		a.Kind = Buffer
	default:
		return r.departure(it, Offered)
	}
	return a
}

// OfferNow decides about a message that leaves now or not at all: NoHome, Stopped, Wait, Send
// or Deliver. The message leaves past the callers that wait.
func (r *Route[M]) OfferNow(it *Item[M]) (a Action[M]) {
	switch {
	case !r.free():
		r.Want()
		a.Kind = NoHome
	case r.backlog.hasGate(it.ID):
		a.Kind = Stopped
	case !r.window.MayLeave(it.Class):
		r.holdUp()
		a.Kind, a.To = Wait, r.home
	default:
		return r.departure(it, Offered)
	}
	return a
}

// departure returns the Action with which an item leaves. It returns a value: stored through
// a pointer, every offered item would escape to the heap.
func (r *Route[M]) departure(it *Item[M], from Source) Action[M] {
	kind := Send
	if r.local {
		kind = Deliver
	}
	return Action[M]{Kind: kind, Source: from, To: r.home, Token: r.token, Number: r.window.Sent() + 1, Item: it}
}

// reachable reports whether messages may leave in principle: the route has a home, a
// connection to it, and waits for no refusals.
func (r *Route[M]) reachable() bool { return r.open && !r.suspended && !r.backlog.isSettling() }

// free reports whether a message may leave now, before no other.
func (r *Route[M]) free() bool { return r.reachable() && r.backlog.length() == 0 && !r.awaiting }

// Keep appends a message to the buffer. The caller bounds the buffers of all routes.
func (r *Route[M]) Keep(it *Item[M]) {
	b := needBacklog(r)
	b.bytes += it.Bytes
	b.buf = append(b.buf, *it)
	r.Want()
}

// Want makes Next return NeedHome, once per close, if the route has no home.
func (r *Route[M]) Want() {
	if !r.open && !r.asked {
		r.asked = true
		require(r, doNeedHome)
	}
}

// Reask makes Next return NeedHome if messages wait and the route has no home.
func (r *Route[M]) Reask() {
	if r.backlog.length() > 0 {
		r.Want()
	}
}

// holdUp makes the home learn, once, that the window is used up. Look repeats it.
func (r *Route[M]) holdUp() {
	if !r.blocked {
		r.blocked = true
		require(r, doReport)
	}
}

// Await queues a caller whose Item has just been offered, with the result Wait. A Wake action
// ends the wait.
func (r *Route[M]) Await(w *Waiter[M]) {
	held := &needBacklog(r).held
	if gate := held.gateOf(&w.Item); gate != nil {
		gate.pushWaiter(w)
		return
	}
	held.queues[w.Item.Class].pushWaiter(w)
	r.holdUp()
}

// ReleaseCallers makes all callers that wait offer their messages again, and discards the
// gates. A route that closes, turns, or loses its connection does so, too.
func (r *Route[M]) ReleaseCallers() {
	if b := r.backlog; b != nil {
		b.held.releaseAll(&b.due)
	}
}

// suspend stops messages until PeerUp, Look or Open.
func (r *Route[M]) suspend() {
	r.suspended = true
	r.ReleaseCallers()
}

// startFlow lets the messages that wait leave, as far as there is room: first the buffer, then
// those of callers.
func (r *Route[M]) startFlow() {
	require(r, doFlow)
	r.published = false
}

// Filter removes the buffered messages for which over returns true, and reports whether there
// were any.
func (r *Route[M]) Filter(over func(*Item[M]) bool) (removed bool) {
	if r.backlog == nil {
		return false
	}
	kept := r.backlog.buf[:0]
	for i := range r.backlog.buf {
		if over(&r.backlog.buf[i]) {
			r.backlog.bytes -= r.backlog.buf[i].Bytes
			continue
		}
		kept = append(kept, r.backlog.buf[i])
	}
	removed = len(kept) < len(r.backlog.buf)
	clear(r.backlog.buf[len(kept):])
	r.backlog.buf = kept
	if assert.Enabled && len(kept) == 0 && r.backlog.bytes != 0 {
		assert.Broken("S10", "%d bytes of messages are counted in an empty buffer", r.backlog.bytes)
	}
	return removed
}

// Home returns the last home, and the token of the allocation; 0 if there is none.
func (r *Route[M]) Home() (gossip.NodeID, protocol.Token) { return r.home, r.token }

// Held returns how many messages the buffer holds, their bytes, and how many entities the home
// has stopped senders for.
func (r *Route[M]) Held() (messages, bytes, gates int) {
	if b := r.backlog; b != nil {
		return len(b.buf), b.bytes, len(b.held.gates)
	}
	return 0, 0, 0
}

// Report returns how far this node has sent.
func (r *Route[M]) Report() flow.Report { return r.window.Report() }

// State names the state of the route for queries.
func (r *Route[M]) State() string {
	switch {
	case r.home == 0:
		return "unknown"
	case !r.open:
		return "closed"
	case r.suspended:
		return "suspended"
	case r.blocked:
		return "held up"
	case r.local:
		return "local"
	}
	return "remote"
}
