package residency

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/internal/assert"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// set holds the remembered entities of all shards, and exchanges them with the store.
type set struct {
	*env
	// toRead and toWrite list shards that may need a read or a write; a shard may be listed
	// twice.
	toRead, toWrite []strategy.ShardID
	// reads and writes are the numbers in flight.
	reads, writes int
	// waiting is the number of queued ids, delayed that of delayed ones. toQueue lists the shards
	// that had some.
	waiting, delayed int
	toQueue          []strategy.ShardID
	// dropped counts the updates that were given up.
	dropped uint64
}

// noteLife queues the update for an instance that began, or passivated itself. Without room, the
// former is delayed, and the latter dropped: entities that live are bounded by themselves, those
// that have lived are not.
func (t *set) noteLife(i strategy.ShardID, id string, lives bool) {
	s := &t.shards[i]
	m := s.ids[id]
	switch {
	case lives && m&wanted != 0:
	case lives:
		t.require(i, id, m|wanted)
	default:
		// Forget the id immediately, even if the update finds no room.
		m = t.undelay(s, m) &^ wanted
		s.putMark(id, m)
		if m&queued == 0 && t.room() == 0 {
			t.dropped++
			return
		}
		t.queueUpdate(i, id, m)
	}
}

// most bounds the queue.
func (t *set) most() int { return cmp.Or(t.cfg.UpdatesMax, UpdatesMax) }

// room returns the number of updates for which the queue has room.
func (t *set) room() int { return max(t.most()-t.waiting, 0) }

// require queues an id that must run, or delays it if there is no room.
func (t *set) require(i strategy.ShardID, id string, m mark) {
	s := &t.shards[i]
	if m&queued != 0 || t.room() > 0 {
		t.queueUpdate(i, id, m)
		return
	}
	s.ids[id] = m | delayed
	t.delayed++
	s.delayed++
	if !s.listed {
		s.listed = true
		t.toQueue = append(t.toQueue, i)
	}
}

// undelay returns the mark of an id without the delay.
func (t *set) undelay(s *shard, m mark) mark {
	if m&delayed != 0 {
		t.delayed--
		s.delayed--
	}
	return m &^ delayed
}

// queueDelayed queues the delayed ids, once half of the queue is free.
func (t *set) queueDelayed() {
	for len(t.toQueue) > 0 && t.room() > t.waiting {
		i := t.toQueue[0]
		t.queueDelayedOf(i)
		if t.shards[i].delayed > 0 {
			return // There is no room.
		}
		t.toQueue, t.shards[i].listed = t.toQueue[1:], false
	}
}

