package activation

import "github.com/peerage-go/peerage/internal/failure"

// Stash sets the current message aside until Unstash.
func (c *Context) Stash() error {
	s := c.info()
	if s == nil {
		return failure.ContextEnded
	}
	if !c.message {
		return failure.Stash
	}
	if err := s.ops.roomToStash(c.id); err != nil {
		return err
	}
	c.stash = true
	return nil
}

// Unstash moves all stashed messages to the head of the mailbox, behind control messages,
// once the current call has ended.
func (c *Context) Unstash() {
	c.mustInfo("Unstash")
	c.unstash = true
}

func (s *Shard[C, Req, Resp]) roomToStash(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.entities.Find(id); in != nil && in.cold != nil && len(in.cold.stash) >= s.host.cfg.Mailbox {
		return failure.StashFull
	}
	return nil
}

// setAside carries out the orders of m's handler to stash and unstash, and reports
// whether m was stashed.
func (r *runner[C, Req, Resp]) setAside(m *Message[Req], failed bool) bool {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return false
	}
	x := r.in.needCold()
	if r.ctx.unstash {
		stash := x.stash
		x.stash = nil
		r.insertNext(stash)
	}
	if !r.ctx.stash || failed {
		return false
	}
	x.stash = append(x.stash, *m)
	return true
}

// insertNext puts messages at the head of the rest of the batch, behind control messages;
// called with the mutex.
func (r *runner[C, Req, Resp]) insertNext(msgs []Message[Req]) {
	r.batch.insertAt(max(r.next, r.batch.control), msgs)
	r.recount()
}

// recount updates the counts of the batch that senders read; called with the mutex.
func (r *runner[C, Req, Resp]) recount() {
	n := len(r.batch.msgs)
	r.in.taken = uint32(n - max(r.next, r.batch.control))
	r.in.left.Store(int32(n - r.next))
}

// stashed reports whether messages are stashed; called with the mutex.
func (in *instance[C, Req, Resp]) stashed() bool { return in.cold != nil && len(in.cold.stash) > 0 }
