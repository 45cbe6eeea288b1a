package virtual

import (
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
)

// Clock is the clock of a process: an arbitrary origin, and a rate that is off by some parts per
// million and may change. It runs on while the process is paused, unless it is stopped: a
// hypervisor that pauses a machine may stop all its clocks. Copies of a Clock stop together.
type Clock struct {
	origin int64
	// rates has the rates, oldest first; none means the rate of true time.
	rates []rate
	stops *stops
}

// rate is a rate of a clock from one moment on, at which the clock had run for from and had
// moved by moved.
type rate struct {
	from       Instant
	moved, ppm int64
}

// moveTo returns by how much the clock has moved when it has run for t, which is not before from.
func (r rate) moveTo(t Instant) int64 {
	ran := int64(t - r.from)
	return r.moved + ran + ran*r.ppm/million
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
func NewClock(origin, ppm int64) Clock { return Clock{origin, []rate{{ppm: ppm}}, &stops{}} }

// WithRate returns the clock with another rate from an instant on, which is after all former
// changes. While the clock stands still, the instant moves on.
func (c Clock) WithRate(from Instant, ppm int64) Clock {
	c.rates = append(slices.Clip(c.rates), rate{from, c.moved(from), ppm})
	return c
}

// RateChanges reports whether the rate changes after an instant and until another one.
func (c Clock) RateChanges(after, until Instant) bool {
	return c.rateAt(c.ran(after)) != c.rateAt(c.ran(until))
}

// rateAt returns the rate of a clock that has run for t.
func (c Clock) rateAt(t Instant) (at rate) {
	for _, r := range c.rates {
		if r.from > t {
			break
		}
		at = r
	}
	return at
}

// moved returns by how much a clock has moved that has run for t.
func (c Clock) moved(t Instant) int64 { return c.rateAt(t).moveTo(t) }

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
	return clock.Instant(c.origin + c.moved(c.ran(t)))
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
	at := rate{}
	for _, r := range c.rates {
		if r.moved < x {
			at = r
		}
	}
	guess := at.from + Instant((x-at.moved)*million/(million+at.ppm))
	for guess > 0 && c.moved(guess-1) >= x {
		guess--
	}
	for c.moved(guess) < x {
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
