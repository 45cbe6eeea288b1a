package residency

import (
	"cmp"
	"maps"
	"slices"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// starts decides when remembered entities start. The queues take turns.
type starts struct {
	*env
	queues []*startQueue
	// turn is the reserved turn, Never if there is none.
	turn clock.Instant
	// crashed are the entities to start again, again those that wait for their turns already.
	crashed map[entity]struct{}
	again   startQueue
	// starting are the recalled entities that have not begun, by the times of their starts: so a
	// node starts as many as it bears.
	starting map[entity]clock.Instant
}

// addRead queues the starts of a shard. Entities that belong to another shard by now come
// last; those that belong to none wait for a message.
func (t *starts) addRead(i strategy.ShardID, ids []string) {
	s := &t.shards[i]
	var elsewhere []start
	for _, id := range ids {
		at, ok := t.cfg.ShardOf(id)
		switch e := (start{entity{i, id}, s.token, at != i}); {
		case !ok:
		case e.elsewhere:
			elsewhere = append(elsewhere, e)
		default:
			s.starts.entries = append(s.starts.entries, e)
		}
	}
	s.starts.entries = append(s.starts.entries, elsewhere...)
	t.listQueue(&s.starts)
}

// retryCrashed queues the entities that have crashed, unless earlier ones still wait for their
// turns: else an entity could be queued twice.
func (t *starts) retryCrashed() {
	if len(t.again.entries) > 0 {
		return
	}
	for e := range t.crashed { // order-free: sorted below
		t.again.entries = append(t.again.entries, start{e, t.shards[e.shard].token, false})
	}
	clear(t.crashed)
	slices.SortFunc(t.again.entries, func(a, b start) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.id, b.id))
	})
	t.listQueue(&t.again)
}

// listQueue makes a queue take turns.
func (t *starts) listQueue(q *startQueue) {
	if len(q.entries) > 0 && !q.listed && !q.moving {
		q.listed = true
		t.queues = append(t.queues, q)
	}
}

// nextRecall returns the next start of a remembered entity, if its turn has come.
func (t *starts) nextRecall(now clock.Instant) (a Action, ok bool) {
	for len(t.queues) > 0 && len(t.starting) < cmp.Or(t.cfg.StartsMax, StartsMax) {
		q := t.queues[0]
		t.dropUnwanted(q)
		if len(q.entries) == 0 {
			t.unlistQueue(q)
			continue
		}
		if t.turn == clock.Never {
			t.turn = t.node.Turn(now)
		}
		if now.Before(t.turn) {
			return Action{}, false
		}
		t.turn = clock.Never
		return t.takeStart(q, now), true
	}
	t.turn = clock.Never
	return Action{}, false
}

// unlistQueue removes the first queue.
func (t *starts) unlistQueue(q *startQueue) {
	q.listed, t.queues = false, t.queues[1:]
}

// dropUnwanted drops the first entries of a queue that must not start: the shard has left, or
// the entity has passivated itself.
func (t *starts) dropUnwanted(q *startQueue) {
	for len(q.entries) > 0 {
		e := &q.entries[0]
		s := &t.shards[e.shard]
		if s.token == e.token && t.isHere(e.shard) && s.ids[e.id]&wanted != 0 {
			return
		}
		q.entries = q.entries[1:]
	}
	q.entries = nil
}

// takeStart takes the first entry of the first queue, which goes behind the other queues.
func (t *starts) takeStart(q *startQueue, now clock.Instant) Action {
	e := q.entries[0]
	q.entries = q.entries[1:]
	t.unlistQueue(q)
	a := Action{Kind: Recall, Shard: e.shard, Token: e.token, ID: e.id}
	if e.elsewhere {
		a.Kind, q.moving = RecallElsewhere, true
	} else {
		t.starting[e.entity] = now
	}
	t.listQueue(q)
	return a
}

// endRecall returns the turn of an entity that was running already.
func (t *starts) endRecall(a *Action, started bool, now clock.Instant) {
	if !started {
		t.turn = now
		delete(t.starting, entity{a.Shard, a.ID})
	}
}

// noteEnd notes that the start of an entity has ended, with an instance or without.
func (t *starts) noteEnd(i strategy.ShardID, id string) { delete(t.starting, entity{i, id}) }

// dropStarting forgets the starts in a shard, whose allocation has ended.
func (t *starts) dropStarting(i strategy.ShardID) {
	maps.DeleteFunc(t.starting, func(e entity, _ clock.Instant) bool { return e.shard == i })
}

// dropLate forgets the starts that take too long.
func (t *starts) dropLate(now clock.Instant) {
	maps.DeleteFunc(t.starting, func(_ entity, at clock.Instant) bool { return now.Sub(at) >= StartLate })
}

// endMove ends a RecallElsewhere of a shard.
func (t *starts) endMove(i strategy.ShardID) {
	q := &t.shards[i].starts
	q.moving = false
	t.listQueue(q)
}
