package activation

import "time"

// parkedLook is the interval of checks for parked instances. A lease may lapse and return
// between two events, and then Resume is not called.
const parkedLook = 20 * time.Millisecond

// parkRun puts the rest of the batch back and ends the run, because the node has no
// lease. It returns false if the lease holds after all, or if the shard was abandoned
// meanwhile: the caller checks both again before the next message. An instance that finds no
// lease under the mutex is parked before the Resume that follows the lease's return.
func (r *runner[C, Req, Resp]) parkRun() bool {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() || s.host.cfg.Alive() {
		return false
	}
	r.putBack()
	r.flushCount()
	s.parkInstance(r.in)
	return true
}

func (s *Shard[C, Req, Resp]) parkInstance(in *instance[C, Req, Resp]) {
	in.state = parked
	s.parked = append(s.parked, in)
	s.host.resumeLater()
}

// putBack makes the rest of the batch the head of the mailbox; called with the mutex.
func (r *runner[C, Req, Resp]) putBack() {
	if r.batch == r.own {
		r.own = r.shard.mailboxes.borrow()
	}
	r.in.putBack(&r.shard.mailboxes, r.batch, r.next)
	r.batch = nil
}

// Resume continues the parked instances: the lease holds again.
func (h *Host[C, Req, Resp]) Resume() {
	for i := range h.shards {
		if s := h.shards[i].Load(); s != nil {
			s.mu.Lock()
			for _, in := range s.parked { // none if the shard is gone
				in.state = running
				queueOf(s).pushTask(s, in, nil, false)
			}
			s.parked = nil
			s.mu.Unlock()
		}
	}
}

// resumeLater starts awaitLease, unless it runs already.
func (h *Host[C, Req, Resp]) resumeLater() {
	if !h.wake.CompareAndSwap(false, true) {
		return
	}
	h.work.Add(1)
	go h.awaitLease()
}

// awaitLease waits until the lease holds again, and resumes, or until the Host is closed.
func (h *Host[C, Req, Resp]) awaitLease() {
	defer h.work.Done()
	h.callEvery(parkedLook, func() bool {
		if !h.cfg.Alive() {
			return true
		}
		// Cleared first: an instance that parks from here on starts awaitLease again.
		h.wake.Store(false)
		h.Resume()
		return false
	})
}
