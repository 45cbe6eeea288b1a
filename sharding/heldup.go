package sharding

import (
	"context"
	"errors"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/core/flow"
)

// This file holds up senders whose messages a home has no room for: the shell of package
// flow's Window.
//
// A route whose window is used up takes nothing more; its callers wait in the order of
// arrival. So do callers for an entity that the home said to stop for (gate.go). The reader of a connection that brings a grant sends the buffer, then what the
// first of them wait with, as far as the grant goes; so a grant needs no goroutine to be
// woken before it is used. When the route closes, or loses its connection, callers try
// again: then there is a buffer to go to.

// heldUp is a caller that waits for a grant.
type heldUp struct {
	it item
	// done takes the outcome: nil once the message has left, errTryAgain when the route
	// has changed.
	done       chan error
	prev, next *heldUp
	// in is the queue where it waits, nil once it has left. admitted: a gate opened for it.
	in       *heldQueue
	admitted bool
}

// heldQueue is a queue of them. It belongs to the route's mutex.
type heldQueue struct{ first, last *heldUp }

func (q *heldQueue) push(h *heldUp) {
	h.prev, h.in = q.last, q
	if q.last == nil {
		q.first = h
	} else {
		q.last.next = h
	}
	q.last = h
}

func (q *heldQueue) remove(h *heldUp) {
	if h.prev == nil {
		q.first = h.next
	} else {
		h.prev.next = h.next
	}
	if h.next == nil {
		q.last = h.prev
	} else {
		h.next.prev = h.prev
	}
	h.prev, h.next, h.in = nil, nil, nil
}

// heldCallers are the callers of one route that wait for a grant, by class.
type heldCallers struct {
	queues [flow.Control + 1]heldQueue
	// turn is the queue that is served next, of ordinary requests and those of handlers.
	turn flow.Class
}

func (c *heldCallers) hasCallers() bool {
	return c.queues[flow.Ordinary].first != nil || c.queues[flow.Handler].first != nil || c.queues[flow.Control].first != nil
}

// nextCaller returns the caller whose request leaves next, nil if the window permits none.
func (c *heldCallers) nextCaller(w *flow.Window) *heldUp {
	for _, class := range [...]flow.Class{flow.Control, c.turn, flow.Handler - c.turn} {
		if h := c.queues[class].first; h != nil && w.MayLeave(class) {
			return h
		}
	}
	return nil
}

var (
	// errHeldUp: the home has no room for more.
	errHeldUp = errors.New("sharding: home has no room")
	// errStopped: the entity does not keep up.
	errStopped = errors.New("sharding: entity does not keep up")
	// errTryAgain: the route has changed while a caller was held up.
	errTryAgain = errors.New("sharding: route has changed")
	// errHandlerWait: a handler has waited HandlerWait for room.
	errHandlerWait = errors.New("handler has waited for 5s")
)

// HandlerWait is the maximum time that a full mailbox delays a handler, whatever its
// Context. It ends the deadlock of two entities that send to each other while both
// mailboxes are full.
const HandlerWait = 5 * time.Second

// mustWait reports whether a message has to wait for its entity, for a grant, or for others
// that do; called with the mutex.
func (r *route) mustWait(self view.NodeID, it *item) bool {
	if !r.open || r.suspended || r.settle.waiting() || r.home == self && len(r.buf) == 0 {
		return false
	}
	class := it.class()
	return r.gateOf(it) != nil || r.held.queues[class].first != nil || !r.window.MayLeave(class)
}

