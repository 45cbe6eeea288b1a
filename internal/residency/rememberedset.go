package residency

import (
	"cmp"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/signal"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// rememberedSet holds the ids of the remembered entities of one type.
//
//	an instance begins    -> dirty (add)    -> written asynchronously
//	it passivates itself  -> dirty (remove) -> written, if the shard is still here
//	a shard starts here   -> read, then started one by one, as the node's limit allows
//	an instance crashes   -> crashed -> started again, as the node's limit allows
//
// A shard is read once more a little later, since writes of its former home may have been in
// flight. Ids that these writes added are started. Ids that they removed, and whose entities
// live here, are written again.
//
// No entity waits for the store. An update that cannot be written now waits in dirty, where a
// later update of the same id replaces it. Beyond dirtyMax ids, updates are dropped and
// counted. All methods are safe for concurrent use.
type rememberedSet struct {
	mu sync.Mutex
	// dirty holds the updates that wait: true adds the id. Invariant: waiting is its size.
	dirty   map[strategy.ShardID]map[string]bool
	waiting int
	// writing holds the updates that are being written.
	writing map[strategy.ShardID]update
	// stored holds the ids of hosted shards that are in the store.
	stored map[strategy.ShardID]*storedIDs
	// reads has the shards whose ids are being read, each with the ids that were removed
	// (false) or written (true) since the read began: its result may not show that.
	reads map[strategy.ShardID]map[string]bool
	// crashed are the entities to start again. Each is remembered.
	crashed map[crashedEntity]struct{}
	// work wakes the goroutine that writes.
	work signal.Signal
}

// crashedEntity is an entity that a panic left without an instance.
type crashedEntity struct {
	shard strategy.ShardID
	id    string
}

// storedIDs are the ids of one allocation of a shard.
type storedIDs struct {
	token protocol.Token
	ids   map[string]bool
	// stale is set if the shard must be read again: a node has joined that may have more ids.
	stale bool
	// again is when to read once more; zero means never.
	again time.Time
}

const (
	// dirtyMax bounds the updates of a type that wait for the store.
	dirtyMax = 100_000
	// dirtyBatch bounds one write.
	dirtyBatch = 1000
	// storeTimeout bounds one read or write.
	storeTimeout = 2 * time.Second
	// RereadAfter is the time between the first and the second read of a shard: the writes of
	// its former home are over by then.
	RereadAfter = 2 * storeTimeout
)

func newRememberedSet() *rememberedSet {
	return &rememberedSet{
		dirty: map[strategy.ShardID]map[string]bool{}, stored: map[strategy.ShardID]*storedIDs{},
		writing: map[strategy.ShardID]update{}, reads: map[strategy.ShardID]map[string]bool{},
		crashed: map[crashedEntity]struct{}{},
	}
}

// noteLife queues the update for an instance that began, or passivated itself. The goroutines
// of handlers call it, so it does not wait. It returns false if there was no room.
func (m *rememberedSet) noteLife(shard strategy.ShardID, id string, lives bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, waits := m.dirty[shard][id]
	k := m.stored[shard]
	if !waits && lives && k != nil && k.ids[id] {
		return true
	}
	// Forget the id immediately, even if the update finds no room.
	if k != nil && !lives {
		delete(k.ids, id)
	}
	if updated := m.reads[shard]; !lives && updated != nil {
		updated[id] = false
	}
	if !waits && m.waiting >= dirtyMax {
		return false
	}
	m.queueUpdate(shard, id, lives)
	m.work.Broadcast()
	return true
}

// queueUpdate is called with the mutex.
func (m *rememberedSet) queueUpdate(shard strategy.ShardID, id string, lives bool) {
	if m.dirty[shard] == nil {
		m.dirty[shard] = map[string]bool{}
	}
	if _, waits := m.dirty[shard][id]; !waits {
		m.waiting++
	}
	m.dirty[shard][id] = lives
}

// update is one write.
type update struct {
	shard       strategy.ShardID
	add, remove []string
}

// takeUpdates returns the updates to write, at most dirtyBatch ids of each shard.
func (m *rememberedSet) takeUpdates() (all []update) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for shard, ids := range m.dirty { // order-free: every shard's write stands alone
		b := update{shard: shard}
		for id, lives := range ids {
			if len(b.add)+len(b.remove) >= dirtyBatch {
				break
			}
			if lives {
				b.add = append(b.add, id)
			} else {
				b.remove = append(b.remove, id)
			}
			delete(ids, id)
			m.waiting--
		}
		m.writing[shard] = b
		if len(ids) == 0 {
			delete(m.dirty, shard)
		}
		all = append(all, b)
	}
	return all
}

