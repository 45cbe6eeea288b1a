package entity

import "context"

// WaitRoom blocks until the entity's mailbox may have room for m, or the shard takes
// nothing more, or ctx ends; then it returns the context's error. Who is woken may
// find the mailbox full again.
func (s *Shard[Req, Resp]) WaitRoom(ctx context.Context, id string, m *Message[Req]) error {
	control := s.host.cfg.Control != nil && s.isControl(m)
	s.mu.Lock()
	in := s.entities[id]
	if in == nil || s.stopping != nil {
		s.mu.Unlock()
		return nil
	}
	// The runner tells how much is left and then looks at the flag, without the mutex: who
	// set the flag after looking would miss the last message's beginning.
	in.flags.Or(flagWaited)
	if !in.full(s.host.cfg.Mailbox, control) {
		s.mu.Unlock()
		return nil
	}
	if control {
		in.flags.Or(flagUrgent)
	}
	ch := s.waiters[in]
	if ch == nil {
		if s.waiters == nil {
			s.waiters = map[*instance[Req, Resp]]chan struct{}{}
		}
		ch = make(chan struct{})
		s.waiters[in] = ch
	}
	s.mu.Unlock()
	select {
	case <-ch:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wake lets those who wait for room look again; called with the mutex.
func (s *Shard[Req, Resp]) wake(in *instance[Req, Resp]) {
	if !in.has(flagWaited) {
		return
	}
	in.flags.And(^(flagWaited | flagUrgent))
	if ch := s.waiters[in]; ch != nil {
		close(ch)
		delete(s.waiters, in)
	}
}

// wakeAll is wake for every instance; called with the mutex.
func (s *Shard[Req, Resp]) wakeAll() {
	for _, ch := range s.waiters {
		close(ch)
	}
	s.waiters = nil
}

// wakeEarly wakes those who wait for room when more than a quarter of the mailbox is free,
// not when the batch is worked off: they fill the next one meanwhile. It looks every
// sixteenth of a mailbox, before the handler, which may take long.
func (r *runner[Req, Resp]) wakeEarly() {
	most := r.shard.host.cfg.Mailbox
	if !r.in.has(flagWaited) || r.next%max(most/16, 1) != 0 {
		return
	}
	s := r.shard
	s.mu.Lock()
	r.recount()
	if !r.in.full(most-most/4, false) || r.in.has(flagUrgent) && !r.in.full(most-most/4, true) {
		s.wake(r.in)
	}
	s.mu.Unlock()
}
