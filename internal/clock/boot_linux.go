package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Boot returns a Clock that keeps counting while the machine is suspended
// (CLOCK_BOOTTIME), and Runtime where the kernel has none. A suspended virtual
// machine must not believe that no time has passed: its leases have ended.
//
// Go reads CLOCK_BOOTTIME with a system call, at several times the price of
// time.Now, and this clock is read at every dispatch to an entity. So the system
// call is made only when the machine may have been suspended. A suspend moves the
// wall clock against the monotonic one, by exactly what it adds to CLOCK_BOOTTIME;
// time.Now reads both. What else moves it, a step of the wall clock, costs one
// needless call.
func Boot() Clock {
	if _, ok := bootNanos(); !ok {
		return Runtime()
	}
	start := time.Now()
	return newBoot(func() (mono, wall int64) {
		t := time.Now()
		return int64(t.Sub(start)), t.UnixNano()
	}, bootNanos)
}

// gapTolerance is how far wall and monotonic clock may part unnoticed: the two
// are not read at the same instant. A suspend that is shorter goes unnoticed, and
// many of them add up to one that does not.
const gapTolerance = int64(time.Millisecond)

// bootReadings is how often a calibration reads the clocks at most, to do so
// once without being interrupted.
const bootReadings = 16

type boot struct {
	// both reads the monotonic and the wall clock, nanos CLOCK_BOOTTIME.
	both  func() (mono, wall int64)
	nanos func() (int64, bool)

	mu  sync.Mutex
	cal atomic.Pointer[calibration]
}

// calibration holds how the clocks stood to each other.
type calibration struct {
	// gap is wall minus monotonic time.
	gap int64
	// shift is boot minus monotonic time. Invariant: it never shrinks, and is never
	// above the truth.
	shift int64
}

func newBoot(both func() (mono, wall int64), nanos func() (int64, bool)) *boot {
	b := &boot{both: both, nanos: nanos}
	b.cal.Store(&calibration{shift: -1 << 63})
	b.calibrate()
	return b
}

// Now implements Clock.
func (b *boot) Now() Instant {
	for {
		mono, gap := b.read()
		c := b.cal.Load()
		if d := gap - c.gap; d < gapTolerance && d > -gapTolerance {
			return Instant(mono + c.shift)
		}
		if !b.calibrate() {
			return Instant(mono + b.cal.Load().shift)
		}
	}
}

func (b *boot) read() (mono, gap int64) {
	mono, wall := b.both()
	return mono, wall - mono
}

// calibrate compares the clocks anew. It reports whether that was possible.
func (b *boot) calibrate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.cal.Load()
	width := int64(1<<63 - 1)
	for range bootReadings {
		before, _ := b.read()
		nanos, ok := b.nanos()
		after, gap := b.read()
		if !ok {
			return false
		}
		if after-before < width {
			width = after - before
			next.gap, next.shift = gap, max(next.shift, nanos-after)
		}
		if width < int64(20*time.Microsecond) {
			break
		}
	}
	b.cal.Store(&next)
	return true
}

func bootNanos() (int64, bool) {
	var ts unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return ts.Nano(), err == nil
}
