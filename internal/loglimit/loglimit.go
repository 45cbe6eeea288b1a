// Package loglimit bounds the log lines that remote hosts can cause: otherwise any host
// that reaches a port could fill the disk.
package loglimit

import (
	"sync"
	"time"
)

// At most Burst lines are written per Period.
const (
	Burst  = 20
	Period = 10 * time.Second
)

// Budget counts the lines that may still be written. Its zero value is a full budget. It
// is safe for concurrent use.
type Budget struct {
	mu         sync.Mutex
	since      time.Time
	lines      int
	suppressed int
}

// Take spends one line if any is left. It returns how many were refused since the last
// line, to be logged with this one.
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
