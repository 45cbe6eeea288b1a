package virtual

import "github.com/peerage-go/peerage/internal/clock"

// Clock is the clock of a process: an arbitrary origin, and a rate that is off by some parts per
// million. It runs on while the process is paused.
type Clock struct{ origin, ppm int64 }

// NewClock returns a clock that shows origin at instant 0.
func NewClock(origin, ppm int64) Clock { return Clock{origin, ppm} }

// Read returns the reading of the clock at t, exact for runs of hours.
func (c Clock) Read(t Instant) clock.Instant {
	return clock.Instant(c.origin + int64(t) + int64(t)*c.ppm/million)
}

// When returns the first instant at which the clock shows at least i.
func (c Clock) When(i clock.Instant) Instant {
	x := int64(i) - c.origin
	switch {
	case i <= clock.Instant(c.origin):
		return 0
	case x > horizon:
		return Never
	}
	guess := Instant(x * million / (million + c.ppm))
	for guess > 0 && c.Read(guess-1) >= i {
		guess--
	}
	for c.Read(guess) < i {
		guess++
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
