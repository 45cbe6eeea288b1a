package residency

import (
	"slices"
	"strconv"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// planFollower follows the plan of a daemon (package daemon has the argument): it announces this
// node, reads the plan, ends workers that must not run, acknowledges that they have ended, and
// writes plans while this node coordinates the type. One step is in flight at a time.
type planFollower struct {
	*env
	// plan is the newest plan, zero before the first; revisions of plans only grow. wish is
	// the wished number of workers in this node's replica; the store orders wishes.
	plan daemon.Plan
	wish int
	session
	// follow is set while a step may be due, and again is when it is set next.
	follow bool
	again  clock.Instant
}

// session is the part of one incarnation.
type session struct {
	// present is set once a majority has stored that this node is here, since the view of
	// that epoch. read is set once the plan was read from a majority after that.
	present, read bool
	since         gossip.Epoch
	// stopping is the plan for which workers are being ended, stopped that for which all have
	// ended, acked that which was acknowledged. Workers that have not ended at deadline are
	// abandoned. stopAt is when StopAll is due again.
	stopping, stopped, acked daemon.Rev
	deadline, stopAt         clock.Instant
	// write is the plan to write, zero Kind for none.
	write Action
	// busy is set while a step is in flight.
	busy bool
}

func (f *planFollower) endSession() { f.session, f.again = session{}, clock.Never }

// workerOf returns the worker of a shard, if it must run by the plan.
func (f *planFollower) workerOf(i strategy.ShardID) string {
	if !f.read || !f.plan.Runs(int(i)) {
		return ""
	}
	return strconv.Itoa(int(i))
}

// adoptPlan keeps the newer plan. Its workers start without waiting for the next round.
func (f *planFollower) adoptPlan(p daemon.Plan) {
	if p.Rev.Compare(f.plan.Rev) <= 0 {
		return
	}
	f.plan, f.inspect = p, true
	for i := range f.shards {
		f.shards[i].tried.start = false
	}
}

// nextStep returns the next step. A step that has failed is repeated in the next round.
func (f *planFollower) nextStep(now clock.Instant) (a Action, ok bool) {
	if f.cfg.Daemon == nil || f.busy {
		return Action{}, false
	}
	if !now.Before(f.again) {
		f.follow, f.again = true, clock.Never
	}
	if !f.follow {
		return Action{}, false
	}
	f.follow = false
	a = f.chooseStep(now)
	f.busy = a.Kind != 0
	return a, f.busy
}

// chooseStep returns the step that is due; its Kind is 0 if there is none.
func (f *planFollower) chooseStep(now clock.Instant) Action {
	n := f.node
	switch {
	case !f.present:
		m := n.Members()
		if !slices.Contains(m.Nodes, n.Self) {
			f.again = now.Add(soon)
			return Action{}
		}
		f.since = m.Epoch
		return Action{Kind: AckPlan, Ack: daemon.Ack{Since: f.since}}
	case !f.read:
		return Action{Kind: ReadPlan}
	case f.plan != (daemon.Plan{}) && !f.plan.Running && f.acked != f.plan.Rev:
		if a := f.stopWorkers(now); a.Kind != 0 {
			return a
		}
	}
	if a := f.write; a.Kind != 0 {
		f.write = Action{}
		return a
	}
	if term := n.Office(); term != 0 && !(f.plan.Running && (f.wish == 0 || f.wish == f.plan.Workers)) {
		return Action{Kind: ReadPlan, Term: term}
	}
	return Action{}
}

// stopWorkers ends all workers, and acknowledges the plan when they have ended.
func (f *planFollower) stopWorkers(now clock.Instant) Action {
	rev := f.plan.Rev
	if f.stopped == rev {
		if assert.Enabled {
			f.assertStopped(f.stopped)
		}
		return Action{Kind: AckPlan, Ack: daemon.Ack{Rev: rev, Since: f.since}}
	}
	if f.stopping != rev {
		f.stopping, f.stopAt, f.deadline = rev, now, now.Add(f.node.StopWithin)
	}
	if now.Before(f.stopAt) {
		f.again = clock.Min(f.again, f.stopAt)
		return Action{}
	}
	late := now.After(f.deadline) && f.node.LeaseValid()
	return Action{Kind: StopAll, Plan: f.plan, Abandon: late}
}

// assertStopped checks G11: a node acknowledges a plan that runs no workers.
func (f *planFollower) assertStopped(rev daemon.Rev) {
	if f.plan.Running || rev != f.plan.Rev {
		assert.Broken("G11", "a stop for %v is acknowledged while the plan is %+v", rev, f.plan)
	}
}

// endStep notes the outcome of a step.
func (f *planFollower) endStep(a *Action, o *Outcome, now clock.Instant) {
	f.busy = false
	switch {
	case !o.OK:
		return
	case a.Kind == ReadPlan && a.Term != 0:
		f.follow = f.prepareWrite(a.Term, o.State) || f.follow
		return
	case a.Kind == ReadPlan:
		f.read, f.inspect = true, true
		f.adoptPlan(o.State.Plan)
	case a.Kind == WritePlan:
		f.adoptPlan(a.Plan)
	case a.Kind == AckPlan && a.Ack.Rev == daemon.Rev{}:
		f.present = true
	case a.Kind == AckPlan:
		f.acked = a.Ack.Rev
	case a.Plan.Rev != f.plan.Rev: // a StopAll for an earlier plan
	case o.Running == 0:
		f.stopped = a.Plan.Rev
	default:
		f.stopAt = now.Add(soon)
	}
	f.follow = true
}

// prepareWrite decides on the next plan, given the state that was read in a term, and reports
// whether one is due.
func (f *planFollower) prepareWrite(term gossip.Epoch, state daemon.State) (due bool) {
	state.Wish = min(state.Wish, f.cfg.Daemon.Max)
	members := f.node.Members()
	next, due := daemon.Next(&state, term, f.cfg.Daemon.First, members)
	if due {
		f.write = Action{Kind: WritePlan, Term: term, Plan: next, Gone: daemon.Stale(&state, members)}
	}
	return due
}
