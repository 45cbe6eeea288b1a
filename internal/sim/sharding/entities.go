package sharding

import (
	"fmt"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/invariant"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/datapath"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// residencyNode returns what a core of residency reads of a process, without a bound on its starts.
func residencyNode(m *base, c *cores, x *instances) *residency.Node {
	var pace residency.Pace
	return &residency.Node{
		Self: m.p.Node.ID, Token: x.openToken, LeaseValid: m.site.member.LeaseValid, Members: m.roleMembers, Office: c.termHeld,
		Turn: pace.Turn, StopWithin: stopTimeout,
	}
}

// roleMembers returns the members that carry the type's role.
func (b *base) roleMembers() (m daemon.Members) {
	v := b.site.view
	if v == nil {
		return m
	}
	m.Epoch = v.Epoch
	for _, member := range v.WithRole(b.run.Config.Roles[b.spec.Role]) {
		m.Nodes = append(m.Nodes, member.ID)
	}
	return m
}

// termHeld returns the term in which this process coordinates the type, 0 if it does not.
func (c *cores) termHeld() gossip.Epoch {
	if c.coord == nil {
		return 0
	}
	return c.coord.Term()
}

// strategyOf returns the strategy that places the shards of a type, nil for the default: the one shard
// of a singleton is at the most senior host.
func strategyOf(t *seed.Type) strategy.Strategy {
	if isSingleton(t) {
		return strategy.Senior{}
	}
	return nil
}

func isSingleton(t *seed.Type) bool { return t.AlwaysOn && t.Shards == 1 }

// hostEntities has the process run the entities that need no message, if it hosts such a type.
func (m *Model) hostEntities() {
	if !m.spec.AlwaysOn && m.spec.Remembered == 0 || m.cores.foreign || !m.run.Config.Hosts(m.p.Slot, m.spec) {
		return
	}
	if m.spec.Remembered > 0 {
		m.entities.Remember(m.cores.records.store, m.checks.remembered)
	}
	m.entities.Host(residencyNode(&m.base, &m.cores, &m.instances))
}

// startElsewhere asks an entity, again and again until a deadline, so that it starts, and calls done
// once.
func (s *senders) startElsewhere(entity int, deadline clock.Instant, done func(ok bool)) {
	m := s.m
	switch {
	case m.p.Now() >= deadline:
		done(false)
		return
	case s.path().Busy(entity, 0):
		m.later(startAgain, func() { s.startElsewhere(entity, deadline, done) })
		return
	}
	s.seqs[entity]++
	msg := &datapath.Message{
		Sender: m.p.Node.ID, Entity: entity, Seq: s.seqs[entity], Class: callers[0].class, Bytes: s.drawBytes(), Shard: protocol.ShardID(entity % m.spec.Shards),
	}
	s.calls.beginAsk(msg)
	s.calls.open[msg.Call].then = func(how invariant.Outcome) {
		if how == invariant.Answered {
			done(true)
			return
		}
		m.later(startAgain, func() { s.startElsewhere(entity, deadline, done) })
	}
	s.path().Post(msg)
}

// startAgain is the time between two attempts to start an entity elsewhere.
const startAgain = 50 * time.Millisecond

// entitiesEnv is the entities.Env of a type.
type entitiesEnv struct {
	m         *base
	cores     *cores
	instances *instances
	inbox     *inbox
	senders   *senders
}

func (e entitiesEnv) Put(do func())                           { e.inbox.putWork(do) }
func (e entitiesEnv) Later(d time.Duration, do func())        { e.m.later(d, do) }
func (e entitiesEnv) MayAct() bool                            { return e.instances.mayAct() }
func (e entitiesEnv) Token(s strategy.ShardID) protocol.Token { return e.instances.openToken(s) }

// NeedHomes requests homes of shards.
func (e entitiesEnv) NeedHomes(shards []strategy.ShardID) {
	e.cores.putRegion(region.NeedHome{Shards: shards})
}

// StartElsewhere sends an entity asks until one is answered.
func (e entitiesEnv) StartElsewhere(entity int, deadline clock.Instant, done func(ok bool)) {
	e.senders.startElsewhere(entity, deadline, done)
}

// CheckActs checks that an entity may act (S1).
func (e entitiesEnv) CheckActs(st protocol.ShardToken) {
	m := e.m
	m.run.Judge(m.checks.hosting.Acts(time.Duration(m.run.Now()), m.p.Node.ID, st.Shard, st.Token))
}

// describeEntities returns what the hosts in q lack until each entity that always must run does, once,
// and a singleton at the most senior host; "" if they lack nothing.
func (v *Invariants) describeEntities(q map[int]bool) string {
	for number := range v.run.Config.Types {
		t := &v.run.Config.Types[number]
		if !t.AlwaysOn || !v.canHost(q, t) {
			continue
		}
		for shard := range t.Shards {
			at := v.homesOf(q, number, protocol.ShardID(shard), shard)
			if len(at) != 1 {
				return fmt.Sprintf("entity %d of type %s runs at %v", shard, t.Name, at)
			}
			if senior := v.seniorHost(q, t); isSingleton(t) && at[0] != senior {
				return fmt.Sprintf("the singleton %s runs at %s, the most senior host is %s", t.Name, at[0], senior)
			}
		}
	}
	return ""
}

// describeRemembered returns what the hosts in q lack until each remembered entity runs, once, and all
// ids are stored; "" if they lack nothing.
func (v *Invariants) describeRemembered(q map[int]bool) string {
	for number := range v.run.Config.Types {
		t := &v.run.Config.Types[number]
		if t.Remembered == 0 || !v.canHost(q, t) {
			continue
		}
		if lacks := v.describeIDs(q, number); lacks != "" {
			return lacks
		}
	}
	return ""
}

func (v *Invariants) describeIDs(q map[int]bool, number int) string {
	t := &v.run.Config.Types[number]
	for _, n := range v.running() {
		// A disk may go on failing: then its host stores nothing.
		if waiting := n.models[number].entities.Waiting(); q[n.p.Slot] && waiting > 0 && !v.run.Config.Disks {
			return fmt.Sprintf("%d ids of type %s wait for the store at %s", waiting, t.Name, n.p.Label)
		}
	}
	must := v.types[number].remembered.MustRun(func(s *invariant.StoredID) bool {
		for slot, n := range v.nodes {
			if q[slot] && n != nil && v.run.Config.Hosts(slot, t) {
				return n.models[number].cores.records.store.MustHave(s.In, s.Voters)
			}
		}
		return false
	})
	for _, entity := range must {
		if at := v.homesOf(q, number, protocol.ShardID(entity%t.Shards), entity); len(at) != 1 {
			return fmt.Sprintf("entity %d of type %s runs at %v", entity, t.Name, at)
		}
	}
	if len(must) > 0 {
		v.run.Hit(coverage.RememberedRan)
	}
	return ""
}

// homesOf returns the names of the processes in q at which an entity runs.
func (v *Invariants) homesOf(q map[int]bool, number int, shard protocol.ShardID, entity int) (at []string) {
	for _, n := range v.running() {
		if q[n.p.Slot] && n.models[number].entities.Runs(shard, entity) {
			at = append(at, n.p.Label)
		}
	}
	return at
}

// seniorHost returns the name of the most senior process in q that hosts a type. All in q hold one
// view.
func (v *Invariants) seniorHost(q map[int]bool, t *seed.Type) string {
	for slot, n := range v.nodes {
		if !q[slot] || n == nil || n.view == nil {
			continue
		}
		for _, m := range n.view.Members {
			if host := v.byID[m.ID]; host != nil && v.lives(m.ID) && v.run.Config.Hosts(host.p.Slot, t) {
				return host.p.Label
			}
		}
	}
	return ""
}
