package activation

import "time"

// parkedLook is how often parked instances are looked after in case that a lease
// lapsed and came back between two events, so that nobody called Resume.
const parkedLook = 20 * time.Millisecond

// park puts the rest of the batch back and ends the run, because the node has no
// lease. It returns false when the lease turns out to hold after all: whoever
// finds no lease under the mutex is seen by the Resume that follows its return.
func (r *runner[C, Req, Resp]) park() bool {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() || s.host.cfg.Alive() {
		return false
	}
	r.putBack()
	r.flushCount()
	s.parkLocked(r.in)
	return true
}

func (s *Shard[C, Req, Resp]) parkLocked(in *instance[C, Req, Resp]) {
	in.state = parked
	s.parked = append(s.parked, in)
	s.host.lookLater()
}

// putBack makes what is left of the batch the head of the mailbox, box and all; called
// with the mutex.
func (r *runner[C, Req, Resp]) putBack() {
	if r.batch == r.own {
		r.own = r.shard.takeBox()
	}
	r.shard.putBack(r.in, r.batch, r.next)
	r.batch = nil
}

// putBack makes what is left of b the head of the mailbox; called with the mutex.
func (s *Shard[C, Req, Resp]) putBack(in *instance[C, Req, Resp], b *box[Req], next int) {
	in.taken = 0
	in.left.Store(0)
	b.skip(next)
	if in.box != nil {
		n := in.box.control
		b.insertControl(0, in.box.msgs[:n]...)
		b.msgs = append(b.msgs, in.box.msgs[n:]...)
		b.reserved += in.box.reserved
		s.giveBox(in.box)
	}
	in.box = b
	if len(b.msgs) == 0 {
		s.giveBox(b)
		in.box = nil
	}
}

// Resume lets the parked instances go on: the lease holds again.
func (h *Host[C, Req, Resp]) Resume() {
	for i := range h.shards {
		if s := h.shards[i].Load(); s != nil {
			s.unpark()
		}
	}
}

func (s *Shard[C, Req, Resp]) unpark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return
	}
	for _, in := range s.parked {
		in.state = running
		s.queue().push(s, in, nil, false)
	}
	s.parked = nil
}

// lookLater arranges for a look at the parked instances.
func (h *Host[C, Req, Resp]) lookLater() {
	if !h.wake.CompareAndSwap(false, true) {
		return
	}
	h.work.Add(1)
	go h.look()
}

// look waits until the lease holds again and resumes, or the Host is closed.
func (h *Host[C, Req, Resp]) look() {
	defer h.work.Done()
	h.callEvery(parkedLook, func() bool {
		if !h.cfg.Alive() {
			return true
		}
		// Cleared first: an instance that parks from here on calls for another look.
		h.wake.Store(false)
		h.Resume()
		return false
	})
}
