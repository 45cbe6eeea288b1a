package entities

import (
	"slices"
	"strconv"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// memory is the part of a Table whose entities are remembered.
type memory struct {
	*Table
	set   set
	pace  core.Pace
	facts *invariant.Remembered
	// crashed are the entities that must start again, since they ended.
	crashed map[int]absence
}

func newMemory(t *Table, store *replica.Driver, facts *invariant.Remembered) *memory {
	return &memory{
		Table: t, set: set{typ: t.spec.Name, self: crdt.NodeID(t.p.Node.ID), store: store},
		pace: core.NewPace(t.spec.Remembered), facts: facts, crashed: map[int]absence{},
	}
}

// shardOf returns the shard of an id; false for those that the application had with more shards.
func (m *memory) shardOf(id string) (strategy.ShardID, bool) {
	n, err := strconv.Atoi(id)
	return strategy.ShardID(n % m.spec.Shards), err == nil && n < m.spec.Entities
}

// noteBegun notes that an instance runs.
func (m *memory) noteBegun(in *instance) {
	m.facts.Began(in.entity)
	delete(m.crashed, in.entity)
	m.driver.core.NoteLife(in.Shard, strconv.Itoa(in.entity), true)
	m.driver.Wake()
}

// notePassivated notes that an entity has ended by itself.
func (m *memory) notePassivated(in *instance) {
	m.facts.Ended(m.p.Node.ID, in.ShardToken, in.entity)
	m.driver.core.NoteLife(in.Shard, strconv.Itoa(in.entity), false)
	m.driver.Wake()
}

// noteCrashed notes that a panic has ended an entity, or that it could not begin.
func (m *memory) noteCrashed(in *instance) {
	m.p.Run.Hit(coverage.EntityCrashed)
	m.crashed[in.entity] = absence{in.Token, m.p.Now()}
	m.driver.core.NoteCrash(in.Shard, strconv.Itoa(in.entity))
}

// recall starts an entity that has no instance, and reports whether it does.
func (m *memory) recall(a *core.Action) bool {
	entity, err := strconv.Atoi(a.ID)
	if err != nil || !m.ensure(a.Shard, entity) {
		return false
	}
	r := m.p.Run
	m.shards[a.Shard][entity].recalled = m.p.Now()
	if n := m.starting(); n > startsMax {
		r.Fail("Remembered", "%s is starting %d remembered entities, at most %d", m.p.Label, n, startsMax)
	}
	r.Hit(coverage.Recalled)
	m.p.Event("recalls", uint64(entity), nil)
	st := protocol.ShardToken{Shard: a.Shard, Token: m.env.Token(a.Shard)}
	r.Judge(m.facts.Recalled(time.Duration(r.Now()), m.p.Node.ID, st, entity, m.p.Now(), m.spec.Remembered))
	return true
}

// startsMax is how many remembered entities a process is starting at any moment.
const startsMax = 2

// starting returns how many are being started. Those that take very long do not count.
func (m *memory) starting() (n int) {
	now := m.p.Now()
	for _, shard := range m.shards {
		for _, in := range shard { // order-free: they are counted
			if !in.begun && in.recalled != 0 && now.Sub(in.recalled) < core.StartLate {
				n++
			}
		}
	}
	return n
}

// performRemote performs an action that waits for other nodes, and calls done once with its outcome.
func (m *memory) performRemote(a *core.Action, done func(core.Outcome)) {
	deadline := m.p.Now().Add(a.Timeout())
	switch a.Kind {
	case core.Read:
		m.readShard(a.Shard, deadline, done)
	case core.Write:
		m.writeShard(a, deadline, func(ok bool) { done(core.Outcome{OK: ok}) })
	case core.RecallElsewhere:
		entity, _ := strconv.Atoi(a.ID)
		m.env.StartElsewhere(entity, deadline, func(ok bool) {
			if ok {
				m.p.Run.Hit(coverage.Elsewhere)
			}
			done(core.Outcome{OK: ok})
		})
	default:
		m.unexpected(a)
	}
}

// readShard reads the ids of a shard.
func (m *memory) readShard(shard strategy.ShardID, deadline clock.Instant, done func(core.Outcome)) {
	begun := m.facts.BeginRead()
	m.set.readIDs(shard, deadline, func(ids []string, ok bool) {
		if view, voters, counts := m.set.store.Voters(); ok && counts {
			r := m.p.Run
			has := invariant.IDs{Entities: m.homesIn(shard, ids), In: view, Voters: voters}
			r.Judge(m.facts.Read(time.Duration(r.Now()), m.p.Node.ID, shard, begun, has, m.set.survives))
		}
		done(core.Outcome{OK: ok, IDs: ids})
	})
}

// homesIn returns the entities of ids that belong to a shard.
func (m *memory) homesIn(shard strategy.ShardID, ids []string) (all []int) {
	for _, id := range ids {
		if at, ok := m.shardOf(id); ok && at == shard {
			n, _ := strconv.Atoi(id)
			all = append(all, n)
		}
	}
	return all
}

// writeShard adds and removes ids of a shard.
func (m *memory) writeShard(a *core.Action, deadline clock.Instant, done func(ok bool)) {
	var writes []*invariant.RememberedWrite
	for _, entity := range m.homesIn(a.Shard, slices.Concat(a.Add, a.Remove)) {
		adds := slices.Contains(a.Add, strconv.Itoa(entity))
		writes = append(writes, m.facts.BeginWrite(m.p.Node.ID, a.Shard, entity, adds))
	}
	m.set.writeIDs(a.Shard, a.Add, a.Remove, deadline, func(ok bool) {
		m.p.Event("remembers", uint64(len(a.Add)), nil)
		if view, voters, counts := m.set.store.Voters(); ok && counts {
			for _, w := range writes {
				m.facts.Acked(w, view, voters)
			}
		}
		done(ok)
	})
}

// inheritWithin is how long after the begin of a run processes store ids of former shards.
const inheritWithin = time.Second

// storeFormer has a process store ids as the application did before its number of shards changed: of
// entities in other shards, and of one that exists no longer.
func (m *memory) storeFormer() {
	if !m.spec.Moved || m.p.Run.Now() > virtual.Instant(0).Add(inheritWithin) {
		return
	}
	r := m.p.Run.Rand.Entity
	for entity := range m.spec.Entities + 1 {
		if r.IntN(4) > 0 {
			continue
		}
		shard := strategy.ShardID((entity + 1) % m.spec.Shards)
		m.env.Later(r.Duration(0, inheritWithin), func() {
			m.set.writeIDs(shard, []string{strconv.Itoa(entity)}, nil, m.p.Now().Add(replica.Timeout), func(bool) {})
		})
	}
}

// checkCrashed checks that each entity that a panic has ended starts again in time.
func (m *memory) checkCrashed(steady bool, now clock.Instant) {
	for entity := range m.spec.Entities {
		a, crashed := m.crashed[entity]
		if !crashed {
			continue
		}
		shard, _ := m.shardOf(strconv.Itoa(entity))
		switch {
		case m.env.Token(shard) != a.token:
			delete(m.crashed, entity)
		case !steady:
			m.crashed[entity] = absence{a.token, now}
		case m.shards[shard][entity] == nil && now.Sub(a.since) > returnsWithin+m.queueTime():
			m.p.Run.Fail("Remembered", "%s is the home of entity %d, which has not started again %v after its crash", m.p.Label, entity, now.Sub(a.since))
		}
	}
}

// queueTime bounds how long a start waits for its turn: behind those of a shard that has come, and of
// entities that crashed before.
func (m *memory) queueTime() time.Duration {
	return 3 * time.Duration(m.spec.Entities) * time.Second / time.Duration(m.spec.Remembered)
}
