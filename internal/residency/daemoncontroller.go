package residency

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// DaemonController is the shell of internal/core/daemon: it follows the plan of one daemon, for
// the life of the type. Each incarnation has a daemonSession. All methods are safe for
// concurrent use.
type DaemonController struct {
	name       string
	first, max int
	alwaysOn   *AlwaysOn
	// plan is the newest plan, nil before the first. It outlives incarnations: revisions of
	// plans only grow.
	plan atomic.Pointer[daemon.Plan]
	// wish is the wished number of workers in this node's replica; the store orders wishes.
	wish atomic.Int64
	// changed wakes the callers of Scale.
	changed signal.Signal
	// planRead is set once this incarnation has read the plan from a majority, after it was
	// acknowledged as present. No worker starts before.
	planRead atomic.Bool
}

// NewDaemonController returns the controller of a daemon that begins with first workers and
// has at most max.
func NewDaemonController(name string, first, max int) *DaemonController {
	k := &DaemonController{name: name, first: first, max: max}
	k.alwaysOn = &AlwaysOn{ids: k.workersIn, begin: func(h *Home, within time.Duration, forced func(shards int)) planSession {
		return beginSession(k, h, within, forced)
	}}
	return k
}

// AlwaysOn returns the part that keeps the workers running.
func (k *DaemonController) AlwaysOn() *AlwaysOn { return k.alwaysOn }

// MaxWorkers returns the bound of Scale.
func (k *DaemonController) MaxWorkers() int { return k.max }

// Workers returns the number of workers that run: 0 before the first plan, and while it
// changes.
func (k *DaemonController) Workers() int {
	p := k.plan.Load()
	if p == nil || !p.Running {
		return 0
	}
	return p.Workers
}

// workersIn returns the worker of a shard, if it must run by the plan.
func (k *DaemonController) workersIn(s strategy.ShardID) []string {
	if p := k.plan.Load(); p == nil || !p.Runs(int(s)) {
		return nil
	}
	return []string{strconv.Itoa(int(s))}
}

// StartWorker returns the number of the worker that starts, and the number of all workers in
// its plan. It fails with failure.NoWorker if the worker must not run. An instance that it lets
// start is in its shard's table already, so a later plan that stops it finds it.
func (k *DaemonController) StartWorker(id string) (worker, of int, err error) {
	worker, err = strconv.Atoi(id)
	p := k.plan.Load()
	if err != nil || !k.planRead.Load() || p == nil || !p.Runs(worker) {
		return 0, 0, failure.NoWorker
	}
	return worker, p.Workers, nil
}

// onReplica adopts the state of this node's replica.
func (k *DaemonController) onReplica(s daemon.State) {
	k.wish.Store(int64(s.Wish))
	k.adoptPlan(s.Plan)
}

// adoptPlan keeps the newer plan.
func (k *DaemonController) adoptPlan(p daemon.Plan) {
	for {
		old := k.plan.Load()
		if old != nil && old.Rev.Compare(p.Rev) >= 0 || p == (daemon.Plan{}) {
			break
		}
		if k.plan.CompareAndSwap(old, &p) {
			break
		}
	}
	k.changed.Broadcast()
	k.alwaysOn.Check()
}

// Scale stores the wished number of workers, and waits until the plan has it, or another
// number is wished. done is false if ended is closed before.
func (k *DaemonController) Scale(ctx context.Context, store placement.PlanStore, n int, ended <-chan struct{}) (done bool, err error) {
	if err := store.RequestWorkers(ctx, k.name, n); err != nil {
		return true, err
	}
	for {
		changed := k.changed.Wait()
		if p := k.plan.Load(); p != nil && p.Running {
			if p.Workers == n || k.wishReplaced(ctx, store, n) {
				return true, nil
			}
		}
		select {
		case <-changed:
		case <-ended:
			return false, nil
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
}

// wishReplaced reports whether another number is wished by now. It reads from a majority: this
// node's replica may not have its own wish yet.
func (k *DaemonController) wishReplaced(ctx context.Context, store placement.PlanStore, n int) bool {
	s, err := store.ReadPlan(ctx, k.name, 0)
	return err == nil && s.Wish != n
}
