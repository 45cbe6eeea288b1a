package statecopy

import (
	"bytes"
	"fmt"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"sync"
	"time"

	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// table holds the states of the entities that live on this node, and the replies that wait
// until a state is replicated. Its methods are safe for concurrent use. They call neither the
// functions of held replies nor those of shards that leave: they return them.
type table struct {
	// hashAll gives each state a hash; without it one state in hashEvery has one.
	hashAll bool
	// wake is called when a state is ready for the core. It must not block.
	wake func()

	mu sync.Mutex
	// room is signalled when held replies were released.
	room   *sync.Cond
	set    Settings
	closed bool
	// heldBytes is the size of all copies on this node.
	heldBytes int64
	shards    map[strategy.ShardID]*shardStates
	// dirty are the entities whose newest state the core does not have.
	dirty []dirtyEntity
	// waiting are the entities with held replies.
	waiting map[*entityState]struct{}
	// taken counts states, to choose those that get a hash.
	taken uint64
}

type dirtyEntity struct {
	shard  *shardStates
	entity *entityState
}

// shardStates are the states of one shard that this node hosts.
type shardStates struct {
	number   strategy.ShardID
	token    protocol.Token
	entities map[string]*entityState
	// behind counts the entities whose newest version is not replicated.
	behind int
	// leave is nil until the shard has stopped. It is called when behind is zero, or at
	// leaveAt.
	leave   func()
	leaveAt time.Time
}

// entityState is the state of one entity.
type entityState struct {
	id     string
	state  []byte
	memory sliceMemory
	// version is the version of state, replicated the newest one that enough nodes have.
	version, replicated uint64
	// queued is set while the entity is in table.dirty.
	queued bool
	// since is when the oldest version began to wait that is not replicated.
	since time.Time
	held  heldReplies
}

func newTable(set Settings, hashAll bool, wake func()) *table {
	t := &table{
		set: set, hashAll: hashAll, wake: wake,
		shards: map[strategy.ShardID]*shardStates{}, waiting: map[*entityState]struct{}{},
	}
	t.room = sync.NewCond(&t.mu)
	return t
}

func (t *table) configure(set Settings) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set = set
}

func (t *table) setHeldBytes(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heldBytes = int64(n)
}

// loadState returns the newest state of an entity. hosted is false if the shard does not run
// here under token.
func (t *table) loadState(shard strategy.ShardID, token protocol.Token, id string) (state []byte, hosted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh := t.shards[shard]
	if sh == nil || sh.token != token {
		return nil, false
	}
	if e := sh.entities[id]; e != nil {
		state = e.state
	}
	return state, true
}

// putResult is the result of putState.
type putResult struct {
	// hosted is false if the shard does not run here under the token.
	hosted bool
	// held is set if the reply waits. Otherwise the caller calls its function.
	held bool
	// reused is set if the entity changed a slice that Snapshot had returned, firstReuse
	// for the first such change of the entity.
	reused, firstReuse bool
}

// putState takes the state of an entity after a message, and holds its reply until the state
// is replicated. It blocks while too many replies of the entity are held. An error means that
// the state was not taken.
func (t *table) putState(shard strategy.ShardID, token protocol.Token, id string, state []byte, reply heldReply) (res putResult, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(state) > t.set.StateBytes {
		return res, fmt.Errorf("state of %d bytes, at most %d", len(state), t.set.StateBytes)
	}
	if limit := time.Now().Add(t.set.Timeout); reply.until.IsZero() || limit.Before(reply.until) {
		reply.until = limit
	}
	sh, e := t.findEntity(shard, token, id)
	for e != nil && len(e.held) >= heldRepliesMax {
		t.room.Wait()
		sh, e = t.findEntity(shard, token, id)
	}
	if sh == nil {
		return res, nil
	}
	res.hosted = true
	changed := e == nil || (state == nil) != (e.state == nil) || !bytes.Equal(state, e.state)
	if e != nil {
		var maybeChanged bool
		if maybeChanged, res.reused = e.memory.compare(e.state, state); res.reused {
			res.firstReuse, e.memory.reported = !e.memory.reported, true
		}
		changed = changed || maybeChanged
	}
	if changed && (e != nil || state != nil) {
		if e, err = t.setState(sh, e, id, state); err != nil {
			return res, err
		}
	}
	if e == nil || e.replicated >= e.version || t.set.Mode == standby.Async {
		return res, nil
	}
	reply.version = e.version
	e.held = append(e.held, reply)
	t.waiting[e] = struct{}{}
	res.held = true
	return res, nil
}

// findEntity returns the shard and the entity, if they are here; called with the mutex.
func (t *table) findEntity(shard strategy.ShardID, token protocol.Token, id string) (*shardStates, *entityState) {
	sh := t.shards[shard]
	if t.closed || sh == nil || sh.token != token {
		return nil, nil
	}
	return sh, sh.entities[id]
}

// setState stores a new state and queues it for the core. e is nil for an entity that had no
// state; called with the mutex.
func (t *table) setState(sh *shardStates, e *entityState, id string, state []byte) (*entityState, error) {
	if e == nil {
		e = &entityState{id: id}
	}
	more := len(state) - len(e.state)
	if more > 0 && t.heldBytes+int64(more) > int64(t.set.NodeBytes) {
		return nil, errNodeFull
	}
	if e.version == 0 {
		sh.entities[id] = e
	}
	if e.replicated == e.version {
		sh.behind++
		e.since = time.Now()
	}
	e.version++
	t.taken++
	e.state = e.memory.adoptState(state, t.hashAll || t.taken%hashEvery == 0)
	if !e.queued {
		e.queued = true
		t.dirty = append(t.dirty, dirtyEntity{sh, e})
		t.wake()
	}
	return e, nil
}

// takeChanges returns the newest states of the entities that changed since the last call.
func (t *table) takeChanges() standby.Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	changes := make(standby.Changes, len(t.dirty))
	for i, d := range t.dirty {
		d.entity.queued = false
		changes[i] = standby.Change{Shard: d.shard.number, Token: d.shard.token, ID: d.entity.id, Version: d.entity.version, State: d.entity.state}
	}
	t.dirty = nil
	return changes
}

// setReplicated notes that enough nodes have a version, and returns the replies that waited
// for it. lag is how long the oldest waiting version has waited. ok is false if the version
// was acknowledged before, or the shard does not run here under the token.
func (t *table) setReplicated(e standby.Kept) (released heldReplies, lag time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	sh, ent := t.findEntity(e.Shard, e.Token, e.ID)
	if ent == nil || e.Version <= ent.replicated {
		return nil, 0, false
	}
	ent.replicated = e.Version
	lag = time.Since(ent.since)
	if ent.replicated == ent.version {
		sh.behind--
	}
	ent.since = time.Now()
	released = ent.held.releaseUpTo(ent.replicated)
	t.heldChanged(ent, len(released))
	return released, lag, true
}

// heldChanged is called with the mutex after replies of an entity were released.
func (t *table) heldChanged(e *entityState, released int) {
	if len(e.held) == 0 {
		delete(t.waiting, e)
	}
	if released > 0 {
		t.room.Broadcast()
	}
}
