package datapath

import (
	"github.com/peerage-go/peerage/internal/core/route"
)

// callerKey names a caller: callers make one call at a time, each to one entity.
type callerKey struct{ entity, caller int }

// call is a message that has neither been sent nor joined a buffer or mailbox.
type call struct {
	m *Message
	// waiter is its place while it waits for a grant, place while it waits for a mailbox here.
	waiter *route.Waiter[*Message]
	place  *Place
	over   bool
}

// callers are those of one type on one process.
type callers struct {
	cfg    Config
	env    Env
	routes *routes
	calls  map[callerKey]*call
	// full are the calls that wait for room in a buffer.
	full []*call
}

// post makes the call of a caller that is not busy, and reports whether it waits.
func (s *callers) post(m *Message) (waits bool) {
	c := &call{m: m}
	s.calls[callerKey{m.Entity, m.Caller}] = c
	s.attempt(c)
	return !c.over
}

// withdrawCall ends the call of m, and reports whether it was waiting: then m will not be sent.
func (s *callers) withdrawCall(m *Message) bool {
	c := s.calls[callerKey{m.Entity, m.Caller}]
	if c == nil || c.m != m {
		return false
	}
	if c.waiter != nil {
		c.waiter.Withdraw()
	}
	if c.place != nil {
		c.place.leaveLane()
	}
	s.endCall(c)
	return true
}

// endCall lets the caller return.
func (s *callers) endCall(c *call) {
	c.over = true
	delete(s.calls, callerKey{c.m.Entity, c.m.Caller})
}

// attempt offers the message of a call, for the first time or after a wait.
func (s *callers) attempt(c *call) {
	c.waiter, c.place = nil, nil
	rt := s.routes.at(c.m.Shard)
	if c.over || rt.published && s.passRoute(rt, c) {
		return
	}
	it := newItem(c.m)
	switch a := rt.core.Offer(&it); a.Kind {
	case route.Wait:
		s.env.Count(HeldUp)
		c.waiter = &route.Waiter[*Message]{Item: it}
		rt.core.Await(c.waiter)
		s.routes.carryOut(rt)
	case route.Buffer:
		s.keep(rt, c, &it)
	default:
		how := s.routes.perform(rt, &a)
		rt.core.Done(&a, how)
		s.routes.carryOut(rt)
		s.onOffered(rt, c, &a, how)
	}
}

// onOffered continues a call whose message was offered, and may have left.
func (s *callers) onOffered(rt *shardRoute, c *call, a *route.Action[*Message], how route.Outcome) {
	switch how {
	case route.Full:
		s.env.AwaitRoom(a.To, func(route.Outcome) { s.attempt(c) })
	case route.Down:
		it := newItem(c.m)
		s.keep(rt, c, &it)
	default:
		if a.Kind == route.Publish {
			s.attempt(c)
			return
		}
		s.endCall(c)
	}
}

// passRoute delivers a message to the shard that runs here. It returns false if the shard takes
// nothing more.
func (s *callers) passRoute(rt *shardRoute, c *call) bool {
	if !isHosted(s.env, rt.shard, rt.token) {
		rt.published = false
		return false
	}
	left, waits := s.env.Move(c.m, s.cfg.Self)
	if !waits {
		s.endCall(c)
		return true
	}
	c.place = &Place{entered: func(entered bool) {
		if entered {
			s.endCall(c)
			return
		}
		s.env.Later(func() { s.attempt(c) })
	}}
	s.env.Deliver(c.m, left, c.place)
	return true
}

// keep appends a message to the buffer of its route, or lets its caller wait for room there.
func (s *callers) keep(rt *shardRoute, c *call, it *route.Item[*Message]) {
	if !s.hasRoom(rt) && !(s.removeExpired(rt) && s.hasRoom(rt)) {
		s.env.Count(NoRoom)
		s.full = append(s.full, c)
		rt.core.Want()
		s.routes.carryOut(rt)
		return
	}
	rt.core.Keep(it)
	s.endCall(c)
	s.routes.carryOut(rt)
}

func (s *callers) hasRoom(rt *shardRoute) bool {
	messages, _, _ := rt.core.Held()
	return messages < s.cfg.Buffer
}

// removeExpired removes the asks that are over from a buffer.
func (s *callers) removeExpired(rt *shardRoute) bool {
	removed := rt.core.Filter(func(it *route.Item[*Message]) bool {
		_, waits := s.env.Move(it.Msg, 0)
		return !waits
	})
	rt.held, _, _ = rt.core.Held()
	return removed
}

// announceRoom wakes the callers that wait for room in a buffer.
func (s *callers) announceRoom() {
	full := s.full
	s.full = nil
	for _, c := range full {
		s.env.Later(func() { s.attempt(c) })
	}
}

// wakeCaller ends the wait of a caller for a grant.
func (s *callers) wakeCaller(m *Message, how route.Outcome) {
	c := s.calls[callerKey{m.Entity, m.Caller}]
	c.waiter = nil
	if how != route.Retry {
		s.endCall(c)
		return
	}
	s.env.Later(func() { s.attempt(c) })
}
