// Package process has what every layer of a simulated process stands on: its identity, its
// thread, its clock and its endpoint in the network. Everything that happens to a process goes
// through its thread, so that a paused process handles nothing, and a slow one handles late, in
// order.
package process

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/network"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Process is one process: one incarnation of a node.
type Process struct {
	Run   *run.Run
	Slot  int
	Label string
	Node  gossip.Node
	// Number and Incarnation order what successive incarnations of the process send.
	Number, Incarnation uint64

	Thread *virtual.Thread
	Clock  virtual.Clock
	Net    *network.Endpoint

	removed bool
}

// ID returns the node's id.
func (p *Process) ID() gossip.NodeID { return p.Node.ID }

// Now returns what the process's clock shows.
func (p *Process) Now() clock.Instant { return p.Clock.Read(p.Run.Now()) }

// Event records an event at the process.
func (p *Process) Event(kind string, num uint64, detail func() string) {
	p.Run.Event(p.Label, kind, num, detail)
}

// Later runs do on another goroutine of the process: after d, and not at all once it is dead.
func (p *Process) Later(d time.Duration, do func()) { p.Thread.After(d, do) }

// NewTimer returns a timer for the deadlines of a core.
func (p *Process) NewTimer(fire func()) *virtual.Timer {
	slack := func() time.Duration {
		return time.Duration(p.Run.Rand.Net.Uint64() % uint64(p.Run.Config.Ping/50))
	}
	return virtual.NewTimer(p.Thread, p.Clock, slack, fire)
}

// Remove ends the incarnation. Its stack is closing, so frames no longer reach it.
func (p *Process) Remove() {
	p.removed = true
	p.Net.Close()
}

// Removed reports whether the incarnation has ended.
func (p *Process) Removed() bool { return p.removed }

// Active reports whether the process runs and its incarnation has not ended.
func (p *Process) Active() bool { return p.Thread.Alive() && !p.removed }

// DrawClock returns a clock that drifts within the bound of the run, or beyond it in runs that
// break the bound. In runs with changing rates it runs at one rate for a while, then at another.
func DrawClock(r *run.Run) virtual.Clock {
	bound, factor := int64(r.Config.DriftPPM), int64(1)
	ppm := int64(r.Rand.Setup.Uint64()%uint64(bound+1)) - bound/2
	if r.Config.DriftBeyond && r.Rand.Setup.Chance(50) {
		factor = seed.BeyondFactor
		r.Hit(coverage.DriftBeyond)
	}
	c := virtual.NewClock(int64(r.Rand.Setup.Uint64()>>14), ppm*factor)
	if !r.Config.Rates {
		return c
	}
	at := r.Now()
	for range rateChanges {
		at = at.Add(r.Rand.Rate.Duration(50*time.Millisecond, 2*time.Second))
		ppm := []int64{-bound / 2, bound / 2, int64(r.Rand.Rate.Uint64()%uint64(bound+1)) - bound/2}[r.Rand.Rate.IntN(3)]
		c = c.WithRate(at, ppm*factor)
	}
	return c
}

// rateChanges is how often the rate of a clock changes. The faults of a run end before the last.
const rateChanges = 30
