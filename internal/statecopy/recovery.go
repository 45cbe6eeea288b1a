package statecopy

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"time"

	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// beginShard adds a shard with the states that the core has collected. It returns the held
// replies of an older allocation of the shard.
func (t *table) beginShard(e standby.Ready) (failed heldReplies) {
	sh := &shardStates{number: e.Shard, token: e.Token, entities: make(map[string]*entityState, len(e.Copies))}
	for id, cp := range e.Copies {
		sh.entities[id] = &entityState{id: id, state: cp.State, version: cp.Tag.Version, replicated: cp.Tag.Version}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if old := t.shards[e.Shard]; old != nil {
		failed = t.removeShard(old)
	}
	t.shards[e.Shard] = sh
	return failed
}

// leaveShard makes takeExpired remove a shard once all of its states are replicated, at the latest
// after within. It reports false if the shard does not run here under token.
func (t *table) leaveShard(shard strategy.ShardID, token protocol.Token, within time.Duration, leave func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.shards[shard]
	if sh == nil || sh.token != token {
		return false
	}
	sh.leave, sh.leaveAt = leave, time.Now().Add(within)
	return true
}

// takeExpired removes the replies whose time is over, and the shards that can leave. The late
// replies include those of the shards.
func (t *table) takeExpired(now time.Time) (late heldReplies, left []*shardStates) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ent := range t.waiting {
		expired := ent.held.expireAt(now)
		t.heldChanged(ent, len(expired))
		late = append(late, expired...)
	}
	for _, sh := range t.shards {
		if sh.leave != nil && (sh.behind == 0 || !now.Before(sh.leaveAt)) {
			left = append(left, sh)
			late = append(late, t.removeShard(sh)...)
		}
	}
	return late, left
}

// needsExpire reports whether a reply is held or a shard leaves.
func (t *table) needsExpire() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting) > 0 {
		return true
	}
	for _, sh := range t.shards {
		if sh.leave != nil {
			return true
		}
	}
	return false
}

// endShard removes a superseded allocation. leave is nil unless the shard was leaving.
func (t *table) endShard(shard strategy.ShardID, token protocol.Token) (failed heldReplies, leave func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.shards[shard]
	if sh == nil || sh.token != token {
		return nil, nil
	}
	return t.removeShard(sh), sh.leave
}

// endShards removes all shards.
func (t *table) endShards() (failed heldReplies) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, sh := range t.shards {
		failed = append(failed, t.removeShard(sh)...)
	}
	return failed
}

// rejectAll makes the table reject all further states.
func (t *table) rejectAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// removeShard removes a shard and returns its held replies; called with the mutex.
func (t *table) removeShard(sh *shardStates) (failed heldReplies) {
	delete(t.shards, sh.number)
	for _, e := range sh.entities {
		failed = append(failed, e.held...)
		e.held = nil
		delete(t.waiting, e)
	}
	t.room.Broadcast()
	return failed
}
