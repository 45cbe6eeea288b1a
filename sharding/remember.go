package sharding

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/signal"
)

// memories are the remembered entities of one type, for one incarnation.
//
//	an instance begins   -> dirty (add)    -> written behind its back
//	it passivates itself -> dirty (remove) -> written, if the shard is still here
//	a shard starts here  -> read, then started one by one, as the node's limit allows
//	a panic ended it     -> fallen -> started again, as the node's limit allows
//
// A shard is read once more a little later: writes of its former home may have been
// under way. What they added is started; what they took away, and lives here, is
// written again.
//
// The store is never waited for by an entity: what cannot be written now waits in
// dirty, where later news of the same id replace earlier ones, and more than
// dirtyMax ids are dropped and counted.
type memories struct {
	mu sync.Mutex
	// dirty holds what is not written: true adds. Invariant: waiting is its size.
	dirty   map[ShardID]map[string]bool
	waiting int
	// writing is what is being written.
	writing map[ShardID]update
	// known are the ids of hosted shards that are in the store, by allocation.
	known map[ShardID]*knownIDs
	// reads has the shards whose ids are being read, and which of them have wished to
	// end since, of which the read may not know.
	reads map[ShardID]map[string]bool
	// fallen are those that are to be started again. Each is remembered.
	fallen map[fallen]struct{}
	work   signal.Signal
	// look is rung when a shard has started.
	look signal.Signal
}

// fallen is an entity that is left without an instance against its wish.
type fallen struct {
	shard ShardID
	id    string
}

type knownIDs struct {
	token Token
	ids   map[string]bool
	// stale: to be read once more, since a node has come that may know others.
	stale bool
	// again is when to read once more; zero: not by the clock.
	again time.Time
}

const (
	// dirtyMax bounds the updates of a type that wait for the store.
	dirtyMax = 100_000
	// dirtyBatch bounds one write.
	dirtyBatch = 1000
	// rememberEvery is how often homes and the store are looked at.
	rememberEvery = 500 * time.Millisecond
	// recallsMax is how many shards are read at a time.
	recallsMax = 16
	// rememberTimeout bounds one read or write.
	rememberTimeout = 2 * time.Second
	// recallAgain is when a shard is read for the second time: the writes of its former
	// home are over.
	recallAgain = 2 * rememberTimeout
	// DefaultRememberedPerSecond is the default of Config.RememberedPerSecond.
	DefaultRememberedPerSecond = 500
)

func newMemories() *memories {
	return &memories{
		dirty: map[ShardID]map[string]bool{}, known: map[ShardID]*knownIDs{},
		writing: map[ShardID]update{}, reads: map[ShardID]map[string]bool{},
		fallen: map[fallen]struct{}{},
	}
}

// note takes the news of an instance that began, or wished to end. It is called by
// handlers' goroutines and does not wait; false means that there was no room.
func (m *memories) note(shard ShardID, id string, lives bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, waits := m.dirty[shard][id]
	k := m.known[shard]
	if !waits && lives && k != nil && k.ids[id] {
		return true
	}
	// Here it is known at once, even if there is no room to tell the store.
	if k != nil && !lives {
		delete(k.ids, id)
	}
	if ended := m.reads[shard]; !lives && ended != nil {
		ended[id] = true
	}
	if !waits && m.waiting >= dirtyMax {
		return false
	}
	m.put(shard, id, lives)
	m.work.Broadcast()
	return true
}

// put is called with the mutex.
func (m *memories) put(shard ShardID, id string, lives bool) {
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
	shard       ShardID
	add, remove []string
}

// take returns what is to be written, shard by shard.
func (m *memories) take() (all []update) {
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

// written notes a write; one that failed waits again, behind what came meanwhile.
func (m *memories) written(b update, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.writing, b.shard)
	k := m.known[b.shard]
	for _, id := range b.add {
		_, newer := m.dirty[b.shard][id]
		if ok && k != nil && !newer {
			k.ids[id] = true
		} else if !ok && !newer {
			m.put(b.shard, id, true)
		}
	}
	for _, id := range b.remove {
		if _, newer := m.dirty[b.shard][id]; !ok && !newer {
			m.put(b.shard, id, false)
		}
	}
}

