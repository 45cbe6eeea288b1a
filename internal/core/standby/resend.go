package standby

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
)

// resend schedules the retransmissions of a message, with back-off. The zero resend is due
// immediately.
type resend struct {
	at    clock.Instant
	pause time.Duration
}

// noteSent notes that the message was sent now, and schedules the next time.
func (r *resend) noteSent(c *Core, again bool) {
	if !again || r.pause == 0 {
		r.pause = c.cfg.Resend
	} else {
		r.pause = min(2*r.pause, 8*c.cfg.Resend)
	}
	r.at = c.now.Add(r.pause)
	c.wake(r.at)
}

// due reports whether the message must be sent now. If not, it asks for a Tick.
func (r *resend) due(c *Core) bool {
	if c.now.Before(r.at) {
		c.wake(r.at)
		return false
	}
	return true
}
