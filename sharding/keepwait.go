package sharding

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/standby"
)

// recovered says to the type's shell that a shard may start.
type recovered struct {
	shard ShardID
	token Token
}

// outrun says that a shard has been allocated anew, and nothing of this allocation
// will be kept.
type outrun struct {
	shard ShardID
	token Token
}

// ready takes what the core has collected.
func (k *stateKeeper) ready(e standby.Ready) {
	c := k.counters()
	if e.Short {
		c.stateLoss.Add(1)
		k.s.log.Error("sharding: so many standbys were lost that acknowledged states may be missing",
			"type", k.typ, "shard", e.Shard, "token", e.Token, "entities", len(e.Copies))
	}
	sh := &keptShard{number: e.Shard, token: e.Token, entities: make(map[string]*keptEntity, len(e.Copies))}
	for id, cp := range e.Copies {
		sh.entities[id] = &keptEntity{id: id, state: cp.State, version: cp.Tag.Version, kept: cp.Tag.Version}
	}
	k.mu.Lock()
	var failed []waiter
	if old := k.shards[e.Shard]; old != nil {
		failed = k.drop(old)
	}
	k.shards[e.Shard] = sh
	k.mu.Unlock()
	fail(failed, ErrAbandoned)
	if s := k.shell.Load(); s != nil {
		s.inbox.Put(recovered{e.Shard, e.Token})
	}
}

// kept releases the replies that waited for a version.
func (k *stateKeeper) kept(e standby.Kept) {
	k.mu.Lock()
	sh, ent := k.entity(e.Shard, e.Token, e.ID)
	if ent == nil || e.Version <= ent.kept {
		k.mu.Unlock()
		return
	}
	ent.kept = e.Version
	lag := time.Since(ent.since)
	if ent.kept == ent.version {
		sh.behind--
	}
	ent.since = time.Now()
	n := 0
	for n < len(ent.waiters) && ent.waiters[n].version <= ent.kept {
		n++
	}
	free := ent.waiters[:n:n]
	ent.waiters = ent.waiters[n:]
	if len(ent.waiters) == 0 {
		ent.waiters = nil
		delete(k.waiting, ent)
	}
	if n > 0 {
		k.room.Broadcast()
	}
	k.mu.Unlock()
	fail(free, nil)
	if o := k.s.observer; o != nil {
		o.StateKept(k.typ, lag)
	}
}

// expire fails replies that have waited long enough, and lets shards go.
func (k *stateKeeper) expire(now time.Time) {
	k.mu.Lock()
	var late []waiter
	for ent := range k.waiting {
		left := ent.waiters[:0]
		for _, w := range ent.waiters {
			if now.Before(w.until) {
				left = append(left, w)
			} else {
				late = append(late, w)
			}
		}
		ent.waiters = left
		if len(left) == 0 {
			delete(k.waiting, ent)
		}
	}
	if len(late) > 0 {
		k.room.Broadcast()
	}
	var going []*keptShard
	for _, sh := range k.shards {
		if sh.leaving != nil && (sh.behind == 0 || !now.Before(sh.leaveAt)) {
			going = append(going, sh)
			if sh.behind > 0 {
				k.s.log.Error("sharding: shard leaves before all of its states were replicated",
					"type", k.typ, "shard", sh.number, "entities", sh.behind)
				k.counters().statesLost.Add(uint64(sh.behind))
			}
			late = append(late, k.drop(sh)...)
		}
	}
	k.mu.Unlock()
	k.counters().notKept.Add(uint64(len(late)))
	fail(late, ErrNotKept)
	for _, sh := range going {
		sh.leaving()
	}
}

// anyLeaving is called with the mutex.
func (k *stateKeeper) anyLeaving() bool {
	for _, sh := range k.shards {
		if sh.leaving != nil {
			return true
		}
	}
	return false
}

// deposed fails what waits for an allocation that is over.
func (k *stateKeeper) deposed(e standby.Deposed) {
	k.mu.Lock()
	var failed []waiter
	sh := k.shards[e.Shard]
	if sh != nil && sh.token == e.Token {
		failed = k.drop(sh)
	}
	k.mu.Unlock()
	fail(failed, ErrAbandoned)
	if s := k.shell.Load(); s != nil {
		s.inbox.Put(outrun{e.Shard, e.Token})
	}
	if sh != nil && sh.token == e.Token && sh.leaving != nil {
		sh.leaving()
	}
}

// earlyFrames came from nodes that our view does not show yet. Without them a home would wait
// for its next request, and these come at growing intervals. A slow network could have
// delayed the frames as much, so they need no event of their own in the core.
type earlyFrames struct {
	frames []standbyFrame
	bytes  int
}

// Beyond these bounds the oldest frames are dropped; the home requests them again.
const (
	earlyFramesMax = 1024
	earlyBytesMax  = 4 << 20
)

// add keeps a frame and returns the number of frames that it dropped for it.
func (e *earlyFrames) add(f standbyFrame) (lost uint64) {
	e.frames, e.bytes = append(e.frames, f), e.bytes+f.bytes
	for len(e.frames) > earlyFramesMax || e.bytes > earlyBytesMax {
		e.bytes -= e.frames[0].bytes
		e.frames[0] = standbyFrame{}
		e.frames = e.frames[1:]
		lost++
	}
	return lost
}

// of removes and returns the frames of the members of a view.
func (e *earlyFrames) of(v *gossip.View) (now []standbyFrame) {
	var later earlyFrames
	for _, f := range e.frames {
		if v.Member(f.from) != nil {
			now = append(now, f)
		} else {
			later.add(f)
		}
	}
	*e = later
	return now
}
