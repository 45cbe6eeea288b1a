package residency

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

const (
	// RememberEvery is how often shards and the store are checked.
	RememberEvery = 500 * time.Millisecond
	// readsMax is the number of shards that are read at a time.
	readsMax = 16
)

// Remembered keeps the remembered entities of one type running, for the life of the type. All
// methods are safe for concurrent use.
type Remembered struct {
	set *rememberedSet
	// shardOf returns the shard of an id; false if it has none.
	shardOf func(id string) (strategy.ShardID, bool)
	// startElsewhere starts an entity in its shard, wherever that runs.
	startElsewhere func(ctx context.Context, id string) error
	// started wakes the goroutine that reads: a shard has started.
	started signal.Signal

	recalled, dropped, failed atomic.Uint64
}

// NewRemembered returns a Remembered without entities.
func NewRemembered(shardOf func(id string) (strategy.ShardID, bool), startElsewhere func(ctx context.Context, id string) error) *Remembered {
	return &Remembered{set: newRememberedSet(), shardOf: shardOf, startElsewhere: startElsewhere}
}

// RememberedStats are the counters and the gauge of a Remembered.
type RememberedStats struct {
	// Recalled counts starts, Dropped updates without room, Failed reads and writes.
	Recalled, Dropped, Failed uint64
	// Waiting is the number of updates that wait for the store.
	Waiting int
}

// Stats returns the counters and the gauge.
func (r *Remembered) Stats() RememberedStats {
	return RememberedStats{
		Recalled: r.recalled.Load(), Dropped: r.dropped.Load(), Failed: r.failed.Load(),
		Waiting: r.set.updatesWaiting(),
	}
}

// Lived notes that an instance began, or passivated itself. It does not block.
func (r *Remembered) Lived(shard strategy.ShardID, id string, lives bool) {
	if !r.set.noteLife(shard, id, lives) {
		r.dropped.Add(1)
	}
}

// Crashed notes an entity that a panic left without an instance. It does not block.
func (r *Remembered) Crashed(shard strategy.ShardID, id string) { r.set.onCrash(shard, id) }

// ShardStarted makes the goroutine read without delay.
func (r *Remembered) ShardStarted() { r.started.Broadcast() }

// Serve keeps the entities of h running until the incarnation ends.
func (r *Remembered) Serve(h *Home) {
	if h.Store == nil {
		h.Log.Error("sharding: nothing is remembered: the Store is no Rememberer", "type", h.Type)
		return
	}
	h.Work.Go(func() { r.recallShards(h) })
	h.Work.Go(func() { r.writeUpdates(h) })
	h.Work.Go(func() { r.restartCrashed(h) })
}

// restartCrashed starts crashed entities again, each at most once in RememberEvery, and at the
// node's rate.
func (r *Remembered) restartCrashed(h *Home) {
	for {
		select {
		case <-h.Ctx.Done():
			return
		case <-time.After(RememberEvery):
		}
		for _, c := range r.set.takeCrashed() {
			if !h.Pace.Wait(h.Ctx) {
				return
			}
			if s := h.Shard(c.shard); s != nil && r.set.remembers(c.shard, c.id) {
				r.startEntity(s, c.id)
			}
		}
	}
}

// recallShards starts the remembered entities of the shards that have started here. It also
// requests the homes of all shards, which otherwise only a message does. When a node has
// joined, all shards are read once more: after a restart of the cluster, its disk may hold ids
// that the first nodes did not have. Several shards are read at a time: a node that takes over
// a thousand shards would otherwise need a thousand round trips in a row.
func (r *Remembered) recallShards(h *Home) {
	var before []gossip.NodeID
	for {
		woken := r.started.Wait()
		now := h.Members().Nodes
		if slices.ContainsFunc(now, func(n gossip.NodeID) bool { return !slices.Contains(before, n) }) {
			r.set.invalidate()
		}
		before = now
		r.readShards(h)
		select {
		case <-h.Ctx.Done():
			return
		case <-woken:
		case <-time.After(RememberEvery): // no ticker: its ticks would pass during the reads, see clock.Ahead
		}
	}
}

