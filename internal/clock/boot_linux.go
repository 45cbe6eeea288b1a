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
//
// Even the wall clock costs as much as the monotonic one, so it is read again only
// lookEvery after it was last read. A suspend is noticed by the first reading after
// that much time of running: what begins in between might as well have begun before
// the suspend, and nobody can keep that from happening.
func Boot() Clock {
	if _, ok := bootNanos(); !ok {
		return Runtime()
	}
	start := time.Now()
	return newBoot(
		func() int64 { return int64(time.Since(start)) },
		func() (mono, wall int64) {
			t := time.Now()
			return int64(t.Sub(start)), t.UnixNano()
		}, bootNanos)
}

// lookEvery is how long, of time in which the machine runs, a reading of the wall
// clock holds: a few hundred dispatches to entities that do nothing, and less than
// most handlers take.
const lookEvery = int64(10 * time.Microsecond)

// gapTolerance is how far wall and monotonic clock may part unnoticed: the two
// are not read at the same instant. A suspend that is shorter goes unnoticed, and
// many of them add up to one that does not.
const gapTolerance = int64(time.Millisecond)

// bootReadings is how often a calibration reads the clocks at most, to do so
// once without being interrupted.
const bootReadings = 16

type boot struct {
	// running reads the monotonic clock, both that and the wall clock, nanos
	// CLOCK_BOOTTIME.
	running func() int64
	both    func() (mono, wall int64)
	nanos   func() (int64, bool)

	// looked is when, on the monotonic clock, both were last found as far apart as cal
	// has it.
	looked atomic.Int64

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

func newBoot(running func() int64, both func() (mono, wall int64), nanos func() (int64, bool)) *boot {
	b := &boot{running: running, both: both, nanos: nanos}
	b.cal.Store(&calibration{shift: -1 << 63})
	b.calibrate()
	return b
}

// Now implements Clock.
func (b *boot) Now() Instant {
	// looked is read before cal: who sees a look also sees what it found.
	looked := b.looked.Load()
	if mono := b.running(); mono-looked < lookEvery {
		return Instant(mono + b.cal.Load().shift)
	}
	return b.look()
}

// look is Now with a look at the wall clock.
func (b *boot) look() Instant {
	for {
		mono, gap := b.read()
		c := b.cal.Load()
		if d := gap - c.gap; d < gapTolerance && d > -gapTolerance {
			b.looked.Store(mono)
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