// news reports whether a shard's allocation is to be read.
func (m *memories) news(shard ShardID, token Token, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[shard]
	return k == nil || k.stale || k.token != token || !k.again.IsZero() && !now.Before(k.again)
}

// forget drops what is known of a shard that is not here.
func (m *memories) forget(shard ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, shard)
}

// doubt has all shards read once more.
func (m *memories) doubt() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.known { // order-free: each is marked by itself
		k.stale = true
	}
}

// beginRead says that a shard's ids are read from now on, until learn or endRead.
func (m *memories) beginRead(shard ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ended := map[string]bool{}
	for _, id := range m.writing[shard].remove {
		ended[id] = true
	}
	m.reads[shard] = ended
	if k := m.known[shard]; k != nil {
		k.stale, k.again = false, time.Time{} // doubts that come from now on are about the next read
	}
}

// endRead gives the read of a shard up, which is made again.
func (m *memories) endRead(shard ShardID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.reads, shard)
	if k := m.known[shard]; k != nil {
		k.stale = true
	}
}

// learn notes what the store knows of an allocation, and returns which of it are to
// be started: neither those that were before, nor those that have wished to end. What
// it should know and does not is written again.
func (m *memories) learn(shard ShardID, token Token, ids []string, now time.Time) (start []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[shard]
	if k == nil || k.token != token {
		k = &knownIDs{token: token, ids: map[string]bool{}, again: now.Add(recallAgain)}
		m.known[shard] = k
	}
	m.restate(shard, k, ids)
	for _, id := range ids {
		lives, waits := m.dirty[shard][id]
		if k.ids[id] || waits && !lives || !waits && m.reads[shard][id] {
			continue
		}
		k.ids[id] = true
		start = append(start, id)
	}
	delete(m.reads, shard)
	slices.Sort(start)
	return start
}

// restate writes again what is not among the ids that were read; called with the mutex.
func (m *memories) restate(shard ShardID, k *knownIDs, read []string) {
	if len(k.ids) == 0 {
		return
	}
	there := make(map[string]bool, len(read))
	for _, id := range read {
		there[id] = true
	}
	for id := range k.ids { // order-free: each is written by itself
		if _, waits := m.dirty[shard][id]; !there[id] && !waits && m.waiting < dirtyMax {
			m.put(shard, id, true)
			m.work.Broadcast()
		}
	}
}

// moved notes that an entity which was remembered here lives in another shard now, or
// that it could not be started there, and is to be tried again.
func (m *memories) moved(shard ShardID, id string, lives bool, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.known[shard]
	if k == nil {
		return
	}
	delete(k.ids, id)
	if lives && m.waiting < dirtyMax {
		m.put(shard, id, false)
		m.work.Broadcast()
	} else if k.again.IsZero() {
		k.again = now.Add(recallAgain)
	}
}

// remembers reports whether an entity is to live: also one that is not in the store yet.
// It may have lived and ended while it waited for its turn to be started.
func (m *memories) remembers(shard ShardID, id string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.isKnown(shard, id)
}

// isKnown is called with the mutex.
func (m *memories) isKnown(shard ShardID, id string) bool {
	if lives, waits := m.dirty[shard][id]; waits {
		return lives
	}
	k := m.known[shard]
	return k != nil && k.ids[id] || slices.Contains(m.writing[shard].add, id)
}

// fell takes the news of an entity that is left without an instance. It is called by
// handlers' goroutines and does not wait.
func (m *memories) fell(shard ShardID, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isKnown(shard, id) {
		m.fallen[fallen{shard, id}] = struct{}{}
	}
}

// takeFallen returns those that fell since it was called last, in order.
func (m *memories) takeFallen() (all []fallen) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for f := range m.fallen {
		all = append(all, f)
	}
	clear(m.fallen)
	slices.SortFunc(all, func(a, b fallen) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id))
	})
	return all
}

func (m *memories) queued() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting
}

// pace lets things happen at a limited rate, evenly: no bursts.
type pace struct {
	mu    sync.Mutex
	every time.Duration
	next  time.Time
}

// wait returns at the caller's turn, or false when ctx ends.
func (p *pace) wait(ctx context.Context) bool {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	turn := p.next
	p.next = turn.Add(p.every)
	p.mu.Unlock()
	timer := time.NewTimer(clock.Ahead(time.Until(turn)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