// finishWrite ends a write. The ids of a failed write wait again, unless they have later
// updates.
func (m *rememberedSet) finishWrite(b update, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writing, b.shard)
	k := m.stored[b.shard]
	for _, id := range b.add {
		_, newer := m.dirty[b.shard][id]
		if newer {
			continue
		}
		if !ok {
			m.queueUpdate(b.shard, id, true)
			continue
		}
		if k != nil {
			k.ids[id] = true
		}
		if updated := m.reads[b.shard]; updated != nil {
			updated[id] = true
		}
	}
	for _, id := range b.remove {
		if _, newer := m.dirty[b.shard][id]; !ok && !newer {
			m.queueUpdate(b.shard, id, false)
		}
	}
}

// needsRead reports whether an allocation of a shard must be read.
func (m *rememberedSet) needsRead(shard strategy.ShardID, token protocol.Token, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.stored[shard]
	return k == nil || k.stale || k.token != token || !k.again.IsZero() && !now.Before(k.again)
}

// forgetShard drops the ids of a shard that is not here.
func (m *rememberedSet) forgetShard(shard strategy.ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.stored, shard)
}

// invalidate makes all shards need a read.
func (m *rememberedSet) invalidate() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.stored { // order-free: each is marked by itself
		k.stale = true
	}
}

// beginRead begins the read of a shard's ids: finishRead or failRead follows.
func (m *rememberedSet) beginRead(shard strategy.ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	updated := map[string]bool{}
	for _, id := range m.writing[shard].remove {
		updated[id] = false
	}
	m.reads[shard] = updated
	if k := m.stored[shard]; k != nil {
		k.stale, k.again = false, time.Time{} // a later invalidate concerns the next read
	}
}

// failRead ends the read of a shard, which must be repeated.
func (m *rememberedSet) failRead(shard strategy.ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reads, shard)
	if k := m.stored[shard]; k != nil {
		k.stale = true
	}
}

// finishRead ends the read of an allocation and returns the ids to start: those that are new,
// and were not removed since. Ids that were written during the read count as read. Ids of the
// set that the store does not have are written again.
func (m *rememberedSet) finishRead(shard strategy.ShardID, token protocol.Token, ids []string, now time.Time) (start []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.stored[shard]
	if k == nil || k.token != token {
		k = &storedIDs{token: token, ids: map[string]bool{}, again: now.Add(RereadAfter)}
		m.stored[shard] = k
	}
	updated := m.reads[shard]
	ids = slices.Clip(ids)
	for id, written := range updated { // order-free: start is sorted
		if written {
			ids = append(ids, id)
		}
	}
	m.rewriteMissing(shard, k, ids)
	for _, id := range ids {
		lives, waits := m.dirty[shard][id]
		written, isUpdated := updated[id]
		if k.ids[id] || waits && !lives || !waits && isUpdated && !written {
			continue
		}
		k.ids[id] = true
		start = append(start, id)
	}
	delete(m.reads, shard)
	slices.Sort(start)
	return start
}

// rewriteMissing queues the stored ids that a read did not return; called with the mutex.
func (m *rememberedSet) rewriteMissing(shard strategy.ShardID, k *storedIDs, read []string) {
	if len(k.ids) == 0 {
		return
	}
	there := make(map[string]bool, len(read))
	for _, id := range read {
		there[id] = true
	}
	for id := range k.ids { // order-free: each is written by itself
		if _, waits := m.dirty[shard][id]; !there[id] && !waits && m.waiting < dirtyMax {
			m.queueUpdate(shard, id, true)
			m.work.Broadcast()
		}
	}
}

// noteMoved removes an entity that belongs to another shard now. lives is false if it could
// not be started there: then the shard is read again later.
func (m *rememberedSet) noteMoved(shard strategy.ShardID, id string, lives bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.stored[shard]
	if k == nil {
		return
	}
	delete(k.ids, id)
	if lives && m.waiting < dirtyMax {
		m.queueUpdate(shard, id, false)
		m.work.Broadcast()
	} else if k.again.IsZero() {
		k.again = now.Add(RereadAfter)
	}
}

// remembers reports whether an entity must live. The store may not have it yet. An entity
// that waits to be started may have lived and passivated itself meanwhile.
func (m *rememberedSet) remembers(shard strategy.ShardID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isRemembered(shard, id)
}

// isRemembered is called with the mutex.
func (m *rememberedSet) isRemembered(shard strategy.ShardID, id string) bool {
	if lives, waits := m.dirty[shard][id]; waits {
		return lives
	}
	k := m.stored[shard]
	return k != nil && k.ids[id] || slices.Contains(m.writing[shard].add, id)
}

// onCrash notes an entity that a panic left without an instance. The goroutines of handlers
// call it, so it does not wait.
func (m *rememberedSet) onCrash(shard strategy.ShardID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isRemembered(shard, id) {
		m.crashed[crashedEntity{shard, id}] = struct{}{}
	}
}

// takeCrashed returns the entities that crashed since the last call, in order.
func (m *rememberedSet) takeCrashed() (all []crashedEntity) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.crashed {
		all = append(all, c)
	}
	clear(m.crashed)
	slices.SortFunc(all, func(a, b crashedEntity) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id))
	})
	return all
}

// updatesWaiting returns the number of updates that wait for the store.
func (m *rememberedSet) updatesWaiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}
