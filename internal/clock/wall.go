package clock

import (
	"sync/atomic"
	"time"
)

// Wall is a wall clock that can be set: calendar time, for tests and for faults. The zero
// Wall shows what time.Now does. Safe for concurrent use.
type Wall struct{ ahead atomic.Int64 }

// Now returns the calendar time. It carries no monotonic reading, so differences between
// two of them show how the clock was set in between.
func (w *Wall) Now() time.Time { return time.Now().Round(0).Add(w.Ahead()) }

// Set puts the clock ahead of time.Now, or behind it if ahead is negative.
func (w *Wall) Set(ahead time.Duration) { w.ahead.Store(int64(ahead)) }

// Ahead returns how far the clock is ahead of time.Now.
func (w *Wall) Ahead() time.Duration { return time.Duration(w.ahead.Load()) }
