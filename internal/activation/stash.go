package activation

import "errors"

var (
	// ErrStash: there is no message to put aside, outside of Handle.
	ErrStash = errors.New("sharding: no message to stash")
	// ErrStashFull: as many messages were put aside as a mailbox may hold.
	ErrStashFull = errors.New("sharding: stash full")
)

// Stash sets the current message aside until Unstash.
func (c *Context) Stash() error {
	s := c.info()
	if s == nil {
		return ErrContextEnded
	}
	if !c.message {
		return ErrStash
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
	c.live("Unstash")
	c.unstash = true
}

func (s *Shard[C, Req, Resp]) roomToStash(id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.entities[id]; in != nil && in.extra != nil && len(in.extra.stash) >= s.host.cfg.Mailbox {
		return ErrStashFull
	}
	return nil
}

// setAside carries out what the handler of m said of stashing, and reports whether
// m was put aside.
func (r *runner[C, Req, Resp]) setAside(m *Message[Req], failed bool) bool {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone.Load() {
		return false
	}
	x := r.in.more()
	if r.ctx.unstash {
		stash := x.stash
		x.stash = nil
		r.insert(stash)
	}
	if !r.ctx.stash || failed {
		return false
	}
	x.stash = append(x.stash, *m)
	return true
}

// insert puts messages at the head of what is left of the batch, behind control
// messages; called with the mutex.
func (r *runner[C, Req, Resp]) insert(msgs []Message[Req]) {
	r.batch.insert(max(r.next, r.batch.control), msgs)
	r.recount()
}

// recount corrects what senders see of the batch; called with the mutex.
func (r *runner[C, Req, Resp]) recount() {
	n := len(r.batch.msgs)
	r.in.taken = uint32(n - max(r.next, r.batch.control))
	r.in.left.Store(int32(n - r.next))
}

// stashed reports whether anything is put aside; called with the mutex.
func (in *instance[C, Req, Resp]) stashed() bool { return in.extra != nil && len(in.extra.stash) > 0 }
