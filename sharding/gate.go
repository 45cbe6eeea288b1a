package sharding

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/flow"
	"github.com/peerage-go/peerage/sharding/reliable"
)

// This file holds up the callers for one entity, while those for the others of its shard go
// on: the sender's side of flow.Account's notices.
//
// The home says stop when the first message of this node is parked for an entity, and open
// when none is parked any longer. Meanwhile callers for the entity wait at its gate, in the
// order of arrival. When it opens they go to the end of the route's queue, and leave as the
// window lets them: those who come later do not pass them. The first admittedMost leave even
// if the home says stop again meanwhile, so that a window of messages does not compete with
// callers on other nodes in the name of a thousand callers here. Control messages, and what
// stands in the buffer, which was promised room, pass gates.
//
// A stop belongs to a connection and a token: when either ends, so do the gates, and the
// home says stop again if it has to.

// admittedMost callers leave when a gate opens, whatever the home says next.
const admittedMost = 1024

// gateOf returns the queue of the gate where a message has to wait, nil if there is none;
// called with the mutex.
func (r *route) gateOf(it *item) *heldQueue {
	if len(r.gates) == 0 || it.control {
		return nil
	}
	return r.gates[it.id]
}

// stopFor closes the gate of an entity; called with the mutex.
func (r *router) stopFor(rt *route, id string) {
	if rt.gates[id] != nil || len(rt.gates) >= flow.SlowMost {
		return
	}
	if rt.gates == nil {
		rt.gates = map[string]*heldQueue{}
	}
	gate := &heldQueue{}
	rt.gates[id] = gate
	r.counters.gates.Add(1)
	for h, next := rt.held.first, (*heldUp)(nil); h != nil; h = next {
		if next = h.next; h.it.id == id && !h.it.control && !h.admitted {
			rt.held.remove(h)
			gate.push(h)
		}
	}
}

// openFor opens it; called with the mutex.
func (r *router) openFor(inc *incarnation, rt *route, id string) {
	gate := rt.gates[id]
	if gate == nil {
		return
	}
	r.dropGate(rt, id)
	for n := 0; gate.first != nil; n++ {
		h := gate.first
		gate.remove(h)
		h.admitted = n < admittedMost
		rt.held.push(h)
	}
	r.announce(reliable.Freed{Shard: rt.shard, ID: id})
	r.flow(inc, rt)
}

func (r *router) dropGate(rt *route, id string) {
	delete(rt.gates, id)
	r.counters.gates.Add(-1)
}

// release lets all callers that are held up try again, and forgets what the home said of
// its entities: the route has closed, or its connection is down. Called with the mutex.
func (r *router) release(rt *route) {
	r.releaseHeld(rt)
	for id, gate := range rt.gates { // order-free: callers try again, each in its own turn
		r.dropGate(rt, id)
		for h := gate.first; h != nil; h = gate.first {
			r.endHeld(rt, h, errTryAgain)
		}
		r.announce(reliable.Freed{Shard: rt.shard, ID: id})
	}
	rt.gates = nil
}

// askStopped asks the home of a route which of the gates may open; called with the mutex.
func (r *router) askStopped(inc *incarnation, rt *route) {
	for id := range rt.gates { // order-free: one frame each
		_ = inc.send(rt.home, appendStopped(nil, r.name, rt.shard, rt.token, id))
	}
}

// stopped takes what a home says of an entity.
func (r *router) stopped(inc *incarnation, from view.NodeID, s *stopNotice) {
	rt := &r.routes[s.shard]
	rt.mu.Lock()
	defer rt.mu.Unlock()
	switch {
	case rt.home != from || rt.token != s.token || from == inc.self || !rt.open || rt.suspended || rt.settle.waiting():
	case s.open:
		r.openFor(inc, rt, string(s.id))
	default:
		r.stopFor(rt, string(s.id))
	}
}

func (s *Sharding) handleStop(from view.NodeID, frame []byte) error {
	m, err := parseStop(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.typ, m.shard)
	if inc != nil {
		p.base().stopped(inc, from, &m)
	}
	return err
}

// handleStopped answers a sender that asks whether it still has to stop for an entity.
func (s *Sharding) handleStopped(from view.NodeID, frame []byte) error {
	m, err := parseStopped(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.typ, m.shard)
	if p == nil {
		return err
	}
	if inc == nil || inc.accounts == nil || p.hosted(m.shard) != m.token {
		s.out.send(from, appendStop(nil, string(m.typ), m.shard, m.token, string(m.id), true))
		return nil
	}
	inc.accounts.sender(from).answerStopped(m.shard, m.token, string(m.id))
	return nil
}
