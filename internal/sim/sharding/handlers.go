package sharding

import (
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// deliverMessage puts a message into the mailbox of its entity, or lets it wait for room.
func (x *instances) deliverMessage(msg *datapath.Message, left time.Duration, p *datapath.Place) {
	m := x.m
	i, expires := x.shards[msg.Shard], clock.Never
	if left > 0 {
		expires = m.p.Now().Add(left)
	}
	if !i.boxes.Put(datapath.Ready{Message: msg, Expires: expires}, p, m.countEvent) {
		m.site.inv.noteNoRoom(msg, m.number)
		x.calls.reply(msg, invariant.Refused)
		return
	}
	x.dispatch(i)
}

// dispatchAll runs the next handler of each shard, since the lease is valid again.
func (x *instances) dispatchAll() {
	for _, i := range x.shards {
		x.dispatch(i)
	}
}

// lookAtParked runs the next handlers if some found no lease. A lease that has lapsed in a pause
// may be renewed before its end is noticed, and then LeaseTurned is not called.
func (x *instances) lookAtParked() {
	if x.parked && x.mayAct() {
		x.parked = false
		x.dispatchAll()
	}
}

// dispatch runs the next handler, if the lease holds.
func (x *instances) dispatch(i *instance) {
	if i == nil || i.gone || i.busySince != virtual.Never {
		return
	}
	m, r := x.m, x.m.run
	if !x.mayAct() {
		x.parked = true
		return
	}
	msg, ok := i.boxes.Take()
	if !ok {
		x.stopIfIdle(i)
		return
	}
	if msg.Call != 0 && (x.calls.isCancelled(msg.Message) || m.p.Now() >= msg.Expires) {
		// Cancelled asks do no work; their askers have already failed them.
		x.calls.forgetCancel(msg.Message)
		r.Hit(coverage.AskExpired)
		x.dispatch(i)
		return
	}
	if msg.Copy != nil && !x.admitCopy(i, msg.Message) {
		x.dispatch(i)
		return
	}
	x.beginHandler(i, msg.Message)
}

// beginHandler has a handler work on a message, which takes time.
func (x *instances) beginHandler(i *instance, msg *datapath.Message) {
	m, r := x.m, x.m.run
	x.handle(i, msg)
	x.entities.Handle(i.key(), msg.Entity)
	i.busySince = r.Now()
	takes := time.Duration(0)
	if r.Rand.Net.IntN(8) == 0 {
		takes = r.Rand.Net.Duration(0, r.Config.HandleMax)
	}
	returns := func() { x.onReturn(i, msg) }
	if !x.blockHandler(i, returns) {
		m.p.Later(takes, returns)
	}
}

// onReturn is called when a handler returns. The outcome of its ask is unknown for an abandoned
// instance, whose successor has no record of the ask.
func (x *instances) onReturn(i *instance, msg *datapath.Message) {
	i.busySince = virtual.Never
	how := invariant.Answered
	if i.gone {
		how = invariant.Unknown
	}
	switch {
	case msg.Copy != nil:
		x.onCopyReturn(i, msg)
	case x.copies != nil && !i.gone:
		x.keepState(i, msg)
	default:
		x.calls.reply(msg, how)
	}
	if !i.gone {
		x.entities.Handled(i.shard, msg.Entity)
		x.dispatch(i)
	}
}

// mayAct reports whether the lease holds: by the clock, at every dispatch.
func (x *instances) mayAct() bool {
	return x.m.site.member.LeaseValid()
}

// handle has a handler begin to work on a message, and asks the checkers.
func (x *instances) handle(i *instance, msg *datapath.Message) {
	m := x.m
	x.recordHandler(i, msg)
	m.site.inv.checkHandler(m, i.key(), msg)
	if msg.Copy != nil {
		x.judgeCopy(i, msg)
	}
	switch {
	case m.spec.Replicas > 0:
		i.states[msg.Entity] = m.checks.kept.Handled(msg.Entity, i.states[msg.Entity], uint64(msg.Sender)^msg.Seq)
	case m.spec.State:
		i.states[msg.Entity] = m.checks.states.Handled(msg.Entity, i.states[msg.Entity], uint64(msg.Sender)^msg.Seq)
	}
	if msg.Probe {
		m.site.inv.noteProbed(msg, m.number)
	}
}

// blockOne of so many handlers blocks.
const blockOne = 150

// blockHandler has a handler block, and calls returns when it does. The handler blocks for as
// long as faults last, or for ever if its shard is ordered to stop meanwhile: then the shard is
// stopped by force, and the next home does not wait.
func (x *instances) blockHandler(i *instance, returns func()) bool {
	m, r := x.m, x.m.run
	if !r.Config.Blocks || r.Calm || r.Rand.Trouble.IntN(blockOne) > 0 {
		return false
	}
	r.Hit(coverage.Blocked)
	m.p.Event("handler blocks", uint64(i.shard), nil)
	var look func()
	look = func() {
		switch {
		case !m.site.on:
		case i.gone, r.Calm && !i.stopping:
			returns()
		default:
			m.p.Later(20*time.Millisecond, look)
		}
	}
	m.p.Later(20*time.Millisecond, look)
	return true
}
