package chunks

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// Retry schedules the retransmissions of one message. The zero Retry is due immediately.
type Retry struct {
	at     clock.Instant
	misses int
}

// NoteSent schedules the next retransmission. again is set for a retransmission: each of them
// doubles the wait, up to eight times the first one.
func (r *Retry) NoteSent(now clock.Instant, first time.Duration, again bool) {
	if again && r.at != 0 {
		r.misses++
	} else {
		r.misses = 0
	}
	r.at = now.Add(Backoff(first, r.misses))
}

// IsDue reports whether the message must be sent now.
func (r *Retry) IsDue(now clock.Instant) bool { return !now.Before(r.at) }

// At returns when the message is due.
func (r *Retry) At() clock.Instant { return r.at }

// Backoff returns the wait after so many misses in a row: it doubles, up to eight times the
// first one.
func Backoff(first time.Duration, misses int) time.Duration { return first << min(misses, 3) }