// awaitGrant waits until a message has left, the route has changed (errTryAgain), or ctx
// ends.
func (r *router) awaitGrant(ctx context.Context, rt *route, it *item) error {
	rt.mu.Lock()
	inc := r.now.Load()
	if inc == nil || r.closed.Load() || !rt.mustWait(inc.self, it) {
		rt.mu.Unlock()
		return errTryAgain
	}
	if it.itself {
		rt.mu.Unlock()
		return ErrMailboxFull // it would wait for itself
	}
	h := &heldUp{it: *it, done: make(chan error, 1)}
	r.counters.heldUp.Add(1)
	if gate := rt.gateOf(it); gate != nil {
		gate.push(h)
	} else {
		rt.held.queues[it.class()].push(h)
		r.holdUp(inc, rt)
	}
	rt.mu.Unlock()
	var patience <-chan time.Time
	if it.handler {
		timer := time.NewTimer(HandlerWait)
		defer timer.Stop()
		patience = timer.C
	}
	var err error
	select {
	case err = <-h.done:
		return err
	case <-ctx.Done():
		err = giveUp(ErrMailboxFull, ctx)
	case <-patience:
		err = &gaveUpError{ErrMailboxFull, errHandlerWait}
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if h.in == nil {
		return <-h.done
	}
	h.in.remove(h)
	r.counters.heldUp.Add(-1)
	return err
}

// holdUp tells the home that the window is used up, once; look repeats it. Called with the
// mutex.
func (r *router) holdUp(inc *incarnation, rt *route) {
	if !rt.blocked {
		rt.blocked = true
		r.counters.blocked.Add(1)
		r.report(inc, rt)
	}
}

// report tells the home how far this node has sent, behind all that it has; called with
// the mutex. A report that finds no room on the connection is not sent: look sends it
// again.
func (r *router) report(inc *incarnation, rt *route) {
	if rt.home == inc.self {
		inc.accounts.sender(inc.self).reconcile(rt.shard, rt.token, rt.window.Report())
		inc.accounts.wake()
		return
	}
	_ = inc.send(rt.home, appendBlocked(nil, r.name, rt.shard, rt.token, rt.window.Report()))
}

// granted takes a grant of a home.
func (r *router) granted(inc *incarnation, from view.NodeID, g *granted) {
	rt := &r.routes[g.shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.home == from && rt.token == g.token && rt.window.Raise(g.Grant) && rt.blocked {
		rt.blocked = false
		r.flow(inc, rt)
	}
}

// serveHeld sends what callers wait with, in order, as far as the window goes; called with
// the mutex.
func (r *router) serveHeld(inc *incarnation, rt *route) {
	for rt.held.hasCallers() {
		if !rt.free() || rt.home == inc.self {
			r.releaseHeld(rt)
			return
		}
		h := rt.held.nextCaller(&rt.window)
		if h == nil {
			r.holdUp(inc, rt)
			return
		}
		if class := h.it.class(); class != flow.Control {
			rt.held.turn = flow.Handler - class
		}
		switch err := r.leave(inc, rt, &h.it); {
		case err == nil:
			r.counters.sent(RouteRemote, rt.shard)
			r.endHeld(rt, h, nil)
		case errors.Is(err, transport.ErrQueueFull):
			r.flowLater(inc, rt)
			return
		case errors.Is(err, transport.ErrFrameTooLarge):
			r.endHeld(rt, h, ErrTooLarge)
		case errors.Is(err, errNobodyWaits):
			r.endHeld(rt, h, err)
		default:
			// The peer is unknown or the transport is closed.
			rt.suspended = true
		}
	}
}

// endHeld is called with the mutex.
func (r *router) endHeld(rt *route, h *heldUp, err error) {
	h.in.remove(h)
	r.counters.heldUp.Add(-1)
	h.done <- err
}

// releaseHeld lets the callers that are held up try again: the route has closed, or its
// connection is down. Called with the mutex.
func (r *router) releaseHeld(rt *route) {
	for i := range rt.held.queues {
		r.sendAway(rt, &rt.held.queues[i])
	}
}

// sendAway lets the callers of a queue try again; called with the mutex.
func (r *router) sendAway(rt *route, q *heldQueue) {
	for q.first != nil {
		r.endHeld(rt, q.first, errTryAgain)
	}
}

// reconcile takes a report: that of a sender which is blocked. One whose shard does not
// run here may send one request, which is refused: so it learns that it looks for another
// home.
func (s *service) reconcile(p dataPath, inc *incarnation, from view.NodeID, m marker, report flow.Report) {
	if inc == nil || inc.accounts == nil || p.hosted(m.shard) != m.token {
		b := appendGrantHead(nil, string(m.typ))
		s.out.send(from, appendGrant(b, &granted{m.shard, m.token, flow.Grant{Limit: report.Sent + 1, LimitBytes: report.SentBytes + 1, Asked: report.Asked}}))
		return
	}
	sender := inc.accounts.sender(from)
	sender.reconcile(m.shard, m.token, report)
	sender.transmit()
}

func (s *service) handleBlocked(from view.NodeID, frame []byte) error {
	m, report, err := parseReport(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.typ, m.shard)
	if p != nil {
		s.reconcile(p, inc, from, m, report)
	}
	return err
}

func (s *service) handleGrants(from view.NodeID, frame []byte) error {
	typ, grants, err := parseGrants(frame)
	if err != nil {
		return err
	}
	p := s.path(typ)
	if p == nil {
		return nil
	}
	return p.base().takeGrants(from, grants)
}

// takeGrants takes encoded grants.
func (r *router) takeGrants(from view.NodeID, grants []byte) error {
	inc := r.now.Load()
	for ; inc != nil && len(grants) > 0; grants = grants[grantBytes:] {
		g := readGrant(grants)
		if uint32(g.shard) >= r.shards {
			return errMalformed
		}
		r.granted(inc, from, &g)
	}
	return nil
}
