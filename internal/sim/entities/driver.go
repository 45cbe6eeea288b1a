// Package entities has the entities of simulated processes that run without messages, as
// internal/residency does in production: a Driver performs what internal/core/residency decides
// for one type on one process, and a Table has the instances.
package entities

import (
	"github.com/peerage-go/peerage/internal/clock"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// Shell is what a Driver needs of its type and process.
type Shell interface {
	Now() clock.Instant
	NewTimer(fire func()) *virtual.Timer
	// Put passes work to the goroutine that performs actions.
	Put(do func())
	// PerformLocal performs an action that does not wait for other nodes.
	PerformLocal(*core.Action) core.Outcome
	// PerformRemote performs an action that does, and calls done once with the outcome.
	PerformRemote(a *core.Action, done func(core.Outcome))
}

// Driver performs the actions of a core.
type Driver struct {
	core  *core.Core
	shell Shell
	timer *virtual.Timer
}

// NewDriver returns the Driver of a core for one incarnation of a process, and looks at what is due.
func NewDriver(c *core.Core, n *core.Node, s Shell) *Driver {
	d := &Driver{core: c, shell: s}
	c.Attach(n, s.Now())
	d.timer = s.NewTimer(d.Wake)
	d.Wake()
	return d
}

// Wake looks at what is due.
func (d *Driver) Wake() { d.shell.Put(d.performDue) }

// ShardStarted has the entities of a new shard start without delay.
func (d *Driver) ShardStarted() {
	d.core.Inspect()
	d.Wake()
}

// performDue performs all actions that are due.
func (d *Driver) performDue() {
	for {
		a, ok := d.core.Next(d.shell.Now())
		if !ok {
			d.timer.Set(d.core.Deadline())
			return
		}
		if a.Blocks() {
			d.shell.PerformRemote(&a, func(o core.Outcome) {
				d.shell.Put(func() {
					d.core.Done(&a, &o, d.shell.Now())
					d.performDue()
				})
			})
			continue
		}
		o := d.shell.PerformLocal(&a)
		d.core.Done(&a, &o, d.shell.Now())
	}
}
