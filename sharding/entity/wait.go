package entity

import (
	"context"

	"github.com/peerage-go/peerage/sharding/flow"
)

// waiter is a message that has no room in its mailbox yet: one whose caller waits in
// Await, or one of another node that was parked by DeliverTo.
type waiter[Req any] struct {
	m Message[Req]
	// done takes the outcome for a caller: nil once the message is in the mailbox.
	done chan error
	// ledger accounts for a parked message of so many bytes, which waits for id.
	ledger Ledger
	id     string
	charge flow.Charge
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
	Park(id string, bytes int) (flow.Charge, bool)
	// Unpark is called when it waits no longer.
	Unpark(id string, bytes int, charge flow.Charge)
}

// lane is a queue of waiters in the order of arrival.
type lane[Req any] struct{ first, last *waiter[Req] }

// waitQueue holds the waiters of one mailbox. Control messages have room of their own, so
// they have a lane of their own.
//
// The runner moves the heads of the lanes into the mailbox, in order, whenever it has
// room. Before, each waiter was woken to try again, and callers that had not waited yet
// went first: of 10,000 callers of one entity the luckiest had 1,105 turns, the median 4.
//
// Invariant: while a lane is not empty, messages of its kind are added at its end only.
// An instance at rest has no waiters, for its mailbox is empty.
type waitQueue[Req any] struct{ ordinary, control lane[Req] }

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
func (s *Shard[Req, Resp]) endWait(w *waiter[Req], err error) {
	if w.ledger != nil {
		s.host.cfg.Counters.Parked.Add(-1)
		w.ledger.Unpark(w.id, w.bytes, w.charge)
		return
	}
	s.host.cfg.Counters.Waiting.Add(-1)
	w.done <- err
}

func (q *waitQueue[Req]) lane(control bool) *lane[Req] {
	if control {
		return &q.control
	}
	return &q.ordinary
}

// waits reports whether a message would pass others that wait; called with the mutex.
func (s *Shard[Req, Resp]) waits(in *instance[Req, Resp], control bool) bool {
	q := s.waiters[in]
	return q != nil && q.lane(control).first != nil
}

// Await appends m to the mailbox of the entity id as Deliver does, and waits for room,
// behind those that wait already, until ctx ends: then it returns the context's error. It
// fails with ErrNotHosted when the shard takes nothing more.
func (s *Shard[Req, Resp]) Await(ctx context.Context, id string, m *Message[Req]) error {
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
	if !s.mustWait(in, control) {
		s.clearWaited(in)
		s.enter(nil, in, m, control)
		return nil
	}
	w := &waiter[Req]{m: *m, done: make(chan error, 1)}
	s.enqueue(in, w, control)
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
func (s *Shard[Req, Resp]) park(by *Inlet[Req, Resp], in *instance[Req, Resp], m *Message[Req], control bool, ledger Ledger, bytes int) error {
	in.flags.Or(flagWaited) // see Await
	if !s.mustWait(in, control) {
		s.clearWaited(in)
		s.enter(by, in, m, control)
		return nil
	}
	var charge flow.Charge
	may := false
	if ledger != nil {
		charge, may = ledger.Park(in.id, bytes)
	}
	if !may {
		s.clearWaited(in)
		s.mu.Unlock()
		return ErrMailboxFull
	}
	s.enqueue(in, &waiter[Req]{m: *m, ledger: ledger, id: in.id, charge: charge, bytes: bytes}, control)
	s.host.cfg.Counters.Parked.Add(1)
	s.mu.Unlock()
	return nil
}

// enqueue is called with the mutex.
func (s *Shard[Req, Resp]) enqueue(in *instance[Req, Resp], w *waiter[Req], control bool) {
	q := s.waiters[in]
	if q == nil {
		if s.waiters == nil {
			s.waiters = map[*instance[Req, Resp]]*waitQueue[Req]{}
		}
		q = &waitQueue[Req]{}
		s.waiters[in] = q
	}
	q.lane(control).push(w)
	if control {
		in.flags.Or(flagUrgent)
	}
}

// clearWaited ends the queue of a mailbox if it is empty; called with the mutex.
func (s *Shard[Req, Resp]) clearWaited(in *instance[Req, Resp]) {
	q := s.waiters[in]
	switch {
	case q == nil || q.control.first == nil && q.ordinary.first == nil:
		delete(s.waiters, in)
		in.flags.And(^(flagWaited | flagUrgent))
	case q.control.first == nil:
		in.flags.And(^flagUrgent)
	}
}

// admitWaiters moves the heads of the queue into the mailbox, as far as there is room;
// called with the mutex.
func (s *Shard[Req, Resp]) admitWaiters(in *instance[Req, Resp]) {
	if !in.has(flagWaited) {
		return
	}
	if q := s.waiters[in]; q != nil {
		s.admitLane(in, &q.control, true)
		s.admitLane(in, &q.ordinary, false)
	}
	s.clearWaited(in)
}

// moveWaiters lets those of one mailbox wait for another; called with the mutex.
func (s *Shard[Req, Resp]) moveWaiters(from, to *instance[Req, Resp]) {
	if q := s.waiters[from]; q != nil {
		delete(s.waiters, from)
		s.waiters[to] = q
		to.flags.Or(from.flags.Load() & (flagWaited | flagUrgent))
	}
}

func (s *Shard[Req, Resp]) admitLane(in *instance[Req, Resp], l *lane[Req], control bool) {
	for w := l.first; w != nil && !in.full(s.host.cfg.Mailbox, control); w = l.first {
		w.leave()
		s.add(in, &w.m, control)
		if s.order != nil {
			s.touch(in)
		}
		s.endWait(w, nil)
	}
}

// releaseWaiters ends the waiting for every mailbox: the shard takes nothing more. Callers
// try elsewhere. What was parked counts as delivered and enters the mailbox, full as it
// is: if it were refused, its sender would get back some messages of a run of which others
// were handled. Called with the mutex.
func (s *Shard[Req, Resp]) releaseWaiters() {
	for in, q := range s.waiters { // order-free: each queue is released on its own
		for i, l := range []*lane[Req]{&q.control, &q.ordinary} {
			for w := l.first; w != nil; w = l.first {
				w.leave()
				if w.ledger != nil {
					s.add(in, &w.m, i == 0)
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
func (r *runner[Req, Resp]) admitEarly() {
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
