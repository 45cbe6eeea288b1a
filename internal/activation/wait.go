package activation

import "github.com/peerage-go/peerage/internal/core/flow"

// waiter is a message that has no room in its mailbox yet: one whose caller waits in
// Await, or one of another node that was parked by DeliverTo.
type waiter[Req any] struct {
	m Message[Req]
	// done takes the outcome for a caller: nil once the message is in the mailbox.
	done chan error
	// ledger accounts for a parked message to id, by class and bytes.
	ledger Ledger
	id     string
	class  flow.Class
	pooled bool
	bytes  int
	// lane is where it waits, nil once it has left.
	lane       *waitLane[Req]
	prev, next *waiter[Req]
}

// Ledger accounts for the messages of one sender that wait for room in mailboxes. Its
// methods are called with the mutex of a shard and must not block.
type Ledger interface {
	// Park reports whether one more message may wait for the entity id, and where it is
	// accounted for.
	Park(id string, class flow.Class, bytes int) (pooled, may bool)
	// Unpark is called when it waits no longer.
	Unpark(id string, class flow.Class, bytes int, pooled bool)
}

// lane is a queue of waiters in the order of arrival.
type waitLane[Req any] struct{ first, last *waiter[Req] }

// waitQueue holds the waiters of one mailbox, in a lane for each class of messages.
//
// Control messages have room of their own. Messages of handlers share the mailbox with those
// from outside entities, and the two lanes take turns. Messages of handlers also have a
// reserve beyond the mailbox, of a quarter of its size, so that a handler seldom waits for
// another handler, which may wait for a third. Messages in the reserve count against the
// mailbox like the rest, so neither lane can keep the other one out.
//
// The runner moves the heads of the lanes into the mailbox, in order, whenever it has
// room. Before, each waiter was woken to try again, and callers that had not waited yet
// went first: of 10,000 callers of one entity the luckiest had 1,105 turns, the median 4.
//
// Invariant: while a lane is not empty, messages of its kind are added at its end only.
// An instance at rest has no waiters, for its mailbox is empty.
type waitQueue[Req any] struct {
	lanes [flow.Control + 1]waitLane[Req]
	// turn is the lane that is served next, of ordinary messages and those of handlers.
	turn flow.Class
}

// nextWaiter returns the waiter that enters the common room next, nil if none waits for it.
func (q *waitQueue[Req]) nextWaiter() *waiter[Req] {
	if w := q.lanes[q.turn].first; w != nil {
		return w
	}
	return q.lanes[flow.Handler-q.turn].first
}

// hasWaiters reports whether a message waits.
func (q *waitQueue[Req]) hasWaiters() bool {
	return q.nextWaiter() != nil || q.lanes[flow.Control].first != nil
}

// room is what a message finds in a mailbox.
type room uint8

const (
	noRoom room = iota
	// common is the room of all messages of its kind.
	common
	// reserved is room in the reserve for messages of handlers.
	reserved
)

