package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/sim/coverage"
)

// draining hands over everything that runs at a process that leaves, as a Node's Drain does.
type draining struct {
	site   *site
	models []*Model
	// done: everything was handed over before the process left.
	done bool
	// late: the process left before that, since its patience was over. A Node whose Drain fails
	// does not leave: it closes, and its handlers may go on for a while.
	late bool
	// farewells counts, by member, those that it has not acknowledged.
	farewells map[gossip.NodeID]int
}

// startDrain calls then when the shards are gone, or patience is; immediately if the run does not
// drain.
func (d *draining) startDrain(models []*Model, then func()) {
	p, r := d.site.p, d.site.p.Run
	d.models = models
	if !r.Config.Drain {
		then()
		return
	}
	left := false
	leave := func() {
		if !left && p.Active() {
			left = true
			then()
		}
	}
	more := len(models)
	for _, m := range models {
		m.onDrained = func() {
			if more--; more == 0 {
				d.done = true
				d.countUndelivered()
				r.Hit(coverage.Drained)
				d.awaitAnswers(func() { d.sendFarewells(leave) })
			}
		}
		m.cores.putRegion(region.Drain{})
	}
	p.Later(r.Config.DrainPatience(), func() {
		if !d.done && r.Config.Orderly && p.Active() {
			d.checkPatience()
		}
		d.late = !d.done
		leave()
	})
}

// countUndelivered counts the states that no other process holds, when everything was handed over.
func (d *draining) countUndelivered() {
	for _, m := range d.models {
		if m.mover.TakeUndelivered() > 0 {
			d.site.p.Run.Hit(coverage.Undelivered)
		}
	}
}

// checkPatience checks that draining ends as long as a quorum can act.
func (d *draining) checkPatience() {
	if n := d.site; n.member.LeaseValid() {
		n.p.Run.Fail("L6", "%s has not drained in %v, though it holds a lease", n.p.Label, n.p.Run.Config.DrainPatience())
	}
}

// awaitAnswers calls then once no ask of this process waits for its answer.
func (d *draining) awaitAnswers(then func()) {
	n := d.site
	n.p.Later(time.Millisecond, func() {
		for _, m := range d.models {
			if n.on && len(m.calls.open) > 0 {
				d.awaitAnswers(then)
				return
			}
		}
		then()
	})
}

// sendFarewells calls then once the members have received all frames of this process: the view
// without the process must not overtake its last answers.
func (d *draining) sendFarewells(then func()) {
	n := d.site
	d.farewells = map[gossip.NodeID]int{}
	if n.view == nil {
		then()
		return
	}
	for i := range n.view.Members {
		id := n.view.Members[i].ID
		if id == n.p.ID() {
			continue
		}
		for _, m := range d.models {
			d.farewells[id]++
			m.outbox.sendInOrder(id, &callFrame{typ: m.number, op: opFarewell})
		}
	}
	d.awaitFarewells(then)
}

func (d *draining) awaitFarewells(then func()) {
	if len(d.farewells) == 0 {
		then()
		return
	}
	d.site.p.Later(time.Millisecond, func() { d.awaitFarewells(then) })
}

func (d *draining) onFarewellAck(id gossip.NodeID) {
	if d.farewells[id]--; d.farewells[id] <= 0 {
		delete(d.farewells, id)
	}
}

func (d *draining) onPeerLost(id gossip.NodeID) { delete(d.farewells, id) }
