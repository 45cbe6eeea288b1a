// Package loglimit bounds lines of a log that others can cause: whoever can reach a
// port could fill the disk otherwise.
package loglimit

import (
	"sync"
	"time"
)

// Lines are written at most Burst times per Period.
const (
	Burst  = 20
	Period = 10 * time.Second
)

// Budget is what may still be written. Its zero value is a whole one. It is safe for
// concurrent use.
type Budget struct {
	mu         sync.Mutex
	since      time.Time
	lines      int
	suppressed int
}

// Take spends one line, if there is one left, and returns how many were refused since
// the last: they belong on this line.
func (b *Budget) Take(now time.Time) (suppressed int, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.since) >= Period {
		b.since, b.lines = now, 0
	}
	if b.lines >= Burst {
		b.suppressed++
		return 0, false
	}
	b.lines++
	suppressed, b.suppressed = b.suppressed, 0
	return suppressed, true
}
