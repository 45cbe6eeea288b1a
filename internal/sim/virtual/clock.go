package virtual

import (
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// Clock is the clock of a process: an arbitrary origin, and a rate that is off by some parts per
// million. It runs on while the process is paused, unless it is stopped: a hypervisor that
// pauses a machine may stop all its clocks. Copies of a Clock stop together.
type Clock struct {
	origin, ppm int64
	stops       *stops
}

// stops are the spans in which a clock stood still, oldest first.
type stops struct {
	spans []span
	// since is when the clock stopped; still is set while it stands.
	since Instant
	still bool
}

type span struct{ from, to Instant }

// NewClock returns a clock that shows origin at instant 0.
func NewClock(origin, ppm int64) Clock { return Clock{origin, ppm, &stops{}} }

// Stop makes the clock stand still from now on.
func (c Clock) Stop(now Instant) { c.stops.since, c.stops.still = now, true }

// Restart makes a clock that stands still run again, and returns since when it stood.
func (c Clock) Restart(now Instant) (since Instant) {
	c.stops.still = false
	c.stops.spans = append(c.stops.spans, span{c.stops.since, now})
	return c.stops.since
}

// Stopped reports whether the clock stands still.
func (c Clock) Stopped() bool { return c.stops != nil && c.stops.still }

// ran returns for how long the clock had run at t.
func (c Clock) ran(t Instant) Instant {
	if c.stops == nil {
		return t
	}
	if c.stops.still {
		t = min(t, c.stops.since)
	}
	for _, s := range slices.Backward(c.stops.spans) {
		if t > s.from {
			t -= min(t, s.to) - s.from
		}
	}
	return t
}

// Read returns the reading of the clock at t, exact for runs of hours.
func (c Clock) Read(t Instant) clock.Instant {
	ran := int64(c.ran(t))
	return clock.Instant(c.origin + ran + ran*c.ppm/million)
}

// When returns the first instant at which the clock shows at least i. A clock that stands still
// counts as running: it may show i later.
func (c Clock) When(i clock.Instant) Instant {
	x := int64(i) - c.origin
	switch {
	case i <= clock.Instant(c.origin):
		return 0
	case x > horizon:
		return Never
	}
	steady := Clock{origin: c.origin, ppm: c.ppm}
	guess := Instant(x * million / (million + c.ppm))
	for guess > 0 && steady.Read(guess-1) >= i {
		guess--
	}
	for steady.Read(guess) < i {
		guess++
	}
	if c.stops != nil {
		for _, s := range c.stops.spans {
			if guess > s.from {
				guess += s.to - s.from
			}
		}
	}
	return guess
}

const (
	million = 1_000_000
	// horizon is beyond the end of every run, and short enough not to overflow.
	horizon = int64(1e12)
)

// WallAtStart is the time that right wall clocks show when a run begins, in seconds.
const WallAtStart uint32 = 1_700_000_000