func (l *waitLane[Req]) pushBack(w *waiter[Req]) {
	w.lane, w.prev = l, l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// leaveLane removes w from its lane.
func (w *waiter[Req]) leaveLane() {
	if w.prev == nil {
		w.lane.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		w.lane.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.lane, w.prev, w.next = nil, nil, nil
}

// classOf returns the class of a message to the entity id. A message of the entity to itself
// may not use the reserve, since it would only be refused later.
func classOf[Req any](m *Message[Req], typ, id string, control bool) flow.Class {
	switch {
	case control:
		return flow.Control
	case m.From == nil || m.From.Type == "" || m.From.ID == id && m.From.Type == typ:
		return flow.Ordinary
	}
	return flow.Handler
}

// waitTable holds the waiters of a shard's mailboxes; it belongs to the shard's mutex.
// Invariant: an instance that is a key of queues has flagWaited.
type waitTable[C, Req, Resp any] struct {
	queues map[*instance[C, Req, Resp]]*waitQueue[Req]
	// cfg has the type, its counters, and the number of messages for which a mailbox has room.
	cfg       *Config[C, Req, Resp]
	mailboxes *mailboxPool[Req]
}

// findRoom returns the room for a message, which must not overtake waiting messages of its
// class.
func (t *waitTable[C, Req, Resp]) findRoom(in *instance[C, Req, Resp], m *Message[Req], control bool) room {
	full := in.isFull(t.cfg.Mailbox, control)
	if !full && !in.hasFlag(flagWaited) {
		return common
	}
	q, c := t.queues[in], classOf(m, t.cfg.Type, in.id, control)
	switch {
	case q != nil && q.lanes[c].first != nil:
		return noRoom
	case !full && (q == nil || c == flow.Control || q.nextWaiter() == nil):
		return common
	case c == flow.Handler && in.hasReserve(t.cfg.Mailbox):
		return reserved
	}
	return noRoom
}

// enqueue adds a waiter at the end of its lane.
func (t *waitTable[C, Req, Resp]) enqueue(in *instance[C, Req, Resp], w *waiter[Req]) {
	q := t.queues[in]
	if q == nil {
		if t.queues == nil {
			t.queues = map[*instance[C, Req, Resp]]*waitQueue[Req]{}
		}
		q = &waitQueue[Req]{}
		t.queues[in] = q
	}
	q.lanes[w.class].pushBack(w)
	if w.class == flow.Control {
		in.flags.Or(flagUrgent)
	}
}

// clearWaited removes the queue of a mailbox if it is empty.
func (t *waitTable[C, Req, Resp]) clearWaited(in *instance[C, Req, Resp]) {
	q := t.queues[in]
	switch {
	case q == nil || !q.hasWaiters():
		delete(t.queues, in)
		in.flags.And(^(flagWaited | flagUrgent))
	case q.lanes[flow.Control].first == nil:
		in.flags.And(^flagUrgent)
	}
}

// admitAll moves the heads of the queue into the mailbox while there is room, and returns the
// number of messages that it moved.
func (t *waitTable[C, Req, Resp]) admitAll(in *instance[C, Req, Resp]) (admitted int) {
	if !in.hasFlag(flagWaited) {
		return 0
	}
	defer t.clearWaited(in)
	q := t.queues[in]
	if q == nil {
		return 0
	}
	for w := q.lanes[flow.Control].first; w != nil && !in.isFull(t.cfg.Mailbox, true); w = q.lanes[flow.Control].first {
		t.admitWaiter(in, w)
		admitted++
	}
	for w := q.nextWaiter(); w != nil && !in.isFull(t.cfg.Mailbox, false); w = q.nextWaiter() {
		q.turn = flow.Handler - w.class
		t.admitWaiter(in, w)
		admitted++
	}
	for w := q.lanes[flow.Handler].first; w != nil && in.hasReserve(t.cfg.Mailbox); w = q.lanes[flow.Handler].first {
		t.admitWaiter(in, w)
		in.mailbox.reserved++
		admitted++
	}
	return admitted
}

// admitWaiter moves a waiter into the mailbox.
func (t *waitTable[C, Req, Resp]) admitWaiter(in *instance[C, Req, Resp], w *waiter[Req]) {
	w.leaveLane()
	in.appendMail(t.mailboxes, &w.m, w.class == flow.Control)
	t.endWait(w, nil)
}

// endWait ends the waiting of w, which has left its lane.
func (t *waitTable[C, Req, Resp]) endWait(w *waiter[Req], err error) {
	if w.ledger != nil {
		t.cfg.Counters.Parked.Add(-1)
		w.ledger.Unpark(w.id, w.class, w.bytes, w.pooled)
		return
	}
	t.cfg.Counters.Waiting.Add(-1)
	w.done <- err
}

// moveQueue moves the waiters of one mailbox to another.
func (t *waitTable[C, Req, Resp]) moveQueue(from, to *instance[C, Req, Resp]) {
	if q := t.queues[from]; q != nil {
		delete(t.queues, from)
		t.queues[to] = q
		to.flags.Or(from.flags.Load() & (flagWaited | flagUrgent))
	}
}

// releaseAll ends the waiting for every mailbox: the shard no longer accepts messages.
// Callers try elsewhere. A parked message counts as delivered and enters the mailbox,
// although it is full: if it were refused, its sender would get back some messages of a
// run whose earlier and later messages were handled.
func (t *waitTable[C, Req, Resp]) releaseAll() {
	for in, q := range t.queues { // order-free: each queue is released on its own
		for i := range q.lanes {
			for w := q.lanes[i].first; w != nil; w = q.lanes[i].first {
				w.leaveLane()
				if w.ledger != nil {
					in.appendMail(t.mailboxes, &w.m, w.class == flow.Control)
				}
				t.endWait(w, ErrNotHosted)
			}
		}
		in.flags.And(^(flagWaited | flagUrgent))
	}
	t.queues = nil
}