// queueDelayedOf queues as many delayed ids of a shard as have room.
func (t *set) queueDelayedOf(i strategy.ShardID) {
	s := &t.shards[i]
	if s.delayed == 0 {
		return
	}
	ids := make([]string, 0, s.delayed)
	for id, m := range s.ids { // order-free: sorted below
		if m&delayed != 0 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids[:min(len(ids), t.room())] {
		t.queueUpdate(i, id, s.ids[id])
	}
}

// leaveShard keeps the delayed ids of a shard that is not here any longer, unless they are too many:
// no entity here bounds them.
func (t *set) leaveShard(i strategy.ShardID) {
	s := &t.shards[i]
	if s.delayed == 0 || t.delayed <= delayedMost*t.most() {
		return
	}
	t.dropped += uint64(s.delayed)
	for id, m := range s.ids { // order-free: each is forgotten by itself
		if m&delayed != 0 {
			s.putMark(id, t.undelay(s, m)&^wanted)
		}
	}
}

// queueUpdate makes an id wait for the store.
func (t *set) queueUpdate(i strategy.ShardID, id string, m mark) {
	s := &t.shards[i]
	m = t.undelay(s, m)
	if m&queued == 0 {
		t.waiting++
		s.updates = append(s.updates, id)
	}
	s.ids[id] = m | queued
	if len(s.updates) == 1 {
		t.listWrite(i)
	}
}

// listWrite lists a shard whose updates may be written.
func (t *set) listWrite(i strategy.ShardID) {
	if len(t.shards[i].updates) > 0 {
		t.toWrite = append(t.toWrite, i)
	}
}

// nextWrite returns the next write.
func (t *set) nextWrite() (a Action, ok bool) {
	t.queueDelayed()
	for t.writes < writesMax && len(t.toWrite) > 0 {
		i := t.toWrite[0]
		t.toWrite = t.toWrite[1:]
		s := &t.shards[i]
		if s.writing || s.tried.write {
			continue
		}
		here := t.node.Token(i) != noToken
		if a = t.takeUpdates(i, here); len(a.Add)+len(a.Remove) == 0 {
			continue
		}
		if assert.Enabled {
			assertHome(here, &a)
		}
		s.writing = true
		t.writes++
		return a, true
	}
	return Action{}, false
}

// assertHome checks that only the home of a shard removes ids.
func assertHome(here bool, a *Action) {
	if !here && len(a.Remove) > 0 {
		assert.Broken("Remembered entities", "shard %d is not here, and %q are removed", a.Shard, a.Remove)
	}
}

// takeUpdates takes the oldest updates of a shard. Removals are left to the home of the shard.
func (t *set) takeUpdates(i strategy.ShardID, here bool) Action {
	s := &t.shards[i]
	a := Action{Kind: Write, Shard: i}
	n := min(len(s.updates), batchMax)
	for _, id := range s.updates[:n] {
		m := s.ids[id] &^ queued
		switch {
		case m&wanted != 0:
			a.Add = append(a.Add, id)
			m |= sending
		case here:
			a.Remove = append(a.Remove, id)
			m |= sending
		}
		s.putMark(id, m)
	}
	s.updates = s.updates[n:]
	t.waiting -= n
	t.listWrite(i)
	return a
}

// endWrite ends a write. The ids of a failed write wait again, unless they have later updates.
func (t *set) endWrite(a *Action, ok bool) {
	s := &t.shards[a.Shard]
	s.writing, s.tried.write = false, !ok
	t.writes--
	for _, ids := range [][]string{a.Add, a.Remove} {
		for _, id := range ids {
			m := s.ids[id] &^ sending
			if ok && m == wanted && s.token == noToken {
				m = 0 // The next home knows it from the store.
			}
			s.putMark(id, m)
			if !ok && m&queued == 0 {
				t.queueUpdate(a.Shard, id, m)
			}
		}
	}
	t.listWrite(a.Shard)
}

// nextRead returns the next read.
func (t *set) nextRead(now clock.Instant) (a Action, ok bool) {
	for t.reads < readsMax && len(t.toRead) > 0 {
		i := t.toRead[0]
		t.toRead = t.toRead[1:]
		s := &t.shards[i]
		if s.reading || s.tried.read || !s.needsRead(now) || t.node.Token(i) != s.token || !t.node.LeaseValid() {
			continue
		}
		s.reading, s.stale = true, false
		if !now.Before(s.rereadAt) {
			s.rereadAt = clock.Never
		}
		t.reads++
		return Action{Kind: Read, Shard: i, Token: s.token}, true
	}
	return Action{}, false
}

// endRead ends a read and returns the ids to start, sorted.
func (t *set) endRead(a *Action, ok bool, ids []string, now clock.Instant) (start []string) {
	s := &t.shards[a.Shard]
	s.reading = false
	t.reads--
	switch {
	case a.Token != s.token: // the present allocation is read by itself
	case !ok:
		s.stale, s.tried.read = true, true
	default:
		start = t.addRead(a.Shard, ids)
		if !s.read || len(start) > 0 {
			s.read, s.rereadAt = true, now.Add(RereadAfter) // A former home may still write.
		}
	}
	for id, m := range s.ids { // order-free: each is forgotten by itself
		s.putMark(id, m)
	}
	return start
}

// addRead adds the ids that a read has returned, except those removed since it began. Ids that
// it has not returned are written again. It returns the ids to start: those that are new. The
// first read of an allocation returns all that are wanted, since an entity that began under a
// former allocation has no instance in this one.
func (t *set) addRead(i strategy.ShardID, ids []string) (start []string) {
	s := &t.shards[i]
	isNew := make(map[string]bool, len(ids))
	for _, id := range ids {
		_, in := s.ids[id]
		isNew[id] = isNew[id] || !in
		if !in {
			s.ids[id] = wanted
		}
	}
	var lost []string
	for id, m := range s.ids { // order-free: both results are sorted
		fresh, found := isNew[id]
		if m&wanted != 0 && (fresh || !s.read) {
			start = append(start, id)
		}
		if m == wanted && !found {
			lost = append(lost, id)
		}
	}
	slices.Sort(start)
	slices.Sort(lost)
	for _, id := range lost {
		t.require(i, id, wanted)
	}
	return start
}

// noteMoved forgets an entity that lives in another shard now, since the application changed
// ShardOf, or the number of shards, while all nodes were down. lives is false if it could not
// be started there: then the shard is read again later.
func (t *set) noteMoved(i strategy.ShardID, id string, lives bool, now clock.Instant) {
	s := &t.shards[i]
	if s.token == noToken {
		return
	}
	m := t.undelay(s, s.ids[id]) &^ wanted
	if lives && t.room() > 0 {
		t.queueUpdate(i, id, m)
		return
	}
	s.putMark(id, m)
	if s.rereadAt == clock.Never {
		s.rereadAt = now.Add(RereadAfter)
	}
}
