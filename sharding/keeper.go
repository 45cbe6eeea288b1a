package sharding

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/signal"
)

// workerKeeper is the shell of package daemon: it follows the plan, ends workers
// that must not run, says so, and writes plans while this node is in office.
type workerKeeper struct {
	name       string
	first, max int
	residents  *residents
	registry   *Registry
	// ended is closed with the registry.
	ended <-chan struct{}
	// plan is the newest that was seen, nil before the first. It outlives incarnations:
	// plans only grow.
	plan atomic.Pointer[daemon.Plan]
	// wish is what this node's replica says: the order of its changes is the store's.
	wish atomic.Int64
	// changed rings when either changes.
	changed signal.Signal
	// knows: this incarnation has read the plan from a majority since it said that it
	// is there. Nobody starts before.
	knows atomic.Bool
}

// of names the worker of a shard.
func (k *workerKeeper) of(s ShardID) []string {
	if !runs(k.plan.Load(), int(s)) {
		return nil
	}
	return []string{strconv.Itoa(int(s))}
}

// begins says which worker starts, and of how many: those of the plan by which it may.
// It refuses one that is not to run. An instance that it lets start is in its shard's
// table already, so a plan that stops it afterwards finds it.
func (k *workerKeeper) begins(id string) (worker, of int, err error) {
	worker, err = strconv.Atoi(id)
	p := k.plan.Load()
	if err != nil || !k.knows.Load() || !runs(p, worker) {
		return 0, 0, ErrNoWorker
	}
	return worker, p.Workers, nil
}

// hear takes what this node's replica says.
func (k *workerKeeper) hear(s daemon.State) {
	k.wish.Store(int64(s.Wish))
	k.see(s.Plan)
}

// see keeps the newer plan.
func (k *workerKeeper) see(p daemon.Plan) {
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
	k.residents.wake.Broadcast()
}

// workforce is what the keeper needs of the path: its type's instances here.
type workforce interface {
	// dismiss ends all instances and reports how many there are still.
	dismiss() int
	// forsake abandons those that there are still.
	forsake(inc *incarnation)
}

// keeping is one incarnation's keeping of a daemon.
type keeping struct {
	k     *workerKeeper
	inc   *incarnation
	store placement.PlanStore
	hands workforce
	// present: a majority knows that this node is there.
	present bool
	// since is the epoch of the view by which it said so.
	since gossip.Epoch
	acked daemon.Rev
	// stopping is the plan for which instances are being ended, patience when those that
	// have not ended are abandoned.
	stopping daemon.Rev
	patience time.Time
	within   time.Duration
}

// serve begins the keeping for an incarnation.
func (k *workerKeeper) serve(inc *incarnation, hands workforce, within time.Duration) (look func() (may, soon bool), end func()) {
	kp := &keeping{k: k, inc: inc, store: inc.plans, hands: hands, within: within}
	if kp.store == nil {
		return func() (may, soon bool) { return false, false }, func() {}
	}
	cancel := kp.store.WatchPlan(k.name, k.hear)
	return kp.look, func() {
		k.knows.Store(false)
		cancel()
	}
}

// look does what is due. Its errors are those of a majority that cannot be
// reached: the next look tries again.
func (kp *keeping) look() (may, soon bool) {
	ctx, cancel := context.WithTimeout(kp.inc.ctx, residentEvery)
	defer cancel()
	if !kp.present {
		m := kp.inc.members()
		if !slices.Contains(m.Nodes, kp.inc.self) {
			return false, true
		}
		kp.since = m.Epoch
		kp.present = kp.store.AckPlan(ctx, kp.k.name, kp.inc.self, daemon.Ack{Since: kp.since}) == nil
	}
	if kp.present && !kp.k.knows.Load() {
		s, err := kp.store.ReadPlan(ctx, kp.k.name, 0)
		if err == nil {
			kp.k.see(s.Plan)
			kp.k.knows.Store(true)
		}
	}
	if !kp.k.knows.Load() {
		return false, false
	}
	soon = kp.stop(ctx)
	kp.govern(ctx)
	return true, soon
}

// stop ends what must not run, and says so when it has ended; until then it
// reports that it is busy.
func (kp *keeping) stop(ctx context.Context) (busy bool) {
	p := kp.k.plan.Load()
	if p == nil || p.Running || kp.acked == p.Rev {
		return false
	}
	if kp.stopping != p.Rev {
		kp.stopping, kp.patience = p.Rev, time.Now().Add(kp.within)
	}
	if kp.hands.dismiss() > 0 {
		if time.Now().After(kp.patience) && kp.inc.alive() {
			kp.hands.forsake(kp.inc)
		}
		return true
	}
	if kp.store.AckPlan(ctx, kp.k.name, kp.inc.self, daemon.Ack{Rev: p.Rev, Since: kp.since}) == nil {
		kp.acked = p.Rev
	}
	return false
}

// govern writes the next plan, if this node is in office and one is due.
func (kp *keeping) govern(ctx context.Context) {
	term := kp.inc.office()
	p := kp.k.plan.Load()
	if wish := int(kp.k.wish.Load()); term == 0 || p != nil && p.Running && (wish == 0 || wish == p.Workers) {
		return
	}
	s, err := kp.store.ReadPlan(ctx, kp.k.name, term)
	if err != nil {
		return
	}
	s.Wish = min(s.Wish, kp.k.max)
	members := kp.inc.members()
	next, due := daemon.Next(&s, term, kp.k.first, members)
	if !due || kp.store.WritePlan(ctx, kp.k.name, term, next, daemon.Stale(&s, members)) != nil {
		return
	}
	kp.k.see(next)
}

// scale says what is wished, and waits until the plan agrees.
func (k *workerKeeper) scale(ctx context.Context, n int) error {
	if n < 1 || n > k.max {
		return &TypeError{Type: k.name, Wrong: []string{fmt.Sprintf("workers must be 1 to %d, not %d", k.max, n)}}
	}
	s, p, err := k.registry.serving(k.name)
	if err != nil {
		return err
	}
	store := s.plans(p.describe().role)
	if store == nil {
		return ErrNoRole
	}
	if err := store.RequestWorkers(ctx, k.name, n); err != nil {
		return err
	}
	for {
		changed := k.changed.Wait()
		if p := k.plan.Load(); p != nil && p.Running {
			if p.Workers == n || k.overtaken(ctx, store, n) {
				return nil
			}
		}
		select {
		case <-changed:
		case <-k.ended:
			return ErrNodeStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// overtaken reports whether another number is wished by now. A majority is asked:
// this node may not even have heard of its own wish.
func (k *workerKeeper) overtaken(ctx context.Context, store placement.PlanStore, n int) bool {
	s, err := store.ReadPlan(ctx, k.name, 0)
	return err == nil && s.Wish != n
}