// readShards reads the shards that need it, and forgets those that are not here.
func (r *Remembered) readShards(h *Home) {
	var reads sync.WaitGroup
	room := make(chan struct{}, readsMax)
	for i := range strategy.ShardID(h.Shards) {
		h.WantHome(i)
		s := h.Shard(i)
		if s == nil {
			r.set.forgetShard(i)
			continue
		}
		if h.LeaseValid() && r.set.needsRead(i, s.Token(), time.Now()) {
			room <- struct{}{}
			reads.Go(func() {
				r.readShard(h, i, s)
				<-room
			})
		}
	}
	reads.Wait()
}

// readShard reads the remembered entities of a shard and starts them. A failed read is
// repeated by the next call of readShards.
func (r *Remembered) readShard(h *Home, i strategy.ShardID, s Shard) {
	ctx, cancel := context.WithTimeout(h.Ctx, storeTimeout)
	defer cancel()
	r.set.beginRead(i)
	ids, err := h.Store.Remembered(ctx, h.Type, i)
	if err != nil {
		r.failed.Add(1)
	}
	if err != nil || !h.LeaseValid() {
		// Without a lease, another node may be the home and have newer ids.
		r.set.failRead(i)
		return
	}
	if start := r.set.finishRead(i, s.Token(), ids, time.Now()); len(start) > 0 {
		h.Work.Go(func() { r.startEntities(h, i, s, start) })
	}
}

// startEntities starts entities of a shard one by one, at the node's rate. Entities that
// belong to another shard by now come last.
func (r *Remembered) startEntities(h *Home, i strategy.ShardID, s Shard, ids []string) {
	turn := func() bool { return h.Pace.Wait(h.Ctx) && h.Shard(i) == s }
	var elsewhere []string
	for _, id := range ids {
		switch at, ok := r.shardOf(id); {
		case !ok || at == i && s.Lives(id):
		case at != i:
			elsewhere = append(elsewhere, id)
		case !turn():
			return
		case r.set.remembers(i, id):
			r.startEntity(s, id)
		}
	}
	for _, id := range elsewhere {
		if !turn() {
			return
		}
		r.moveEntity(h, i, id)
	}
}

// startEntity starts a remembered entity, unless it lives.
func (r *Remembered) startEntity(s Shard, id string) {
	if s.Ensure(id) {
		r.recalled.Add(1)
	}
}

// moveEntity starts an entity of shard i in its new shard, and forgets it here once it lives
// there: the application changed ShardOf, or the number of shards, while all nodes were down.
func (r *Remembered) moveEntity(h *Home, i strategy.ShardID, id string) {
	ctx, cancel := context.WithTimeout(h.Ctx, storeTimeout)
	defer cancel()
	err := r.startElsewhere(ctx, id)
	if err == nil {
		r.recalled.Add(1)
	}
	r.set.noteMoved(i, id, err == nil, time.Now())
}

// writeUpdates writes the updates to the store until the incarnation ends.
func (r *Remembered) writeUpdates(h *Home) {
	for {
		woken := r.set.work.Wait()
		failed := false
		for _, b := range r.set.takeUpdates() {
			failed = !r.writeUpdate(h, b) || failed
		}
		if !failed && r.set.updatesWaiting() > 0 {
			continue
		}
		if failed {
			// Wait the full time before the next attempt; updates are merged meanwhile.
			woken = nil
		}
		select {
		case <-h.Ctx.Done():
			return
		case <-woken:
		case <-time.After(RememberEvery):
		}
	}
}

func (r *Remembered) writeUpdate(h *Home, b update) (ok bool) {
	if h.Shard(b.shard) == nil {
		// Leave the removal of ids to the shard's next home.
		b.remove = nil
	}
	if len(b.add)+len(b.remove) == 0 {
		r.set.finishWrite(b, true)
		return true
	}
	ctx, cancel := context.WithTimeout(h.Ctx, storeTimeout)
	defer cancel()
	err := h.Store.Remember(ctx, h.Type, b.shard, b.add, b.remove)
	r.set.finishWrite(b, err == nil)
	if err != nil {
		r.failed.Add(1)
	}
	return err == nil
}
