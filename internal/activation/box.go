package activation

import "slices"

// box is a mailbox's content. Boxes go from instance to instance, so that one at
// rest owns none.
type box[Req any] struct {
	msgs []Message[Req]
	// control of the first msgs are control messages.
	control int
	// reserved is an upper bound of the messages here that entered through the reserve for
	// messages of handlers.
	reserved int
}

const (
	// spareBoxesMax boxes of at most spareRoomMax messages stay with a shard; others
	// go to a pool that the garbage collector empties: a burst must not be paid for
	// with memory for ever.
	spareBoxesMax = 4
	spareRoomMax  = 64
)

// takeBox is called with the mutex.
func (s *Shard[C, Req, Resp]) takeBox() *box[Req] {
	if n := len(s.spare); n > 0 {
		b := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return b
	}
	return s.host.boxes.Get().(*box[Req])
}

// giveBox is called with the mutex.
func (s *Shard[C, Req, Resp]) giveBox(b *box[Req]) {
	b.empty()
	if len(s.spare) < spareBoxesMax && cap(b.msgs) <= spareRoomMax {
		s.spare = append(s.spare, b)
		return
	}
	s.host.boxes.Put(b)
}

// empty drops what is in b.
func (b *box[Req]) empty() {
	clear(b.msgs)
	b.msgs, b.control = b.msgs[:0], 0
	b.reserved = 0
}

// done gives the box of a batch that was worked off back; called with the mutex.
func (r *runner[C, Req, Resp]) done() {
	if r.batch == r.own && cap(r.own.msgs) <= spareRoomMax {
		r.own.empty()
	} else if r.batch == r.own {
		*r.own = box[Req]{}
	} else {
		r.shard.giveBox(r.batch)
	}
	r.batch = nil
}

func (b *box[Req]) insert(at int, msgs []Message[Req]) {
	b.msgs = slices.Insert(b.msgs, at, msgs...)
}

// insertControl puts control messages behind those that are there already, not
// before position at.
func (b *box[Req]) insertControl(at int, msgs ...Message[Req]) {
	at = max(at, b.control)
	b.insert(at, msgs)
	b.control = at + len(msgs)
}

// skip drops the first n messages.
func (b *box[Req]) skip(n int) {
	kept := copy(b.msgs, b.msgs[n:])
	clear(b.msgs[kept:])
	b.msgs = b.msgs[:kept]
	b.control = max(b.control-n, 0)
}

// isControl reports whether the type counts a request as a control message. Callers check
// first that the type has such a function: most have none, and a call costs each message.
// Reliable messages are never control messages: their order is promised. A panic counts as
// false: the reader of a connection may be the caller.
func (s *Shard[C, Req, Resp]) isControl(m *Message[Req]) (control bool) {
	if m.timer() != nil || m.reliableMark() != nil {
		return false
	}
	defer func() {
		if v := recover(); v != nil {
			control = false
			s.host.cfg.Counters.Panicked.Add(1)
		}
	}()
	return s.host.cfg.Control(m.Req)
}

// takeControl moves the control messages that came meanwhile in front of what is
// left of the batch, behind those that are there already. What is done is dropped: as
// long as such messages come faster than they are handled the batch has no end.
func (r *runner[C, Req, Resp]) takeControl() {
	s, in := r.shard, r.in
	s.mu.Lock()
	defer s.mu.Unlock()
	in.flags.And(^flagControl)
	if in.box == nil {
		return
	}
	r.batch.skip(r.next)
	r.next = 0
	n := in.box.control
	r.batch.insertControl(r.next, in.box.msgs[:n]...)
	in.box.skip(n)
	if len(in.box.msgs) == 0 {
		s.giveBox(in.box)
		in.box = nil
	}
	r.recount()
	s.admitWaiters(in)
}
