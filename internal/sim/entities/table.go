package entities

import (
	"strconv"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	core "github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/replica"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// Env is what a Table needs of its type and process.
type Env interface {
	// Put passes work to the goroutine that performs actions. Later calls do after d, unless the
	// process has ended.
	Put(do func())
	Later(d time.Duration, do func())
	// MayAct reports whether the lease holds. Token returns the token of a shard that takes
	// messages here, zero if it does not.
	MayAct() bool
	Token(strategy.ShardID) protocol.Token
	// NeedHomes requests homes of shards.
	NeedHomes([]strategy.ShardID)
	// StartElsewhere sends an entity a message that starts it, until a deadline, and calls done once.
	StartElsewhere(entity int, deadline clock.Instant, done func(ok bool))
	// CheckActs checks that an entity of a shard may act now.
	CheckActs(protocol.ShardToken)
}

// Table has the instances of one type on one process: of entities that always must run, or are
// remembered. They begin without messages, end by themselves, fail to begin, and crash.
type Table struct {
	p    *process.Process
	spec *seed.Type
	env  Env
	// driver is nil where no entity may run.
	driver *Driver
	// memory is nil unless entities are remembered.
	memory *memory
	// shards have the instances, by shard.
	shards []map[int]*instance
	absent []absence
	// looked is when Look last ran.
	looked clock.Instant
}

// instance is an entity from the order to start it until it has ended.
type instance struct {
	protocol.ShardToken
	entity int
	// begun is set once it runs, ended when it has ended.
	begun, ended bool
	// recalled is when it was started since it is remembered.
	recalled clock.Instant
}

// absence is since when an entity that must run in an allocation is missing.
type absence struct {
	token protocol.Token
	since clock.Instant
}

// NewTable returns the Table of a type on a process that runs none of its entities yet.
func NewTable(p *process.Process, spec *seed.Type, env Env) *Table {
	return &Table{p: p, spec: spec, env: env}
}

// Remember has the ids of entities that run kept in a store, before Host is called.
func (t *Table) Remember(store *replica.Driver, facts *invariant.Remembered) {
	t.memory = newMemory(t, store, facts)
}

// Host has the process run the entities.
func (t *Table) Host(n *core.Node) {
	if t.driver != nil {
		return
	}
	t.shards, t.absent = make([]map[int]*instance, t.spec.Shards), make([]absence, t.spec.Shards)
	for i := range t.shards {
		t.shards[i] = map[int]*instance{}
	}
	cfg := core.Config{Shards: uint32(t.spec.Shards)}
	if m := t.memory; m != nil {
		cfg.ShardOf, cfg.StartsMax, n.Turn = m.shardOf, startsMax, m.pace.Turn
	} else {
		cfg.AlwaysOn = func(i strategy.ShardID) string { return strconv.Itoa(int(i)) }
	}
	t.driver = NewDriver(core.New(cfg), n, tableShell{t})
	if t.memory != nil {
		t.memory.storeFormer()
	}
}

// Waiting returns the number of ids that wait for the store.
func (t *Table) Waiting() int {
	if t.driver == nil {
		return 0
	}
	return t.driver.core.Waiting()
}

// ShardStarted has the entities of a new shard start without delay.
func (t *Table) ShardStarted() {
	if t.driver != nil {
		t.driver.ShardStarted()
	}
}

// ShardGone ends the instances of a shard with it.
func (t *Table) ShardGone(shard protocol.ShardID) {
	if t.driver == nil {
		return
	}
	for _, in := range t.shards[shard] { // order-free: each is ended by itself
		in.ended = true
	}
	clear(t.shards[shard])
}

// Runs reports whether an entity runs here.
func (t *Table) Runs(shard protocol.ShardID, entity int) bool {
	if t.driver == nil {
		return false
	}
	in := t.shards[shard][entity]
	return in != nil && in.begun
}

// Handle has the entity of a message begin, if it does not run. The message is handled with a
// lease.
func (t *Table) Handle(st protocol.ShardToken, entity int) {
	if t.driver == nil {
		return
	}
	in := t.shards[st.Shard][entity]
	if in == nil {
		in = t.addInstance(st, entity)
	}
	if !in.begun {
		t.beginInstance(in)
	}
}

// Handled has an entity end after some messages.
func (t *Table) Handled(shard protocol.ShardID, entity int) {
	if t.driver == nil || t.env.Token(shard) == (protocol.Token{}) {
		return
	}
	if in := t.shards[shard][entity]; in != nil && in.begun {
		t.drawEnd(in, 8)
	}
}

// drawEnd has an instance end in so many of a hundred cases, by itself or by a panic, and reports
// whether it does.
func (t *Table) drawEnd(in *instance, percent int) bool {
	if !t.draws(percent) {
		return false
	}
	t.endInstance(in)
	switch {
	case t.memory == nil:
	case t.draws(50):
		t.memory.noteCrashed(in)
	default:
		t.memory.notePassivated(in)
	}
	return true
}

// draws reports whether something happens, in so many of a hundred cases until faults end.
func (t *Table) draws(percent int) bool {
	r := t.p.Run
	return !r.Calm && r.Rand.Entity.Chance(percent)
}

// addInstance adds an instance that does not run yet.
func (t *Table) addInstance(st protocol.ShardToken, entity int) *instance {
	in := &instance{ShardToken: st, entity: entity}
	t.shards[st.Shard][entity] = in
	return in
}

// ensure starts an entity that has no instance, and reports whether it does.
func (t *Table) ensure(shard protocol.ShardID, entity int) bool {
	token := t.env.Token(shard)
	if token == (protocol.Token{}) || t.shards[shard][entity] != nil {
		return false
	}
	t.planBegin(t.addInstance(protocol.ShardToken{Shard: shard, Token: token}, entity))
	return true
}

// planBegin has an instance begin, once the lease holds. Some fail to.
func (t *Table) planBegin(in *instance) {
	t.env.Later(t.p.Run.Rand.Entity.Duration(0, 5*time.Millisecond), func() {
		switch {
		case in.ended || in.begun:
		case !t.env.MayAct():
			t.planBegin(in)
		case t.draws(10):
			t.endInstance(in)
			if t.memory != nil {
				t.memory.noteCrashed(in)
			}
		default:
			t.beginInstance(in)
		}
	})
}

// beginInstance has an instance run.
func (t *Table) beginInstance(in *instance) {
	in.begun = true
	t.p.Run.Hit(coverage.EntityRan)
	t.p.Event("entity begins", uint64(in.entity), nil)
	if t.memory != nil {
		t.memory.noteBegun(in)
	}
	t.env.CheckActs(in.ShardToken)
	t.planAct(in)
}

// planAct has an instance do its work, again and again, while the lease holds. After some of it it
// ends.
func (t *Table) planAct(in *instance) {
	t.env.Later(t.p.Run.Rand.Entity.Duration(5*time.Millisecond, 200*time.Millisecond), func() {
		if in.ended {
			return
		}
		if t.env.MayAct() {
			t.env.CheckActs(in.ShardToken)
			if t.env.Token(in.Shard) == in.Token && t.drawEnd(in, 3) {
				return
			}
		}
		t.planAct(in)
	})
}

// endInstance ends an instance.
func (t *Table) endInstance(in *instance) {
	in.ended, t.absent[in.Shard] = true, absence{}
	delete(t.shards[in.Shard], in.entity)
	t.p.Event("entity ends", uint64(in.entity), nil)
}

// lookEvery is how often Look is called, at most; returnsWithin is how long an entity that always
// must run may be missing at the home of its shard.
const lookEvery, returnsWithin = 100 * time.Millisecond, time.Second

// Look checks that no entity is missing for too long. The time counts while the process has a lease
// and is neither paused nor slow.
func (t *Table) Look() {
	if t.driver == nil {
		return
	}
	now := t.p.Now()
	steady := now.Sub(t.looked) <= lookEvery && t.env.MayAct() && !t.p.Thread.Slow()
	t.looked = now
	if t.memory != nil {
		t.memory.checkCrashed(steady, now)
		return
	}
	for i := range t.absent {
		shard := protocol.ShardID(i)
		a, token := &t.absent[i], t.env.Token(shard)
		switch {
		case !steady || token == (protocol.Token{}) || token != a.token || t.Runs(shard, i):
			*a = absence{token, now}
		case now.Sub(a.since) > returnsWithin:
			t.p.Run.Fail("Singleton", "%s is the home of shard %d, and its entity has been missing for %v", t.p.Label, shard, now.Sub(a.since))
		}
	}
}

// tableShell is the Shell of a Table.
type tableShell struct{ *Table }

func (t tableShell) Now() clock.Instant                  { return t.p.Now() }
func (t tableShell) NewTimer(fire func()) *virtual.Timer { return t.p.NewTimer(fire) }
func (t tableShell) Put(do func())                       { t.env.Put(do) }

// PerformLocal performs an action that does not wait for other nodes.
func (t tableShell) PerformLocal(a *core.Action) (o core.Outcome) {
	switch a.Kind {
	case core.WantHomes:
		t.env.NeedHomes(a.Shards)
	case core.Start:
		entity, err := strconv.Atoi(a.ID)
		o.OK = err == nil && t.ensure(a.Shard, entity)
	case core.Recall:
		o.OK = t.memory.recall(a)
	default:
		t.unexpected(a)
	}
	return o
}

// PerformRemote performs an action that waits for other nodes: that of an entity which is remembered.
func (t tableShell) PerformRemote(a *core.Action, done func(core.Outcome)) {
	if t.memory == nil {
		t.unexpected(a)
		return
	}
	t.memory.performRemote(a, done)
}

func (t *Table) unexpected(a *core.Action) {
	t.p.Run.Fail("core", "%s: type %s has action %d", t.p.Label, t.spec.Name, a.Kind)
}
