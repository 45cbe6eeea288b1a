package replicator

import (
	"runtime/debug"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator/core"
)

// Callers step the core
//
// A step is short, and to hand it to another goroutine takes longer than the step. So a
// request is handled by its caller, and a small frame by the caller of HandleFrame if
// Config.Direct is set, as long as no step is running, nothing waits and nothing is due.
// Otherwise it goes to the inbox, and the replicator's own goroutine handles it. Steps never
// overlap: Replicator.running is held for each of them.
//
// Rejected: to let the holder of the lock empty the inbox. A caller would then work for
// other callers as long as they keep sending.

// directBytesMax bounds the frames that are handled by their reader.
const directBytesMax = 2 << 10

// direct handles a job immediately, if possible.
func (r *Replicator) direct(j *job) bool {
	if !r.running.TryLock() {
		return false
	}
	defer r.running.Unlock()
	r.mu.Lock()
	idle := !r.closing && len(r.inbox) == 0
	r.mu.Unlock()
	if !idle || !r.loop.quick() {
		return false
	}
	defer r.loop.contain()
	r.loop.do(j)
	r.loop.carryOut()
	r.loop.arm()
	return true
}

// quick reports whether a step now does nothing but what it is asked for, and waits for
// no disk.
func (l *loop) quick() bool {
	return l.disk.to == nil && l.core.Deadline().After(l.r.cfg.Clock.Now())
}

// contain ends this replicator, and not the process, when the core has a bug.
func (l *loop) contain() {
	if x := recover(); x != nil {
		l.r.cfg.Logger.Error("replicator: broken, closing it", "role", l.r.cfg.Role, "panic", x, "stack", string(debug.Stack()))
		l.r.quitOnce.Do(func() { close(l.r.quit) })
	}
}

// arm sets the timer to when the loop next has to look, if that is sooner than it would.
// The caller holds running.
func (l *loop) arm() {
	if at := l.deadline(); at.Before(l.armed) {
		l.armed = at
		l.timer.Reset(clock.Ahead(at.Sub(l.r.cfg.Clock.Now())))
	}
}

// light reports whether a frame is small, and quickly dealt with.
func light(payload []byte) bool { return len(payload) <= directBytesMax && core.Light(payload) }
