package standby

import "github.com/peerage-go/peerage/internal/core/chunks"

// resend schedules the retransmissions of a message, with back-off. The zero resend is due
// immediately.
type resend struct{ retry chunks.Retry }

// noteSent notes that the message was sent now, and schedules the next time.
func (r *resend) noteSent(c *Core, again bool) {
	r.retry.NoteSent(c.now, c.cfg.Resend, again)
	c.wake(r.retry.At())
}

// due reports whether the message must be sent now. If not, it asks for a Tick.
func (r *resend) due(c *Core) bool {
	if !r.retry.IsDue(c.now) {
		c.wake(r.retry.At())
		return false
	}
	return true
}
