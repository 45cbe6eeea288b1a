package replica

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Clocks are the wall clocks that stamp the register. They jump by up to an hour, also while
// processes run.
type Clocks struct {
	run *run.Run
	// ahead is how far the clock of each host is ahead.
	ahead []time.Duration
}

// jumpsMax bounds the jumps of a run: each may end an era of the register.
const jumpsMax = 6

// PlanJumps has the clocks of hosts jump until the run's faults end.
func (c *Clocks) PlanJumps() {
	if c.run.Config.Clocks {
		c.planJumps(jumpsMax)
	}
}

func (c *Clocks) planJumps(jumps int) {
	if jumps == 0 {
		return
	}
	r := c.run.Rand.Clock
	c.run.After(r.Duration(0, c.run.Config.Duration/2), func() {
		if c.run.Calm {
			return
		}
		slot := r.IntN(len(c.ahead))
		c.ahead[slot] = r.Duration(0, 2*time.Hour) - time.Hour
		c.run.Hit(coverage.ClockJump)
		c.planJumps(jumps - 1)
	})
}

// show returns what the clock of a host shows, in milliseconds.
func (c *Clocks) show(slot int) uint64 {
	return uint64((int64(virtual.WallAtStart)*int64(time.Second) + int64(c.run.Now()) + int64(c.ahead[slot])) / int64(time.Millisecond))
}

// SetRight sets all clocks right.
func (c *Clocks) SetRight() { clear(c.ahead) }
