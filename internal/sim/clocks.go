package sim

import "github.com/peerage-go/peerage/internal/clock"

// localClock is a process's own clock: an arbitrary origin, and a rate that is
// off by ppm parts per million. It runs on while the process is paused.
type localClock struct {
	origin int64
	ppm    int64
}

// read returns what the clock shows at true time t.
func (c localClock) read(t instant) clock.Instant {
	return clock.Instant(c.origin + int64(t) + scale(int64(t), c.ppm))
}

// when returns the first true time at which the clock shows at least i.
func (c localClock) when(i clock.Instant) instant {
	if i == clock.Never {
		return never
	}
	t := int64(i) - c.origin
	guess := t - scale(t, c.ppm) + scale(scale(t, c.ppm), c.ppm)
	for c.read(instant(guess)) < i {
		guess++
	}
	for guess > 0 && c.read(instant(guess-1)) >= i {
		guess--
	}
	return instant(guess)
}

// scale is x*ppm/1e6, without overflow for runs of up to a day.
func scale(x, ppm int64) int64 { return x / 1_000_000 * ppm }
