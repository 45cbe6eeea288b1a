// Package eventqueue holds the queue in front of a goroutine that drives a core.
package eventqueue

import "sync"

// FramesMax bounds the frames that wait in a Queue.
const FramesMax = 4096

// Queue holds the events of one core until its goroutine takes them. Adding an event never
// blocks. Events of this node are never dropped: the numbers of shards, views and entities
// bound them. Frames of other nodes are dropped above FramesMax: the protocols retransmit
// them. All methods are safe for concurrent use.
type Queue struct {
	// join is nil if events are never joined.
	join   func(last any, ev any) (joined any, ok bool)
	signal chan struct{}

	mu     sync.Mutex
	events []any
	frames int
	closed bool
}

// New returns an empty Queue. If join is not nil, it is called with the newest waiting event
// and the one to add. If it returns true, its result replaces both.
func New(join func(last any, ev any) (joined any, ok bool)) *Queue {
	return &Queue{join: join, signal: make(chan struct{}, 1)}
}

// Put adds an event and reports whether the queue was open.
func (q *Queue) Put(ev any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.addLocked(ev)
}

// PutFrame adds a message of another node and reports whether there was room.
func (q *Queue) PutFrame(m any) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.frames >= FramesMax {
		return false
	}
	q.frames++
	return q.addLocked(m)
}

// addLocked is called with the mutex held.
func (q *Queue) addLocked(ev any) bool {
	if q.closed {
		return false
	}
	if !q.joined(ev) {
		q.events = append(q.events, ev)
	}
	q.Wake()
	return true
}

// joined is called with the mutex.
func (q *Queue) joined(ev any) bool {
	if q.join == nil || len(q.events) == 0 {
		return false
	}
	last := &q.events[len(q.events)-1]
	both, ok := q.join(*last, ev)
	if ok {
		*last = both
	}
	return ok
}

// Wake makes Ready readable, without an event.
func (q *Queue) Wake() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Ready returns the channel that is readable after Put, PutFrame, Wake or CloseWith. One read
// covers all calls before it.
func (q *Queue) Ready() <-chan struct{} { return q.signal }

// Take returns all waiting events, oldest first. The queue reuses the memory of into for the
// next events.
func (q *Queue) Take(into []any) []any {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.events
	q.events, q.frames = into[:0], 0
	return taken
}

// Close rejects all further events. Waiting events stay.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
}

// CloseWith closes the queue and makes ev its last event.
func (q *Queue) CloseWith(ev any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.events = append(q.events, ev)
	q.Wake()
}
