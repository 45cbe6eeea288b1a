package activation

import (
	"context"

	"github.com/peerage-go/peerage/internal/core/flow"
)

// waiter is a message that has no room in its mailbox yet: one whose caller waits in
// Await, or one of another node that was parked by DeliverTo.
type waiter[Req any] struct {
	m Message[Req]
	// done takes the outcome for a caller: nil once the message is in the mailbox.
	done chan error
	// ledger accounts for a parked message of a class and so many bytes, which waits for id.
	ledger Ledger
	id     string
	class  flow.Class
	pooled bool
	bytes  int
	// lane is where it waits, nil once it has left.
	lane       *lane[Req]
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
type lane[Req any] struct{ first, last *waiter[Req] }

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
	lanes [flow.Control + 1]lane[Req]
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

func (l *lane[Req]) push(w *waiter[Req]) {
	w.lane, w.prev = l, l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// leave takes w out of its lane.
func (w *waiter[Req]) leave() {
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

// endWait ends the waiting of w, which has left its lane; called with the mutex.
func (s *Shard[C, Req, Resp]) endWait(w *waiter[Req], err error) {
	if w.ledger != nil {
		s.host.cfg.Counters.Parked.Add(-1)
		w.ledger.Unpark(w.id, w.class, w.bytes, w.pooled)
		return
	}
	s.host.cfg.Counters.Waiting.Add(-1)
	w.done <- err
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

// findRoom returns the room for a message, which must not overtake waiting messages of its
// class; called with the mutex.
func (s *Shard[C, Req, Resp]) findRoom(in *instance[C, Req, Resp], m *Message[Req], control bool) room {
	full := in.full(s.host.cfg.Mailbox, control)
	if !full && !in.has(flagWaited) {
		return common
	}
	q, c := s.waiters[in], classOf(m, s.info.typ, in.id, control)
	switch {
	case q != nil && q.lanes[c].first != nil:
		return noRoom
	case !full && (q == nil || c == flow.Control || q.nextWaiter() == nil):
		return common
	case c == flow.Handler && in.hasReserve(s.host.cfg.Mailbox):
		return reserved
	}
	return noRoom
}

// Await appends m to the mailbox of the entity id as Deliver does, and waits for room,
// behind those that wait already, until ctx ends: then it returns the context's error. It
// fails with ErrNotHosted when the shard takes nothing more.
func (s *Shard[C, Req, Resp]) Await(ctx context.Context, id string, m *Message[Req]) error {
	control := s.host.cfg.Control != nil && s.isControl(m)
	s.mu.Lock()
	in := s.entities[id]
	if in == nil || s.stopping != nil {
		return s.deliverNew(nil, id, m, control)
	}
	// The runner publishes how much is left and then reads the flag, without the mutex. If
	// the flag were set after reading what is left, the last message's beginning would be
	// missed.
	in.flags.Or(flagWaited)
	if room := s.findRoom(in, m, control); room != noRoom {
		s.clearWaited(in)
		s.enter(nil, in, m, control, room)
		return nil
	}
	w := &waiter[Req]{m: *m, done: make(chan error, 1), class: classOf(m, s.info.typ, id, control)}
	s.enqueue(in, w)
	s.host.cfg.Counters.Waiting.Add(1)
	s.mu.Unlock()
	select {
	case err := <-w.done:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	if w.lane == nil {
		s.mu.Unlock()
		return <-w.done
	}
	w.leave()
	s.host.cfg.Counters.Waiting.Add(-1)
	s.mu.Unlock()
	return ctx.Err()
}

// park lets a message of another node wait for room, if its ledger has a place for it;
// called with the mutex, which it gives back.
func (s *Shard[C, Req, Resp]) park(by *Inlet[C, Req, Resp], in *instance[C, Req, Resp], m *Message[Req], control bool, ledger Ledger, bytes int) error {
	in.flags.Or(flagWaited) // see Await
	if room := s.findRoom(in, m, control); room != noRoom {
		s.clearWaited(in)
		s.enter(by, in, m, control, room)
		return nil
	}
	class, pooled, may := classOf(m, s.info.typ, in.id, control), false, false
	if ledger != nil {
		pooled, may = ledger.Park(in.id, class, bytes)
	}
	if !may {
		s.clearWaited(in)
		s.mu.Unlock()
		return ErrMailboxFull
	}
	s.enqueue(in, &waiter[Req]{m: *m, ledger: ledger, id: in.id, class: class, pooled: pooled, bytes: bytes})
	s.host.cfg.Counters.Parked.Add(1)
	s.mu.Unlock()
	return nil
}

// enqueue is called with the mutex.
func (s *Shard[C, Req, Resp]) enqueue(in *instance[C, Req, Resp], w *waiter[Req]) {
	q := s.waiters[in]
	if q == nil {
		if s.waiters == nil {
			s.waiters = map[*instance[C, Req, Resp]]*waitQueue[Req]{}
		}
		q = &waitQueue[Req]{}
		s.waiters[in] = q
	}
	q.lanes[w.class].push(w)
	if w.class == flow.Control {
		in.flags.Or(flagUrgent)
	}
}

// clearWaited ends the queue of a mailbox if it is empty; called with the mutex.
func (s *Shard[C, Req, Resp]) clearWaited(in *instance[C, Req, Resp]) {
	q := s.waiters[in]
	switch {
	case q == nil || !q.hasWaiters():
		delete(s.waiters, in)
		in.flags.And(^(flagWaited | flagUrgent))
	case q.lanes[flow.Control].first == nil:
		in.flags.And(^flagUrgent)
	}
}

// admitWaiters moves the heads of the queue into the mailbox, as far as there is room;
// called with the mutex.
func (s *Shard[C, Req, Resp]) admitWaiters(in *instance[C, Req, Resp]) {
	if !in.has(flagWaited) {
		return
	}
	defer s.clearWaited(in)
	q := s.waiters[in]
	if q == nil {
		return
	}
	for w := q.lanes[flow.Control].first; w != nil && !in.full(s.host.cfg.Mailbox, true); w = q.lanes[flow.Control].first {
		s.admitWaiter(in, w)
	}
	for w := q.nextWaiter(); w != nil && !in.full(s.host.cfg.Mailbox, false); w = q.nextWaiter() {
		q.turn = flow.Handler - w.class
		s.admitWaiter(in, w)
	}
	for w := q.lanes[flow.Handler].first; w != nil && in.hasReserve(s.host.cfg.Mailbox); w = q.lanes[flow.Handler].first {
		s.admitWaiter(in, w)
		in.box.reserved++
	}
}

// admitWaiter moves a waiter into the mailbox; called with the mutex.
func (s *Shard[C, Req, Resp]) admitWaiter(in *instance[C, Req, Resp], w *waiter[Req]) {
	w.leave()
	s.add(in, &w.m, w.class == flow.Control)
	if s.order != nil {
		s.touch(in)
	}
	s.endWait(w, nil)
}

// moveWaiters lets those of one mailbox wait for another; called with the mutex.
func (s *Shard[C, Req, Resp]) moveWaiters(from, to *instance[C, Req, Resp]) {
	if q := s.waiters[from]; q != nil {
		delete(s.waiters, from)
		s.waiters[to] = q
		to.flags.Or(from.flags.Load() & (flagWaited | flagUrgent))
	}
}

// releaseWaiters ends the waiting for every mailbox: the shard takes nothing more. Callers
// try elsewhere. What was parked counts as delivered and enters the mailbox, full as it
// is: if it were refused, its sender would get back some messages of a run of which others
// were handled. Called with the mutex.
func (s *Shard[C, Req, Resp]) releaseWaiters() {
	for in, q := range s.waiters { // order-free: each queue is released on its own
		for i := range q.lanes {
			for w := q.lanes[i].first; w != nil; w = q.lanes[i].first {
				w.leave()
				if w.ledger != nil {
					s.add(in, &w.m, w.class == flow.Control)
				}
				s.endWait(w, ErrNotHosted)
			}
		}
		in.flags.And(^(flagWaited | flagUrgent))
	}
	s.waiters = nil
}

// admitEarly admits waiters when more than a quarter of the mailbox is free, not when the
// batch is worked off: their callers prepare the next messages meanwhile. It looks every
// sixteenth of a mailbox, before the handler, which may take long.
func (r *runner[C, Req, Resp]) admitEarly() {
	most := r.shard.host.cfg.Mailbox
	if !r.in.has(flagWaited) || r.next%max(most/16, 1) != 0 {
		return
	}
	s := r.shard
	s.mu.Lock()
	r.recount()
	if !r.in.full(most-most/4, false) || r.in.has(flagUrgent) && !r.in.full(most-most/4, true) {
		s.admitWaiters(r.in)
	}
	s.mu.Unlock()
}
