package residency

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

const (
	// CheckEvery is the time between two rounds: an entity that has ended starts again after
	// this time at the latest.
	CheckEvery = core.Every
	// RereadAfter is the time between the first and the second read of a shard.
	RereadAfter = core.RereadAfter
)

// Reconciler starts the entities of one type that must run without messages, for the life of
// the type. In each incarnation, one goroutine performs the actions of its core, and a goroutine
// each those that wait for other nodes. All methods are safe for concurrent use.
type Reconciler struct {
	// startElsewhere starts an entity in its shard, wherever that runs. It is nil unless
	// entities are remembered.
	startElsewhere func(ctx context.Context, id string) error
	// follows is set if a plan names the entities.
	follows bool

	mu   sync.Mutex
	core *core.Core
	// changed wakes the goroutine, and the callers of Scale.
	changed signal.Signal

	recalled, failed atomic.Uint64
}

// NewAlwaysOn returns the Reconciler of the entities that id returns for each shard, "" for
// none: they run as long as their shard does.
func NewAlwaysOn(shards uint32, id func(strategy.ShardID) string) *Reconciler {
	return &Reconciler{core: core.New(core.Config{Shards: shards, AlwaysOn: id})}
}

// NewRemembered returns the Reconciler of remembered entities. shardOf returns the shard of an
// id; false if it has none.
func NewRemembered(shards uint32, shardOf func(id string) (strategy.ShardID, bool), startElsewhere func(ctx context.Context, id string) error) *Reconciler {
	return &Reconciler{core: core.New(core.Config{Shards: shards, ShardOf: shardOf}), startElsewhere: startElsewhere}
}

// Stats are the counters and the gauge of remembered entities.
type Stats struct {
	// Recalled counts starts, Dropped updates that were given up, Failed reads and writes.
	Recalled, Dropped, Failed uint64
	// Waiting is the number of updates that wait for the store.
	Waiting int
}

// Stats returns the counters and the gauge.
func (r *Reconciler) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{Recalled: r.recalled.Load(), Dropped: r.core.Dropped(), Failed: r.failed.Load(), Waiting: r.core.Waiting()}
}

// Lived notes that an instance began, or passivated itself. It does not block.
func (r *Reconciler) Lived(shard strategy.ShardID, id string, lives bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.NoteLife(shard, id, lives)
	r.changed.Broadcast()
}

// Crashed notes an entity that a panic left without an instance. It does not block.
func (r *Reconciler) Crashed(shard strategy.ShardID, id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.NoteCrash(shard, id)
}

// ShardStarted makes the entities of a new shard start without delay.
func (r *Reconciler) ShardStarted() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Inspect()
	r.changed.Broadcast()
}

// onReplica adopts the state of this node's replica.
func (r *Reconciler) onReplica(s daemon.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.NotePlan(&s)
	r.changed.Broadcast()
}

// Serve keeps the entities of h running until the incarnation ends.
func (r *Reconciler) Serve(h *Home) {
	switch {
	case r.startElsewhere != nil && h.Store == nil:
		h.Log.Error("sharding: nothing is remembered; the Store is no Rememberer (please report)", "type", h.Type)
	case !r.follows || h.Plans != nil:
		h.Work.Go(func() { r.serveIncarnation(h) })
	}
}

func (r *Reconciler) serveIncarnation(h *Home) {
	var remote sync.WaitGroup
	r.attachTo(h)
	if r.follows {
		defer h.Plans.WatchPlan(h.Type, r.onReplica)()
	}
	defer r.detach(&remote)
	for {
		woken := r.changed.Wait()
		timer := time.NewTimer(clock.Ahead(r.performDue(h, &remote)))
		select {
		case <-h.Ctx.Done():
			timer.Stop()
			return
		case <-woken:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (r *Reconciler) attachTo(h *Home) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Attach(&h.Node, h.Clock.Now())
}

func (r *Reconciler) detach(remote *sync.WaitGroup) {
	remote.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Detach()
}

// performDue performs all actions that are due, and returns the time until the next one.
func (r *Reconciler) performDue(h *Home, remote *sync.WaitGroup) (wait time.Duration) {
	for h.Ctx.Err() == nil {
		a, ok, until := r.nextAction(h)
		switch {
		case !ok:
			return until
		case a.Blocks():
			remote.Go(func() {
				o, err := h.performRemote(&a, r.startElsewhere)
				if err != nil && (a.Kind == core.Read || a.Kind == core.Write) {
					r.failed.Add(1)
				}
				r.endAction(h, &a, &o)
				r.changed.Broadcast()
			})
		default:
			o := h.performLocal(&a)
			r.endAction(h, &a, &o)
		}
	}
	return 0
}

func (r *Reconciler) nextAction(h *Home) (a core.Action, ok bool, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := h.Clock.Now()
	a, ok = r.core.Next(now)
	return a, ok, r.core.Deadline().Sub(now)
}

// endAction reports the outcome of an action to the core.
func (r *Reconciler) endAction(h *Home, a *core.Action, o *core.Outcome) {
	if o.OK && (a.Kind == core.Recall || a.Kind == core.RecallElsewhere) {
		r.recalled.Add(1)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.core.Done(a, o, h.Clock.Now())
}
