package virtual

import (
	"slices"
	"time"
)

// Thread runs the events of one process, one at a time and in order. A paused thread runs
// nothing, a slow one runs each event late.
type Thread struct {
	time *Schedule
	dead bool
	// paused threads run nothing; pausedUntil is when the newest pause ended.
	paused      bool
	pausedUntil Instant

	waiting  []func()
	draining bool
	// cost is the time to run one event; zero except on slow threads.
	cost time.Duration
}

// NewThread returns a thread that runs on a schedule.
func NewThread(s *Schedule) *Thread { return &Thread{time: s} }

// Run runs do as soon as the thread gets to it: before it returns, if the thread has nothing
// else to run.
func (t *Thread) Run(do func()) {
	if t.dead {
		return
	}
	if !t.paused && t.cost == 0 && len(t.waiting) == 0 {
		do()
		return
	}
	t.waiting = append(t.waiting, do)
	t.drainQueue(t.cost)
}

// RunFirst has a paused thread run do when it goes on, before all that waits.
func (t *Thread) RunFirst(do func()) { t.waiting = slices.Insert(t.waiting, 0, do) }

// After runs do after d, unless the thread has ended.
func (t *Thread) After(d time.Duration, do func()) { t.At(t.time.Now().Add(d), do) }

// At runs do at an instant, unless the thread has ended.
func (t *Thread) At(at Instant, do func()) { t.time.At(at, func() { t.Run(do) }) }

func (t *Thread) drainQueue(wait time.Duration) {
	if t.draining || t.paused || len(t.waiting) == 0 {
		return
	}
	t.draining = true
	t.time.After(wait, func() {
		t.draining = false
		if t.dead || t.paused || len(t.waiting) == 0 {
			return
		}
		do := t.waiting[0]
		t.waiting[0] = nil
		t.waiting = t.waiting[1:]
		do()
		t.drainQueue(t.cost)
	})
}

// Pause stops the thread until Resume.
func (t *Thread) Pause() { t.paused = true }

// Resume ends a pause, and reports whether there was one.
func (t *Thread) Resume() bool {
	if t.dead || !t.paused {
		return false
	}
	t.paused, t.pausedUntil = false, t.time.Now()
	t.drainQueue(0)
	return true
}

// SetCost sets the time that each event takes.
func (t *Thread) SetCost(d time.Duration) { t.cost = d }

// End ends the thread: it drops what waits, and runs nothing more.
func (t *Thread) End() { t.dead, t.waiting = true, nil }

// Alive reports whether the thread has not ended.
func (t *Thread) Alive() bool { return !t.dead }

// Paused reports whether the thread is paused.
func (t *Thread) Paused() bool { return t.paused }

// PausedUntil returns when the newest pause ended, 0 if there was none.
func (t *Thread) PausedUntil() Instant { return t.pausedUntil }

// Slow reports whether events take time.
func (t *Thread) Slow() bool { return t.cost > 0 }

// Waiting returns how many events wait.
func (t *Thread) Waiting() int { return len(t.waiting) }
