// Package clock gives the cores their notion of time: a point on a clock that
// never jumps back and keeps counting while the machine is suspended.
package clock

import "time"

// Instant is a point in time in nanoseconds on one process's clock. Its origin
// is arbitrary, so instants of different processes are never compared and never
// put on the wire. The zero Instant means "not set".
type Instant int64

// Never lies after every Instant that a clock returns: a deadline that is never due.
const Never Instant = 1<<63 - 1

// Add returns i moved by d, and stays at Never once there.
func (i Instant) Add(d time.Duration) Instant {
	if i == Never || d > 0 && i > Never-Instant(d) {
		return Never
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Before reports whether i lies before j.
func (i Instant) Before(j Instant) bool { return i < j }

// After reports whether i lies after j.
func (i Instant) After(j Instant) bool { return i > j }

// Min returns the earlier of the two, for collecting deadlines.
func Min(i, j Instant) Instant {
	if i < j {
		return i
	}
	return j
}

// Ahead returns d, but at least 1 ns: the duration for a timer of which d is left. It
// makes a difference only in a bubble of testing/synctest, where time stands still while
// a goroutine runs: there such a timer is never due immediately. Go 1.26 runs a due timer
// on the goroutine that arms or awaits it, while other goroutines run theirs: with -race
// that crashes (golang/go issue 78156). A timer that came due while its goroutine waited
// for another event crashes too: arm timers right before they are awaited.
func Ahead(d time.Duration) time.Duration { return max(d, 1) }

// Clock is what shells read time from. Implementations are safe for concurrent
// use and never go back.
type Clock interface {
	Now() Instant
}

// Func makes a Clock of a function.
type Func func() Instant

// Now calls f.
func (f Func) Now() Instant { return f() }

// Runtime returns a Clock on Go's own monotonic clock. Under testing/synctest it
// follows the bubble's time. It stands still while the machine is suspended, so
// leases in production use Boot.
func Runtime() Clock {
	start := time.Now()
	return Func(func() Instant { return Instant(time.Since(start)) + 1 })
}
