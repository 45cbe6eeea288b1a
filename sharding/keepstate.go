package sharding

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/standby"
	"github.com/peerage-go/peerage/internal/eventqueue"
	"github.com/peerage-go/peerage/internal/loglimit"
)

// stateKeeper is the shell of a type's standby core: one goroutine that carries out its
// effects, and the table of what the entities that live here wait for.
//
// An entity's change goes into the table at once, and with it the newest state; the
// goroutine fetches the states of those that changed. So what waits is bounded by
// the number of entities, however fast they change, and an entity that changed
// twice meanwhile costs one write.
type stateKeeper struct {
	s    *service
	typ  string
	set  Replicated
	in   *eventqueue.Queue
	core *standby.Core
	out  standby.Effects
	// own are messages of the core to itself.
	own   []standby.Message
	early earlyFrames
	view  atomic.Pointer[gossip.View]
	// shell is nil while the type is not registered here: then others' states are kept.
	shell atomic.Pointer[shell]

	held, standing atomic.Int64

	mu sync.Mutex
	// room is told when replies were released.
	room   *sync.Cond
	closed bool
	shards map[ShardID]*keptShard
	// dirty are the entities whose newest state the core does not know.
	dirty []dirty
	// waiting are the entities with replies held back.
	waiting map[*keptEntity]struct{}
	// turns counts the states that were taken; reusedLines bounds what is logged of slices
	// that are used again.
	turns       uint64
	reusedLines loglimit.Budget
}

type dirty struct {
	shard *keptShard
	ent   *keptEntity
}

// keptShard is a shard that lives here.
type keptShard struct {
	number   ShardID
	token    Token
	entities map[string]*keptEntity
	// behind counts the entities whose newest version is not kept.
	behind int
	// leaving is set when the shard is to go once behind is zero, or at leaveAt.
	leaving func()
	leaveAt time.Time
}

// keptEntity is an entity that has had state.
type keptEntity struct {
	id    string
	state []byte
	reuse reuse
	// version is that of state; kept of what enough nodes have.
	version, kept uint64
	// known is set while the core is to be told of a change.
	known   bool
	since   time.Time
	waiters []waiter
}

// waiter is a reply that is held back.
type waiter struct {
	version uint64
	until   time.Time
	done    func(error)
}

// waitersMax bounds the replies held back for one entity; then it waits.
const waitersMax = 1024

var errStateFull = fmt.Errorf("sharding: no room for more state on this node")

func newStateKeeper(s *service, typ string, set Replicated) *stateKeeper {
	k := &stateKeeper{
		s: s, typ: typ, set: set.withDefaults(), in: eventqueue.New(nil),
		shards: map[ShardID]*keptShard{}, waiting: map[*keptEntity]struct{}{},
	}
	k.room = sync.NewCond(&k.mu)
	return k
}

// Load returns the newest state.
func (k *stateKeeper) Load(shard ShardID, token Token, id string) ([]byte, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	sh := k.shards[shard]
	if sh == nil || sh.token != token {
		return nil, false
	}
	e := sh.entities[id]
	c := k.counters()
	if e == nil || e.state == nil {
		c.cold.Add(1)
		return nil, false
	}
	c.recovered.Add(1)
	return e.state, true
}

// Keep takes an entity's state after a message.
func (k *stateKeeper) Keep(shard ShardID, token Token, id string, state []byte, until time.Time, done func(error)) error {
	if len(state) > k.set.StateBytes {
		return fmt.Errorf("state of %d bytes, at most %d", len(state), k.set.StateBytes)
	}
	if done == nil {
		done = func(error) {}
	}
	if t := time.Now().Add(k.set.Timeout); until.IsZero() || t.Before(until) {
		until = t
	}
	k.mu.Lock()
	sh, e := k.entity(shard, token, id)
	for e != nil && len(e.waiters) >= waitersMax {
		k.room.Wait()
		sh, e = k.entity(shard, token, id)
	}
	if sh == nil {
		k.mu.Unlock()
		done(ErrAbandoned)
		return nil
	}
	unseen := false
	if e != nil {
		var wrong bool
		if unseen, wrong = e.reuse.look(e.state, state); wrong {
			defer k.sayReused(shard, id, !e.reuse.said) // behind the mutex
			e.reuse.said = true
		}
	}
	e, err := k.change(sh, e, id, state, unseen)
	if err != nil {
		k.mu.Unlock()
		return err
	}
	if e == nil || e.kept >= e.version || k.set.Mode == Async {
		k.mu.Unlock()
		done(nil)
		return nil
	}
	e.waiters = append(e.waiters, waiter{e.version, until, done})
	k.waiting[e] = struct{}{}
	k.mu.Unlock()
	return nil
}

// entity finds what lives here; called with the mutex.
func (k *stateKeeper) entity(shard ShardID, token Token, id string) (*keptShard, *keptEntity) {
	sh := k.shards[shard]
	if k.closed || sh == nil || sh.token != token {
		return nil, nil
	}
	return sh, sh.entities[id]
}

// change notes a new state, if it is one; called with the mutex. unseen: it may be one though
// it compares equal.
func (k *stateKeeper) change(sh *keptShard, e *keptEntity, id string, state []byte, unseen bool) (*keptEntity, error) {
	if e == nil {
		if state == nil {
			return nil, nil
		}
		e = &keptEntity{id: id}
	} else if !unseen && (state == nil) == (e.state == nil) && bytes.Equal(state, e.state) {
		return e, nil
	}
	more := len(state) - len(e.state)
	if more > 0 && k.held.Load()+int64(more) > int64(k.set.NodeBytes) {
		return nil, errStateFull
	}
	if e.version == 0 {
		sh.entities[id] = e
	}
	if e.kept == e.version {
		sh.behind++
		e.since = time.Now()
	}
	e.version++
	k.turns++
	e.state = e.reuse.take(state, k.s.cfg.Strict || raceEnabled || k.turns%hashEvery == 0)
	if !e.known {
		e.known = true
		k.dirty = append(k.dirty, dirty{sh, e})
		k.in.Wake()
	}
	return e, nil
}

// counters are the type's, or nobody's.
func (k *stateKeeper) counters() *counters {
	if sh := k.shell.Load(); sh != nil && sh.path != nil {
		return sh.path.base().counters
	}
	return &counters{}
}
