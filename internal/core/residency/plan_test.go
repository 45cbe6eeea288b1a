package residency

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/sharding/strategy"
)

func planOf(seq uint64, workers int, running bool) daemon.Plan {
	return daemon.Plan{Rev: daemon.Rev{Term: 1, Seq: seq}, Workers: workers, Running: running}
}

// newPlanRig returns the rig of a daemon with all five shards here.
func newPlanRig(t *testing.T) *rig {
	r := newRig(t, Config{Daemon: &Daemon{First: 2, Max: 5}})
	for i := range 5 {
		r.host(strategy.ShardID(i), 1)
	}
	return r
}

// done finishes the next action of a kind.
func (r *rig) done(kind Kind, o Outcome) *Action {
	r.t.Helper()
	a := r.one(kind)
	o.OK = true
	r.Done(a, &o, r.now)
	return a
}

// ready announces the node and reads a plan.
func (r *rig) ready(p daemon.Plan) {
	r.done(AckPlan, Outcome{})
	r.done(ReadPlan, Outcome{State: daemon.State{Plan: p}})
}

// No worker starts before a majority has stored that the node is present, and the plan was read
// after that. A node outside its own view waits.
func TestNoWorkerStartsBeforeThePlanIsRead(t *testing.T) {
	r := newPlanRig(t)
	r.members.Nodes = nil
	r.NotePlan(&daemon.State{Plan: planOf(2, 3, true)})
	r.quiet("outside the view")
	r.members = daemon.Members{Epoch: 7, Nodes: []gossip.NodeID{1}}
	r.pass(soon)
	if a := r.one(AckPlan); a.Ack != (daemon.Ack{Since: 7}) {
		t.Errorf("announces %+v", a.Ack)
	} else {
		r.quiet("while it is announced")
		r.Done(a, &Outcome{}, r.now)
	}
	r.quiet("after a failure, in the same round")
	r.pass(Every)
	r.ready(planOf(2, 3, true))
	for i := range 3 {
		if a := r.one(Start); a.ID != string(rune('0'+i)) {
			t.Errorf("starts %+v", a)
		}
	}
	r.quiet("when all workers were started")
}

// A stopping plan ends the workers, and is acknowledged once all have ended.
func TestAPlanIsAcknowledgedWhenItsWorkersHaveEnded(t *testing.T) {
	r := newPlanRig(t)
	r.ready(planOf(2, 3, true))
	r.all()
	r.NotePlan(&daemon.State{Plan: planOf(3, 4, false)})
	for range 3 {
		if a := r.done(StopAll, Outcome{Running: 1}); a.Abandon {
			t.Error("workers are abandoned early")
		}
		r.quiet("while a worker ends")
		r.pass(soon)
	}
	r.pass(time.Second)
	r.lease = false
	if r.done(StopAll, Outcome{Running: 1}).Abandon {
		t.Error("workers are abandoned without a lease")
	}
	r.lease = true
	r.pass(soon)
	if !r.done(StopAll, Outcome{Running: 1}).Abandon {
		t.Error("workers that do not end are not abandoned")
	}
	r.pass(soon)
	r.done(StopAll, Outcome{})
	if a := r.done(AckPlan, Outcome{}); a.Ack != (daemon.Ack{Rev: daemon.Rev{Term: 1, Seq: 3}, Since: 1}) {
		t.Errorf("acknowledges %+v", a.Ack)
	}
	r.quiet("after the acknowledgement")
	r.NotePlan(&daemon.State{Plan: planOf(4, 4, true)})
	if all := r.all(); len(all) != 4 {
		t.Errorf("%+v, want the starts of four workers", all)
	}
}

// Workers that have ended for one plan prove nothing about a later one.
func TestAnEarlierStopProvesNothing(t *testing.T) {
	r := newPlanRig(t)
	r.ready(planOf(3, 4, false))
	stop := r.one(StopAll)
	r.NotePlan(&daemon.State{Plan: planOf(5, 2, false)})
	r.Done(stop, &Outcome{OK: true}, r.now)
	if a := r.one(StopAll); a.Plan != planOf(5, 2, false) {
		t.Errorf("%+v, want a stop for the newest plan", a)
	}
}

// The coordinator reads the state in its term, and writes the plan that is due.
func TestTheCoordinatorWritesThePlan(t *testing.T) {
	r := newPlanRig(t)
	r.ready(planOf(2, 3, true))
	r.all()
	r.term = 4
	r.pass(Every)
	for range 3 {
		r.one(Start)
	}
	r.quiet("without another wish")
	r.NotePlan(&daemon.State{Plan: planOf(2, 3, true), Wish: 9})
	if a := r.done(ReadPlan, Outcome{State: daemon.State{Plan: planOf(2, 3, true), Wish: 9}}); a.Term != 4 {
		t.Errorf("reads in term %d", a.Term)
	}
	want := daemon.Plan{Rev: daemon.Rev{Term: 4, Seq: 1}, Workers: 5}
	if a := r.done(WritePlan, Outcome{}); a.Plan != want || a.Term != 4 {
		t.Errorf("writes %+v in term %d, want %+v", a.Plan, a.Term, want)
	}
	if p, _ := r.Plan(); p != want {
		t.Errorf("the plan is %+v", p)
	}
}
