package membership

import (
	"time"

	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// ReformAfter is how long a node whose whole view is dead waits before it ends.
const ReformAfter = 3 * time.Second

// isolation is the state of a node that has lost its quorum.
type isolation struct {
	// lostSince is when the lease was lost, deadSince when all other members were
	// proven dead; never if not.
	lostSince, deadSince virtual.Instant
}

// update notes whether the node has a lease, and whether all other members count as dead. It
// reports whether the whole view has been dead for long.
func (i *isolation) update(now virtual.Instant, lease bool, allDead func() bool) (over bool) {
	if lease {
		i.lostSince = virtual.Never
	} else {
		i.lostSince = min(i.lostSince, now)
	}
	if i.lostSince != virtual.Never && allDead() {
		i.deadSince = min(i.deadSince, now)
	} else {
		i.deadSince = virtual.Never
	}
	return i.deadSince != virtual.Never && now.Sub(i.deadSince) > ReformAfter
}

// lasts returns for how long the node has been without a lease.
func (i *isolation) lasts(now virtual.Instant) time.Duration {
	if i.lostSince == virtual.Never {
		return 0
	}
	return now.Sub(i.lostSince)
}
