package sharding

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/daemon"
	"github.com/peerage-go/peerage/internal/core/residency"
	"github.com/peerage-go/peerage/internal/sim/membership"
	"github.com/peerage-go/peerage/internal/sim/process"
	"github.com/peerage-go/peerage/internal/sim/run"
	"github.com/peerage-go/peerage/internal/sim/seed"
	"github.com/peerage-go/peerage/internal/sim/virtual"
)

// newDaemonNodes returns the checkers of a run, and two nodes that host its daemon of three
// shards.
func newDaemonNodes() (*Invariants, []*Node) {
	r := run.New(&seed.Options{Nodes: 2})
	r.Config = seed.Config{Nodes: 2, Roles: []string{""}, HostRoles: make([]int, 2), Types: []seed.Type{{Name: "w", Shards: 3, Entities: 3, Workers: 1}}}
	inv := NewInvariants(r, nil, nil)
	var nodes []*Node
	for slot := range 2 {
		p := &process.Process{Run: r, Slot: slot, Thread: virtual.NewThread(&r.Time), Node: gossip.Node{ID: gossip.NodeID(slot + 1)}}
		n := &Node{site: site{p: p, inv: inv, member: &membership.Driver{}, on: true}}
		m := &Model{base: base{site: &n.site, p: p, run: r, spec: &r.Config.Types[0], checks: inv.types[0]}}
		m.workers = workers{m: &m.base, at: make([]*worker, 3), core: residency.New(residency.Config{Shards: 3, Daemon: &residency.Daemon{First: 1, Max: 3}})}
		n.models = []*Model{m}
		inv.nodes[slot], nodes = n, append(nodes, n)
	}
	return inv, nodes
}

// TestAllWorkersOfOnePlanMustRun: at the end of a run, each worker of the newest plan runs once, and
// no other.
func TestAllWorkersOfOnePlanMustRun(t *testing.T) {
	plan := daemon.Plan{Rev: daemon.Rev{Term: 2, Seq: 2}, Workers: 2, Running: true}
	older := daemon.Plan{Rev: daemon.Rev{Term: 2, Seq: 1}, Workers: 2, Running: true}
	replaced := daemon.Plan{Rev: daemon.Rev{Term: 1, Seq: 3}, Workers: 2, Running: true}
	larger := daemon.Plan{Rev: daemon.Rev{Term: 1, Seq: 3}, Workers: 3, Running: true}
	stopping := daemon.Plan{Rev: daemon.Rev{Term: 2, Seq: 3}, Workers: 1}
	for name, c := range map[string]struct {
		plans [2]daemon.Plan
		// at has the plans of the workers that run, by node and shard.
		at   [2][3]daemon.Plan
		well bool
	}{
		"each once":               {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan}, {1: plan}}, true},
		"both at one node":        {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan, plan}, {}}, true},
		"one knows an older plan": {[2]daemon.Plan{plan, older}, [2][3]daemon.Plan{{plan}, {1: plan}}, true},
		"one is missing":          {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan}, {}}, false},
		"one runs twice":          {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan, plan}, {1: plan}}, false},
		"one too many":            {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan, plan, plan}, {}}, false},
		"one of an older plan":    {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan}, {1: older}}, false},
		"one of a former term":    {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan}, {1: replaced}}, true},
		"one of another number":   {[2]daemon.Plan{plan, plan}, [2][3]daemon.Plan{{plan}, {1: larger}}, false},
		"stopping":                {[2]daemon.Plan{plan, stopping}, [2][3]daemon.Plan{{plan}, {1: plan}}, false},
		"no plan":                 {},
	} {
		inv, nodes := newDaemonNodes()
		for i, n := range nodes {
			w := &n.models[0].workers
			w.core.NotePlan(&daemon.State{Plan: c.plans[i]})
			for shard, p := range c.at[i] {
				if p != (daemon.Plan{}) {
					w.at[shard] = &worker{plan: p}
				}
			}
		}
		if lacks := inv.describeWorkers(map[int]bool{0: true, 1: true}); (lacks == "") != c.well {
			t.Errorf("%s: %q", name, lacks)
		}
	}
}

// TestWorkersOfTwoNumbersFailTheRun: G11, of two workers at one node.
func TestWorkersOfTwoNumbersFailTheRun(t *testing.T) {
	inv, nodes := newDaemonNodes()
	inv.nodes[1] = nil
	w := &nodes[0].models[0].workers
	acts := &worker{plan: daemon.Plan{Workers: 2}}
	for name, c := range map[string]struct {
		other *worker
		fails bool
	}{
		"alone":             {nil, false},
		"of one number":     {&worker{plan: daemon.Plan{Workers: 2, Running: true}}, false},
		"of another number": {&worker{plan: daemon.Plan{Workers: 3}}, true},
		"has not begun":     {&worker{}, false},
	} {
		w.at = []*worker{acts, c.other, nil}
		if got := stops(func() { inv.checkWorkers(w.m, 0, acts) }); got != c.fails {
			t.Errorf("%s: the run stops: %v", name, got)
		}
	}
}
