package sim

import "github.com/peerage-go/peerage/internal/clock"

// localClock is a process's own clock: an arbitrary origin, and a rate that is
// off by ppm parts per million. It runs on while the process is paused.
type localClock struct {
	origin int64
	ppm    int64
}

// read returns what the clock shows at true time t, exact for runs of hours.
func (c localClock) read(t instant) clock.Instant {
	return clock.Instant(c.origin + int64(t) + int64(t)*c.ppm/million)
}

// when returns the first true time at which the clock shows at least i.
func (c localClock) when(i clock.Instant) instant {
	x := int64(i) - c.origin
	switch {
	case i <= clock.Instant(c.origin):
		return 0
	case x > horizon:
		return never
	}
	guess := instant(x * million / (million + c.ppm))
	for guess > 0 && c.read(guess-1) >= i {
		guess--
	}
	for c.read(guess) < i {
		guess++
	}
	return guess
}

const (
	million = 1_000_000
	// horizon is beyond the end of every run, and short enough not to overflow.
	horizon = int64(1e12)
)
