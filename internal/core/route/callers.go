package route

import (
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/core/flow"
)

// This file delays the callers for one entity, while those for the other entities of its shard
// continue: the sender's side of flow.Account's notices.
//
// The home sends a stop when it parks the first message of this node for an entity, and an open
// when it holds none any longer. Meanwhile callers for the entity wait at its gate, in the
// order of arrival. Handlers wait there only while the home has no room for messages of
// handlers either. When the gate opens, its callers join the end of the route's queue, and
// leave as the window permits: later callers do not pass them. The first admittedMost leave
// even if the home sends a further stop meanwhile, so that a window of messages does not
// compete with callers on other nodes in the name of a thousand callers here. Control messages
// pass gates. So do messages in the buffer, which have a promise of room.
//
// A stop belongs to a connection and a token. When either ends, so do the gates; the home
// repeats the stop if it still applies.

// admittedMost callers leave when a gate opens, even if the home stops them again.
const admittedMost = 1024

// callers are those of one route that wait for a grant, or at the gate of their entity.
type callers[M any] struct {
	// queues wait for a grant, by class.
	queues [flow.Control + 1]waiterQueue[M]
	// gates are the entities that the home has stopped senders for, nil while there are none.
	gates map[string]*gate[M]
}

// gate holds the callers for one entity back.
type gate[M any] struct {
	// lowest is the lowest class whose messages may leave.
	lowest flow.Class
	held   [flow.Handler + 1]waiterQueue[M]
}

// areWaiting reports whether callers wait for a grant.
func (c *callers[M]) areWaiting() bool {
	return c.queues[flow.Ordinary].first != nil || c.queues[flow.Handler].first != nil || c.queues[flow.Control].first != nil
}

// nextCaller returns the caller whose message leaves next, nil if the window permits none. turn
// is the class served next, of ordinary messages and those of handlers.
func (c *callers[M]) nextCaller(w *flow.Window, turn *flow.Class) *Waiter[M] {
	for _, class := range [...]flow.Class{flow.Control, *turn, flow.Handler - *turn} {
		first := c.queues[class].first
		if first == nil || !w.MayLeave(class) {
			continue
		}
		if class != flow.Control {
			*turn = flow.Handler - class
		}
		return first
	}
	return nil
}

// gateOf returns the queue of the gate where a message has to wait, nil if there is none.
func (c *callers[M]) gateOf(it *Item[M]) *waiterQueue[M] {
	if len(c.gates) == 0 {
		return nil
	}
	if g := c.gates[it.ID]; g != nil && it.Class < g.lowest {
		return &g.held[it.Class]
	}
	return nil
}

// setGate lets messages for the entity id leave if their class is lowest or above, and reports
// whether callers may leave that waited at the gate.
func (c *callers[M]) setGate(id string, lowest flow.Class, due *agenda[M]) (opened bool) {
	g := c.gates[id]
	if g == nil {
		if lowest == flow.Open || len(c.gates) >= flow.SlowMost {
			return false
		}
		if c.gates == nil {
			c.gates = map[string]*gate[M]{}
		}
		g = &gate[M]{lowest: flow.Open}
		c.gates[id] = g
	}
	for class := range flow.Control {
		was, is := class < g.lowest, class < lowest
		if is && !was {
			c.queues[class].moveTo(&g.held[class], id)
		} else if was && !is {
			c.queues[class].admitCallers(&g.held[class])
			opened = true
		}
	}
	if g.lowest = lowest; lowest == flow.Open {
		delete(c.gates, id)
		due.freeEntity(id)
	}
	return opened
}

// moveTo moves the callers for an entity to its gate.
func (q *waiterQueue[M]) moveTo(gate *waiterQueue[M], id string) {
	for w, next := q.first, (*Waiter[M])(nil); w != nil; w = next {
		if next = w.next; w.Item.ID == id && !w.admitted {
			q.removeWaiter(w)
			gate.pushWaiter(w)
		}
	}
}

// admitCallers moves the callers at a gate that opens to the end of the queue.
func (q *waiterQueue[M]) admitCallers(gate *waiterQueue[M]) {
	for n := 0; gate.first != nil; n++ {
		w := gate.first
		gate.removeWaiter(w)
		w.admitted = n < admittedMost
		q.pushWaiter(w)
	}
}

// retryHeld makes the callers that wait for a grant offer their messages again.
func (c *callers[M]) retryHeld(due *agenda[M]) {
	for i := range c.queues {
		due.retryAll(&c.queues[i])
	}
}

// releaseAll makes all callers offer their messages again, and discards the gates.
func (c *callers[M]) releaseAll(due *agenda[M]) {
	c.retryHeld(due)
	for _, id := range c.gateIDs() {
		g := c.gates[id]
		for i := range g.held {
			due.retryAll(&g.held[i])
		}
		due.freeEntity(id)
	}
	c.gates = nil
}

// gateIDs returns the entities with a gate, sorted.
func (c *callers[M]) gateIDs() []string {
	if len(c.gates) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(c.gates))
}
