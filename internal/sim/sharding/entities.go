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
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// residencyNode returns what a core of residency reads of a process.
func residencyNode(m *base, c *cores, x *instances, turn func(clock.Instant) clock.Instant) *residency.Node {
	return &residency.Node{
		Self: m.p.Node.ID, Token: x.openToken, LeaseValid: m.site.member.LeaseValid, Members: m.roleMembers, Office: c.termHeld,
		Turn: turn, StopWithin: stopTimeout,
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
	if !m.spec.AlwaysOn || m.cores.foreign || !m.run.Config.Hosts(m.p.Slot, m.spec) {
		return
	}
	turn := func(now clock.Instant) clock.Instant { return now }
	m.entities.Host(residencyNode(&m.base, &m.cores, &m.instances, turn))
}

// entitiesEnv is the entities.Env of a type.
type entitiesEnv struct {
	m         *base
	cores     *cores
	instances *instances
	inbox     *inbox
}

func (e entitiesEnv) Put(do func())                           { e.inbox.putWork(do) }
func (e entitiesEnv) Later(d time.Duration, do func())        { e.m.later(d, do) }
func (e entitiesEnv) MayAct() bool                            { return e.instances.mayAct() }
func (e entitiesEnv) Token(s strategy.ShardID) protocol.Token { return e.instances.openToken(s) }

// NeedHomes requests homes of shards.
func (e entitiesEnv) NeedHomes(shards []strategy.ShardID) {
	e.cores.putRegion(region.NeedHome{Shards: shards})
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
			if senior := v.seniorHost(q, t); isSingleton(t) && at[0] != senior && !v.mayMistakeHosts(t) {
				return fmt.Sprintf("the singleton %s runs at %s, the most senior host is %s", t.Name, at[0], senior)
			}
		}
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

// mayMistakeHosts reports whether a coordinator may take a host of a type for a process that only
// sends, until the next view: a copy of what such a host sent before it ran the type may come late.
// Only datagrams do.
func (v *Invariants) mayMistakeHosts(t *seed.Type) bool { return v.run.Config.Datagrams && t.Late != 0 }
