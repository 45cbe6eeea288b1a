package activation

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/peerage-go/peerage/internal/failure"
)

// TimerHandler is sharding.TimerHandler.
type TimerHandler[C any] interface {
	// OnTimer is called, through the mailbox, when the timer name has expired.
	OnTimer(ctx C, name string) error
}

// ReceiveTimeout is the name with which OnTimer is called when no message came for the
// duration that was passed to Context.ReceiveTimeout.
const ReceiveTimeout = "receive time-out"

// TimersMax is how many timers an instance may have.
const TimersMax = 64

// After sets a timer, in place of an earlier one of that name: OnTimer is called once, after
// d. It fails with failure.Timer. In OnStop it does nothing.
func (c *Context) After(name string, d time.Duration) error {
	return c.setTimer(name, d, 0)
}

// Every is After for a timer that expires every d, until Cancel.
func (c *Context) Every(name string, d time.Duration) error {
	return c.setTimer(name, d, d)
}

// setTimer does nothing in OnStop: the timer would end with the instance, and a detached
// instance would set it for its successor.
func (c *Context) setTimer(name string, after, every time.Duration) error {
	s := c.info()
	if s == nil {
		return failure.ContextEnded
	}
	if c.ends {
		return nil
	}
	return s.ops.setTimer(c.id, name, after, every)
}

// Cancel clears a timer, if it is set.
func (c *Context) Cancel(name string) {
	if s := c.mustInfo("Cancel"); !c.ends {
		s.ops.cancelTimer(c.id, name)
	}
}

// ReceiveTimeout makes OnTimer be called with the name ReceiveTimeout whenever no message
// was handled for d; 0 turns it off.
func (c *Context) ReceiveTimeout(d time.Duration) error {
	if c.info() == nil {
		return failure.ContextEnded
	}
	if d == 0 {
		c.Cancel(ReceiveTimeout)
		return nil
	}
	return c.Every(ReceiveTimeout, d)
}

// timer is one timer of an instance. It belongs to the shard's mutex.
type timer struct {
	name string
	// every is 0 for one-shot timers.
	every time.Duration
	clock *time.Timer
	// queued: a message for it is in the mailbox.
	queued bool
	// stopped timers are ignored. Invariant: all timers of an instance that has ended are
	// stopped.
	stopped bool
	// begins: the message is ForStart, not a timer.
	begins bool
}

func (t *timer) stopClock() {
	t.stopped = true
	t.clock.Stop()
}

func (s *Shard[C, Req, Resp]) setTimer(id, name string, after, every time.Duration) error {
	if after <= 0 {
		return fmt.Errorf("%w: %q after %v", failure.Timer, name, after)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.entities.Find(id)
	if in == nil || s.stopping != nil {
		// It would be stopped immediately.
		return nil
	}
	x := in.needCold()
	if old := x.timers[name]; old != nil {
		old.stopClock()
	} else if len(x.timers) >= TimersMax {
		return fmt.Errorf("%w: %d are set already", failure.Timer, TimersMax)
	}
	if x.timers == nil {
		x.timers = map[string]*timer{}
	}
	t := &timer{name: name, every: every}
	x.timers[name] = t
	if name == ReceiveTimeout {
		in.flags.Or(flagListens)
	}
	t.clock = time.AfterFunc(after, func() { s.fire(in, t) })
	return nil
}

func (s *Shard[C, Req, Resp]) cancelTimer(id, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.entities.Find(id); in != nil && in.cold != nil {
		in.dropTimer(name)
	}
}

// dropTimer is called with the mutex.
func (in *instance[C, Req, Resp]) dropTimer(name string) {
	x := in.cold
	if t := x.timers[name]; t != nil {
		t.stopClock()
		delete(x.timers, name)
	}
	if name == ReceiveTimeout {
		in.flags.And(^flagListens)
	}
}

// stopTimers is called with the mutex.
func (in *instance[C, Req, Resp]) stopTimers() {
	if x := in.cold; x != nil {
		for name := range x.timers {
			in.dropTimer(name)
		}
	}
}

// fire puts an expired timer into the mailbox.
func (s *Shard[C, Req, Resp]) fire(in *instance[C, Req, Resp], t *timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.stopped { // as all are once the shard is gone
		return
	}
	if rest := in.quiet(t); rest > 0 {
		t.clock.Reset(rest)
		return
	}
	if t.every > 0 {
		t.clock.Reset(t.every)
	}
	if t.queued {
		return
	}
	t.queued = true
	if in.mailbox == nil {
		in.mailbox = s.mailboxes.borrow()
	}
	in.mailbox.msgs = append(in.mailbox.msgs, Message[Req]{rare: &rareFields{timer: t}})
	if in.state == resting {
		s.startInstance(in)
	}
}

// quiet returns the rest of the receive time-out, 0 for other timers; called with the
// mutex.
func (in *instance[C, Req, Resp]) quiet(t *timer) time.Duration {
	if t.name != ReceiveTimeout {
		return 0
	}
	return t.every - time.Since(in.cold.lastHandled)
}

// isDue reports whether a timer that came out of the mailbox is still set.
func (r *runner[C, Req, Resp]) isDue(t *timer) bool {
	if t.begins {
		return true
	}
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	t.queued = false
	if t.stopped || r.in.quiet(t) > 0 {
		return false
	}
	if t.every == 0 {
		r.in.dropTimer(t.name)
	}
	return true
}

// onTimer calls the entity.
func (r *runner[C, Req, Resp]) onTimer(name string) error {
	h, ok := r.in.ent.(TimerHandler[C])
	err := fmt.Errorf("%T sets timers and has no OnTimer", r.in.ent)
	if ok {
		err = appError(h.OnTimer(r.user, name))
	}
	if err != nil {
		r.shard.host.failures.logError(r.logger(), slog.LevelWarn, "sharding: timer failed", err, "timer", name)
	}
	return err
}

// noteHandled records, for the receive time-out, that a message was handled.
func (r *runner[C, Req, Resp]) noteHandled() {
	s := r.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := r.in.cold; x != nil {
		x.lastHandled = time.Now()
	}
}
