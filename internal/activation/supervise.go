package activation

import (
	"fmt"
	"runtime/debug"
	"time"
)

// onPanic applies the type's Supervision.
func (r *runner[C, Req, Resp]) onPanic(v any) error {
	h, s := r.shard.host, r.shard
	h.cfg.Counters.Panicked.Add(1)
	what := whatPanicked(v)
	r.logger().Error("sharding: handler panicked", "panic", what, "stack", string(debug.Stack()))
	err := &PanicError{Value: what}
	sup := h.cfg.Supervision
	if sup.OnPanic == Resume && r.in.ent != nil {
		return err
	}
	r.in.ent, r.broken = nil, true
	r.in.flags.And(^flagBegun)
	s.mu.Lock()
	if s.gone.Load() {
		s.mu.Unlock()
		return err
	}
	if sup.BackoffMin > 0 {
		r.in.needCold().startBackoff(sup, time.Now())
	}
	if sup.OnPanic != Stop {
		if s.stopping == nil {
			r.insertNext(r.in.endActivation())
		} else {
			s.unloadInstance(r.in)
		}
		s.mu.Unlock()
		return err
	}
	lost := append(r.in.endActivation(), r.batch.msgs[r.next:]...)
	clear(r.batch.msgs[r.next:])
	r.batch.msgs = r.batch.msgs[:r.next]
	r.batch.control = min(r.batch.control, r.next)
	if b := r.in.mailbox; b != nil {
		lost = append(lost, b.msgs...)
		s.mailboxes.giveBack(b)
		r.in.mailbox = nil
	}
	r.recount()
	s.mu.Unlock()
	s.failMessages(lost, err)
	return err
}

// whatPanicked describes the result of recover; after runtime.Goexit that is nil.
func whatPanicked(v any) string {
	if v == nil {
		return "the call ended its goroutine"
	}
	return fmt.Sprint(v)
}

// startBackoff counts a panic and sets the end of the pause; called with the mutex.
func (x *coldState[C, Req, Resp]) startBackoff(sup Supervision, now time.Time) {
	if now.Sub(x.rested) > sup.BackoffMax {
		x.panics = 0
	}
	x.panics++
	x.until = now.Add(sup.Pause(x.panics))
	x.rested = x.until
}

// startPause pauses an instance after a panic, if supervision requires it; called with
// the mutex. A stop does not wait for pauses.
func (s *Shard[C, Req, Resp]) startPause(in *instance[C, Req, Resp]) bool {
	x := in.cold
	if x == nil || x.until.IsZero() || s.stopping != nil {
		return false
	}
	d := time.Until(x.until)
	x.until = time.Time{}
	if d <= 0 {
		return false
	}
	in.state = holding
	x.hold = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.endPause(in)
	})
	return true
}

// endPause ends a pause; called with the mutex.
func (s *Shard[C, Req, Resp]) endPause(in *instance[C, Req, Resp]) {
	if in.state == holding && !s.gone.Load() {
		in.state = running
		in.cold.hold.Stop()
		s.queue.pushTask(s, in, nil, false)
	}
}
