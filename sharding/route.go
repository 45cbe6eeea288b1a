package sharding

import (
	"sync"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/core/flow"
)

// route is the way to one shard; docs/architecture/ask.md shows its place in an Ask.
//
// # Order
//
// G3 asks that messages of one sender to one entity are handled in the order they
// were sent. A sender waits for each call to return, so it is enough that every
// message that leaves, leaves behind all that were taken in earlier, and that what
// left on an old way is out of the game before the next leaves on a new one.
//
//  1. Everything happens under mu: looking at the state, queueing on the
//     connection, appending to the buffer, closing, opening. A message either left
//     before a close, and stands before the marker on the connection, or is in the
//     buffer behind all that were there.
//
//  2. Nothing leaves directly while the buffer holds anything: it queues up behind.
//
//  3. Closing with a marker queues the marker in the same critical section. Its
//     answer says that all before it is in mailboxes, or has been refused.
//
//  4. A refused message goes back to the head of the buffer only if everything that
//     left behind it was refused too. To know that, the route closes at the first
//     refusal, sends a marker of its own (settle) to the node that refused, and
//     sorts what came back when the answer comes: connections keep order, so by then
//     every refusal has come. Until then nothing leaves. It does the same when it is
//     turned to another home without having been closed.
//
//  5. When the connection to the home breaks, what was on it may or may not have
//     arrived, and nothing of it comes back. The route keeps its home and waits
//     (suspended) until a new connection stands, or the home changes. The receiver
//     takes nothing more from the old connection once the new one stands.
//
//  6. The home grants how many messages may leave (package flow). A message without a grant
//     waits: in the buffer if it stood there, else with its caller, behind the buffer and
//     in the order of arrival among its class. Handlers have some room of their own, and
//     take turns with callers from outside for the rest. While the home has sent a stop for
//     an entity, callers for that entity wait at a gate of its own, in the order of
//     arrival; what stands in the buffer leaves.
//
// Local delivery goes past the mutex: senders find the running shard through an
// atomic pointer, which is set only while the buffer is empty, and cleared at the
// close. A sender that fetched the pointer just before the close still delivers to
// that shard object, or is refused by it and comes here: both keep its own order,
// since it sends one message at a time.
//
// A lock per shard suffices, where a lock per connection would also do: order is only
// promised per entity, and senders to different shards do not meet.
//
// The fields that every message reads stand first, so that they share cache lines.
type route struct {
	mu    sync.Mutex
	shard ShardID
	open  bool
	// suspended: open, but the connection to the home is down.
	suspended bool
	// flushing: a goroutine works the buffer off, waiting for room on the connection.
	flushing bool
	// asked: the shell knows that messages wait here for a home.
	asked  bool
	home   view.NodeID
	token  Token
	settle settling
	// window counts the messages that left for the shard, and bounds them.
	window flow.Window
	// buf holds what waits. Invariant: its count and bytes are in router.held.
	buf []item
	// gates are the entities that the home has stopped senders for, nil while there are none.
	gates map[string]*gate
	// held are the callers that wait for a grant.
	held heldCallers
	// blocked: the window is used up, and a blocked frame was sent to the home.
	blocked bool
	bytes   int
	// since is when the oldest in the buffer came.
	since time.Time
	// back holds what was refused, in the order of numbers.
	back []item
}

// item is an encoded request in a buffer.
type item struct {
	frame []byte
	// id is the entity's, for those that may have to wait for it.
	id string
	// control: it is a control message. handler: a handler sends it; itself: to its own
	// entity.
	control, handler, itself bool
	// call is 0 for a tell. expires is the asker's deadline, zero for none.
	call    uint64
	expires time.Time
	// number is that under which it was refused.
	number uint64
	// returned marks what has been refused before.
	returned bool
}

// class returns the class of the request, which decides how much room it finds.
func (it *item) class() flow.Class {
	switch {
	case it.control:
		return flow.Control
	case it.handler && !it.itself:
		return flow.Handler
	}
	return flow.Ordinary
}

// settling is the wait for the answer to a route's own marker.
type settling struct {
	owner view.NodeID
	// token is {0, n}: the coordinator's markers have a term.
	token Token
}

func (s settling) waiting() bool { return s.owner != 0 }

// free reports whether a message may leave now, ahead of nothing.
func (r *route) free() bool {
	return r.open && !r.suspended && !r.settle.waiting() && len(r.buf) == 0 && !r.flushing
}

// state names the route's state for queries; called with the mutex.
func (r *route) state(self view.NodeID) string {
	switch {
	case r.home == 0:
		return "unknown"
	case !r.open:
		return "closed"
	case r.suspended:
		return "suspended"
	case r.blocked:
		return "held up"
	case r.home == self:
		return "local"
	}
	return "remote"
}

// sortReturned splits what was refused into what may go back to the head of the
// buffer and what must be given up because something behind it was taken: the
// longest run of consecutive numbers that ends at the last one sent goes back.
func sortReturned(back []item, sent uint64) (again, lost []item) {
	from := len(back)
	for want := sent; from > 0 && back[from-1].number == want; want-- {
		from--
	}
	return back[from:], back[:from]
}
