package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Boot returns a Clock that keeps counting while the machine is suspended
// (CLOCK_BOOTTIME), and Runtime where the kernel has none. After a suspend, a virtual
// machine's leases must have expired.
//
// Go reads CLOCK_BOOTTIME with a system call, at several times the price of
// time.Now, and this clock is read at every dispatch to an entity. So the system
// call is made only when the machine may have been suspended. A suspend moves the
// wall clock against the monotonic one, by exactly what it adds to CLOCK_BOOTTIME;
// time.Now reads both. A step of the wall clock moves it as well and costs one needless
// call.
//
// Reading the wall clock costs as much as reading the monotonic one, so it is read at
// most once per lookEvery. The first reading after lookEvery of running time detects a
// suspend. A dispatch in between could equally have begun just before the suspend, which
// no clock can prevent.
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

// lookEvery is the running time for which a reading of the wall clock is reused: a few
// hundred dispatches to entities that do nothing, and less than most handlers take.
const lookEvery = int64(10 * time.Microsecond)

// gapTolerance is the drift between wall and monotonic clock that is ignored, because the
// two are not read at the same instant. A shorter suspend is missed; several of them add
// up to one that is detected.
const gapTolerance = int64(time.Millisecond)

// bootReadings bounds the attempts of a calibration to read the clocks without an
// interruption.
const bootReadings = 16

type boot struct {
	// running reads the monotonic clock, both that and the wall clock, nanos
	// CLOCK_BOOTTIME.
	running func() int64
	both    func() (mono, wall int64)
	nanos   func() (int64, bool)

	// looked is the monotonic time at which the gap of cal was last confirmed.
	looked atomic.Int64

	mu  sync.Mutex
	cal atomic.Pointer[calibration]
}

// calibration holds the differences between the clocks.
type calibration struct {
	// gap is wall minus monotonic time.
	gap int64
	// shift is boot minus monotonic time. Invariant: it never shrinks, and never exceeds
	// the real difference.
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
	// Read looked before cal: a reader that sees a look also sees its result.
	looked := b.looked.Load()
	if mono := b.running(); mono-looked < lookEvery {
		return Instant(mono + b.cal.Load().shift)
	}
	return b.compareClocks()
}

// compareClocks is Now with a comparison of the wall clock.
func (b *boot) compareClocks() Instant {
	for {
		mono, gap := b.readClocks()
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

func (b *boot) readClocks() (mono, gap int64) {
	mono, wall := b.both()
	return mono, wall - mono
}

// calibrate compares the clocks again and reports whether it succeeded.
func (b *boot) calibrate() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := *b.cal.Load()
	width := int64(1<<63 - 1)
	for range bootReadings {
		before, _ := b.readClocks()
		nanos, ok := b.nanos()
		after, gap := b.readClocks()
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
