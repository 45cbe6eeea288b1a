package residency

import (
	"context"
	"strconv"

	"github.com/peerage-go/peerage/internal/core/daemon"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/failure"
	"github.com/peerage-go/peerage/internal/placement"
)

// DaemonController is the Reconciler of a daemon. All methods are safe for concurrent use.
type DaemonController struct {
	*Reconciler
	name string
	max  int
}

// NewDaemonController returns the controller of a daemon that begins with first workers and
// has at most max.
func NewDaemonController(name string, first, max int) *DaemonController {
	cfg := core.Config{Shards: uint32(max), Daemon: &core.Daemon{First: first, Max: max}}
	return &DaemonController{&Reconciler{core: core.New(cfg), follows: true}, name, max}
}

// MaxWorkers returns the bound of Scale.
func (k *DaemonController) MaxWorkers() int { return k.max }

// currentPlan returns the newest plan, zero before the first, and whether workers may start.
func (k *DaemonController) currentPlan() (p daemon.Plan, mayStart bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.core.Plan()
}

// Workers returns the number of workers that run: 0 before the first plan, and while it
// changes.
func (k *DaemonController) Workers() int {
	p, _ := k.currentPlan()
	if !p.Running {
		return 0
	}
	return p.Workers
}

// StartWorker returns the number of the worker that starts, and the number of all workers in
// its plan. It fails with failure.NoWorker if the worker must not run. An instance that it lets
// start is in its shard's table already, so a later plan that stops it finds it.
func (k *DaemonController) StartWorker(id string) (worker, of int, err error) {
	worker, err = strconv.Atoi(id)
	p, mayStart := k.currentPlan()
	if err != nil || !mayStart || !p.Runs(worker) {
		return 0, 0, failure.NoWorker
	}
	return worker, p.Workers, nil
}

// Scale stores the wished number of workers, and waits until the plan has it, or another
// number is wished. done is false if ended is closed before.
func (k *DaemonController) Scale(ctx context.Context, store placement.PlanStore, n int, ended <-chan struct{}) (done bool, err error) {
	if err := store.RequestWorkers(ctx, k.name, n); err != nil {
		return true, err
	}
	for {
		changed := k.changed.Wait()
		if p, _ := k.currentPlan(); p.Running && (p.Workers == n || k.wishReplaced(ctx, store, n)) {
			return true, nil
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
