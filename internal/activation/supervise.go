package activation

import (
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/peerage-go/peerage/internal/loglimit"
)

// onPanic applies the type's Supervision.
func (r *runner[C, Req, Resp]) onPanic(v any) error {
	h, s := r.shard.host, r.shard
	h.cfg.Counters.Panicked.Add(1)
	what := whatPanicked(v)
	r.shard.host.failures.logPanic(r.logger(), "sharding: handler panicked", what)
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
		queueOf(s).pushTask(s, in, nil, false)
	}
}

// failureLog folds the log lines about failures of entities' code: a handler that fails for each
// message would fill the disk. Of equal failures, it logs one a minute for the type.
type failureLog struct {
	loglimit.Folder
}

// logError logs an error of the entity's code.
func (f *failureLog) logError(to *slog.Logger, level slog.Level, line string, err error, args ...any) {
	f.Log(to, level, line+err.Error(), line, append(args, "error", err)...)
}

// logPanic logs a panic of the entity's code, with its stack. The panicking function has not
// returned yet.
func (f *failureLog) logPanic(to *slog.Logger, line, panicked string) {
	folded, ok := f.Take(line+panicked, time.Now())
	if !ok {
		return
	}
	args := []any{"panic", panicked, "stack", string(debug.Stack())}
	if folded > 0 {
		args = append(args, loglimit.Folded, folded)
	}
	to.Error(line, args...)
}
