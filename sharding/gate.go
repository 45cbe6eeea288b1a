package sharding

import (
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/reliable"
)

// This file holds up the callers for one entity, while those for the others of its shard go
// on: the sender's side of flow.Account's notices.
//
// The home says stop when the first message of this node is parked for an entity, and open
// when none is parked any longer. Meanwhile callers for the entity wait at its gate, in the
// order of arrival. Handlers wait there only while the home has no room for messages of
// handlers either. When the gate opens, its callers go to the end of the route's queue, and
// leave as the window lets them: callers that come later do not pass them. The first admittedMost leave even
// if the home says stop again meanwhile, so that a window of messages does not compete with
// callers on other nodes in the name of a thousand callers here. Control messages, and what
// stands in the buffer, which was promised room, pass gates.
//
// A stop belongs to a connection and a token: when either ends, so do the gates, and the
// home says stop again if it has to.

// admittedMost callers leave when a gate opens, whatever the home says next.
const admittedMost = 1024

// gate holds the callers for one entity back.
type gate struct {
	// first is the lowest class whose messages may leave.
	first flow.Class
	held  [flow.Handler + 1]heldQueue
}

// gateOf returns the queue of the gate where a message has to wait, nil if there is none;
// called with the mutex.
func (r *route) gateOf(it *item) *heldQueue {
	if len(r.gates) == 0 {
		return nil
	}
	class := it.class()
	if g := r.gates[it.id]; g != nil && class < g.first {
		return &g.held[class]
	}
	return nil
}

// setGate sets the gate of an entity: messages of classes from first on may leave; called
// with the mutex.
func (r *router) setGate(inc *incarnation, rt *route, id string, first flow.Class) {
	g := rt.gates[id]
	if g == nil {
		if first == flow.Open || len(rt.gates) >= flow.SlowMost {
			return
		}
		if rt.gates == nil {
			rt.gates = map[string]*gate{}
		}
		g = &gate{first: flow.Open}
		rt.gates[id] = g
		r.counters.gates.Add(1)
	}
	opened := false
	for class := range flow.Control {
		was, is := class < g.first, class < first
		if is && !was {
			rt.held.queues[class].moveTo(&g.held[class], id)
		} else if was && !is {
			rt.admitCallers(&g.held[class], class)
			opened = true
		}
	}
	if g.first = first; first == flow.Open {
		r.dropGate(rt, id)
		r.announce(reliable.Freed{Shard: rt.shard, ID: id})
	}
	if opened {
		r.flow(inc, rt)
	}
}

// moveTo moves the callers for an entity to its gate.
func (q *heldQueue) moveTo(gate *heldQueue, id string) {
	for h, next := q.first, (*heldUp)(nil); h != nil; h = next {
		if next = h.next; h.it.id == id && !h.admitted {
			q.remove(h)
			gate.push(h)
		}
	}
}

// admitCallers lets the callers at a gate that opens wait for the window; called with the mutex.
func (r *route) admitCallers(gate *heldQueue, class flow.Class) {
	for n := 0; gate.first != nil; n++ {
		h := gate.first
		gate.remove(h)
		h.admitted = n < admittedMost
		r.held.queues[class].push(h)
	}
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
		for i := range gate.held {
			r.sendAway(rt, &gate.held[i])
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
	if rt.home == from && rt.token == s.token && from != inc.self && rt.open && !rt.suspended && !rt.settle.waiting() {
		r.setGate(inc, rt, string(s.id), s.gate)
	}
}

func (s *service) handleStop(from view.NodeID, frame []byte) error {
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
func (s *service) handleStopped(from view.NodeID, frame []byte) error {
	m, err := parseStopped(frame)
	if err != nil {
		return err
	}
	p, inc, err := findShard(s, m.typ, m.shard)
	if p == nil {
		return err
	}
	if inc == nil || inc.accounts == nil || p.hosted(m.shard) != m.token {
		s.out.send(from, appendStop(nil, string(m.typ), m.shard, m.token, string(m.id), flow.Open))
		return nil
	}
	inc.accounts.sender(from).answerStopped(m.shard, m.token, string(m.id))
	return nil
}
