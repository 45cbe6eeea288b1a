package activation

import (
	"fmt"
	"runtime/debug"
	"time"
)

// Directive says what becomes of an instance whose handler panicked. Whatever it
// says, the message that was in hand fails with ErrPanicked.
type Directive uint8

const (
	// Restart throws the instance away. What waits is for a new one.
	Restart Directive = iota
	// Resume keeps the instance as the panic left it.
	Resume
	// Stop throws the instance away, and what waits fails with ErrPanicked too. A
	// message that comes later meets a new instance.
	Stop
)

// Supervision is sharding.Supervision, which documents its fields. The zero value restarts
// immediately.
type Supervision struct {
	OnPanic                Directive
	BackoffMin, BackoffMax time.Duration
}

// Validate returns an error if a setting is invalid.
func (v Supervision) Validate() error {
	if v.OnPanic > Stop || v.BackoffMin < 0 || v.BackoffMax < v.BackoffMin {
		return fmt.Errorf("supervision wants a known directive and 0 <= BackoffMin <= BackoffMax, is %+v", v)
	}
	return nil
}

// Pause returns the pause after this many panics in a row.
func (v Supervision) Pause(panics uint32) time.Duration {
	d := v.BackoffMin
	for ; panics > 1 && d < v.BackoffMax; panics-- {
		d *= 2
	}
	return min(d, v.BackoffMax)
}

// panicked does what the type's supervision says.
func (r *runner[C, Req, Resp]) panicked(v any) error {
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
		r.in.more().pause(sup, time.Now())
	}
	if sup.OnPanic != Stop {
		if s.stopping == nil {
			r.insert(r.in.bare())
		} else {
			s.unload(r.in)
		}
		s.mu.Unlock()
		return err
	}
	lost := append(r.in.bare(), r.batch.msgs[r.next:]...)
	clear(r.batch.msgs[r.next:])
	r.batch.msgs = r.batch.msgs[:r.next]
	r.batch.control = min(r.batch.control, r.next)
	if b := r.in.box; b != nil {
		lost = append(lost, b.msgs...)
		s.giveBox(b)
		r.in.box = nil
	}
	r.recount()
	s.mu.Unlock()
	s.fail(lost, err)
	return err
}

// whatPanicked names what recover has returned; runtime.Goexit leaves nothing there.
func whatPanicked(v any) string {
	if v == nil {
		return "the call ended its goroutine"
	}
	return fmt.Sprint(v)
}

// pause notes a panic; called with the mutex.
func (x *extra[C, Req, Resp]) pause(sup Supervision, now time.Time) {
	if now.Sub(x.rested) > sup.BackoffMax {
		x.panics = 0
	}
	x.panics++
	x.until = now.Add(sup.Pause(x.panics))
	x.rested = x.until
}

// held lets an instance pause after a panic, if it must; called with the mutex. A
// stop does not wait for pauses.
func (s *Shard[C, Req, Resp]) held(in *instance[C, Req, Resp]) bool {
	x := in.extra
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
		s.release(in)
	})
	return true
}

// release ends a pause; called with the mutex.
func (s *Shard[C, Req, Resp]) release(in *instance[C, Req, Resp]) {
	if in.state == holding && !s.gone.Load() {
		in.state = running
		in.extra.hold.Stop()
		s.queue().push(s, in, nil, false)
	}
}
