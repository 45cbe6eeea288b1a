package sharding

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/sim/entities"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// openHome is the entities.Env of a process on which shards with the token one run, and nothing fails.
type openHome struct{ p *process.Process }

func (e openHome) Put(do func())                                 { e.p.Later(0, do) }
func (e openHome) Later(d time.Duration, do func())              { e.p.Later(d, do) }
func (e openHome) MayAct() bool                                  { return true }
func (e openHome) Token(protocol.ShardID) protocol.Token         { return one }
func (e openHome) NeedHomes([]protocol.ShardID)                  {}
func (e openHome) StartElsewhere(int, clock.Instant, func(bool)) {}
func (e openHome) CheckActs(protocol.ShardToken)                 {}

var one = protocol.Token{Term: 1, Seq: 1}

// newEntityNodes returns the checkers of a run, and two nodes that host a type of entities that
// always must run, in so many shards. The second node is the more senior one.
func newEntityNodes(shards int) (*Invariants, []*Node) {
	r := run.New(&seed.Options{Nodes: 2})
	r.Config = seed.Config{Nodes: 2, Roles: []string{""}, HostRoles: make([]int, 2), Ping: time.Second, Types: []seed.Type{{Name: "a", Shards: shards, Entities: shards, AlwaysOn: true}}}
	r.Calm = true
	inv := NewInvariants(r, nil, nil)
	seniority := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 2}}, {Node: gossip.Node{ID: 1}}}}
	var nodes []*Node
	for slot := range 2 {
		p := &process.Process{Run: r, Slot: slot, Label: string(rune('A' + slot)), Thread: virtual.NewThread(&r.Time), Node: gossip.Node{ID: gossip.NodeID(slot + 1)}, Clock: virtual.NewClock(0, 0)}
		n := &Node{site: site{p: p, inv: inv, member: &membership.Driver{}, on: true, view: seniority}}
		m := &Model{base: base{site: &n.site, p: p, run: r, spec: &r.Config.Types[0], checks: inv.types[0]}}
		m.entities = entities.NewTable(p, m.spec, openHome{p})
		n.models = []*Model{m}
		inv.nodes[slot], inv.byID[p.Node.ID] = n, n
		nodes = append(nodes, n)
	}
	return inv, nodes
}

// hostHere has a node run its type, with shards here or with none.
func hostHere(n *Node, here bool) {
	token := func(protocol.ShardID) (t protocol.Token) {
		if here {
			t = one
		}
		return t
	}
	n.models[0].entities.Host(&residency.Node{Token: token})
}

// TestEntitiesThatAlwaysRunMustRunOnce: at the end of a run, each of them runs once, and a singleton
// at the most senior host.
func TestEntitiesThatAlwaysRunMustRunOnce(t *testing.T) {
	for name, c := range map[string]struct {
		shards int
		here   [2]bool
		well   bool
	}{
		"a singleton at the most senior host": {1, [2]bool{false, true}, true},
		"a singleton at another host":         {1, [2]bool{true, false}, false},
		"several at one host":                 {3, [2]bool{true, false}, true},
		"all twice":                           {3, [2]bool{true, true}, false},
		"none":                                {3, [2]bool{false, false}, false},
	} {
		inv, nodes := newEntityNodes(c.shards)
		for i, n := range nodes {
			hostHere(n, c.here[i])
		}
		inv.run.Until(inv.run.Now().Add(50 * time.Millisecond))
		if lacks := inv.describeEntities(map[int]bool{0: true, 1: true}); (lacks == "") != c.well {
			t.Errorf("%s: %q", name, lacks)
		}
	}
}

// TestAMissingEntityFailsTheRun: an entity that always must run may be missing for a second.
func TestAMissingEntityFailsTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		within time.Duration
		fails  bool
	}{
		"for less than a second": {950 * time.Millisecond, false},
		"for longer":             {1200 * time.Millisecond, true},
	} {
		inv, nodes := newEntityNodes(1)
		hostHere(nodes[0], false) // the core does not find the shard, so it starts nothing
		look := func() {
			for range int(c.within / (50 * time.Millisecond)) {
				inv.run.Until(inv.run.Now().Add(50 * time.Millisecond))
				nodes[0].models[0].entities.Look()
			}
		}
		if got := stops(look); got != c.fails {
			t.Errorf("%s: the run stops: %v", name, got)
		}
	}
}
