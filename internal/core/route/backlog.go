package route

import (
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/flow"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// backlog is the part of a Route that only a route uses on which something waits, or is due. A
// route at rest has none, so that a node has room for many. Methods that only look take a nil
// backlog for an empty one.
type backlog[M any] struct {
	settle settling
	buf    []Item[M]
	// bytes is the sum of the items in buf.
	bytes int
	held  callers[M]
	due   agenda[M]

	// leaving is the caller whose message the last Action sends.
	leaving *Waiter[M]
	// back holds refused items, in the order of numbers.
	back []Item[M]
	// marker is the coordinator's, for the connection to owner.
	marker protocol.Token
	owner  gossip.NodeID
}

// needBacklog returns the backlog of the route, a new one if it has none.
func needBacklog[M any](r *Route[M]) *backlog[M] {
	if r.backlog == nil {
		r.backlog = &backlog[M]{}
	}
	return r.backlog
}

// require makes actions due.
func require[M any](r *Route[M], actions actionSet) { needBacklog(r).due.actions |= actions }

// releaseBacklog gives the memory of an empty backlog back. Nothing is due when it is called. A
// blocked route keeps its backlog: its next callers will wait, too.
func releaseBacklog[M any](r *Route[M]) {
	if b := r.backlog; b != nil && !r.blocked && b.isEmpty() {
		r.backlog = nil
	}
}

// isEmpty reports whether nothing waits and nothing is due.
func (b *backlog[M]) isEmpty() bool {
	return b.due.actions == 0 && len(b.buf) == 0 && len(b.back) == 0 && b.leaving == nil &&
		!b.isSettling() && !b.held.areWaiting() && len(b.held.gates) == 0
}

// isSettling reports whether the route waits for the acknowledgement of its own marker.
func (b *backlog[M]) isSettling() bool { return b != nil && b.settle.waiting() }

// settlesWith reports whether the acknowledgement must come from a node.
func (b *backlog[M]) settlesWith(node gossip.NodeID) bool {
	return b != nil && b.settle.owner == node
}

// length returns the number of messages in the buffer.
func (b *backlog[M]) length() int {
	if b == nil {
		return 0
	}
	return len(b.buf)
}

// holdsBack reports whether a message has to wait behind callers, or at the gate of its entity.
func (b *backlog[M]) holdsBack(it *Item[M]) bool {
	return b != nil && (b.held.queues[it.Class].first != nil || b.held.gateOf(it) != nil)
}

// hasGate reports whether the home has stopped senders for an entity.
func (b *backlog[M]) hasGate(id string) bool { return b != nil && b.held.gates[id] != nil }

// callersWait reports whether callers wait for a grant.
func (b *backlog[M]) callersWait() bool { return b != nil && b.held.areWaiting() }

// gateIDs returns the entities with a gate, sorted.
func (b *backlog[M]) gateIDs() []string {
	if b == nil {
		return nil
	}
	return b.held.gateIDs()
}

// firstCaller returns the caller of a class that has waited longest for a grant, nil if none
// waits.
func (b *backlog[M]) firstCaller(class flow.Class) *Waiter[M] {
	if b == nil {
		return nil
	}
	return b.held.queues[class].first
}
