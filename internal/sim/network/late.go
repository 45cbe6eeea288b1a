package network

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// A kernel retransmits what a process has written, also after the process has ended or
// its next incarnation has started: frames may arrive seconds late, behind those of the
// later incarnation. The receiver must not take them; package fence decides.

// retransmitMost bounds how long a kernel retransmits for a process that has ended, lateMost how
// late its bytes arrive in runs with late bytes.
const (
	retransmitMost = 5 * time.Second
	lateMost       = 3 * time.Second
)

// linger delivers what an ended process had sent, then the end of the stream.
func (c *Conn) linger() {
	c.state = dead
	late := time.Duration(0)
	if c.run.Config.LateBytes {
		late = c.run.Rand.Net.Duration(0, lateMost)
	}
	for i := range c.pending {
		c.pending[i].due = max(c.pending[i].due, c.run.Now().Add(late))
	}
	c.retransmit(c.run.Now().Add(retransmitMost))
}

// retransmit sends the rest of a lingering connection when it is due and the path open.
func (c *Conn) retransmit(giveUp virtual.Instant) {
	if len(c.pending) == 0 {
		c.reportEnd()
		return
	}
	r, late := c.run, c.run.Config.LateBytes
	r.Time.At(max(c.pending[0].due, r.Now()), func() {
		switch path := c.blockedNow(); {
		case !c.receives(), c.closed, r.Now() > giveUp, path == Reject:
			c.pending = nil
		case path == Drop && late:
			c.pending[0].due = r.Now().Add(r.Rand.Net.Duration(20*time.Millisecond, 600*time.Millisecond))
		case path == Drop:
			c.pending = c.pending[1:]
		default:
			head := c.pending[0]
			c.pending = c.pending[1:]
			c.arrive(head.frame)
		}
		c.retransmit(giveUp)
	})
}
