package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/testsize"
	"os"
	"strconv"
	"testing"
	"time"
)

// formed is a cluster of n up nodes that hold leases; the others wait to join.
func formed(n int) func(x *explorer) *exploreState {
	return func(x *explorer) *exploreState {
		s := &exploreState{truth: x.w.truth}
		for i := range s.nodes {
			s.nodes[i] = x.w.add(gossip.NodeID(i + 1))
			s.digests[i] = x.nodeDigest(s.nodes[i])
		}
		s.past = x.pastOf(s.truth)
		x.step(s, 0, Form{Generation: 100})
		for i := 1; i < n; i++ {
			x.step(s, i, Contacts{Nodes: []gossip.Node{s.nodes[0].core.cfg.Self}})
			s = x.settle(s, 10*explorePing)
		}
		x.enter(s)
		for i := range s.nodes {
			for j := range s.nodes {
				if i != j && i < n && j < n {
					x.step(s, i, Link{Subject: s.nodes[j].id, Up: true})
				}
			}
			if i < n && (!x.w.holds(s.nodes[i]) || len(s.nodes[i].core.View().Members) != n) {
				x.w.fail("%d is not up before the exploration: %s", i+1, x.w.states())
			}
		}
		return s
	}
}

// settle runs for a time without faults.
func (x *explorer) settle(s *exploreState, d time.Duration) *exploreState {
	end := s.now + d
	for {
		switch due := x.enabled(s); {
		case len(due) > 0:
			s = x.apply(s, due[0])
		case x.nextTimer(s) > end:
			return s
		default:
			s = x.apply(s, action{kind: proceed})
		}
	}
}

// explorations returns the plans of TestExplore; each is explored completely.
func explorations() []plan {
	return []plan{
		{name: "crashes", faults: []kind{crash}, budget: 2, start: formed(3), span: 5 * explorePing},
		{name: "a freeze", faults: []kind{freeze}, budget: 1, start: formed(3), span: 8 * explorePing},
		{name: "a cut", faults: []kind{isolate, sever}, budget: 1, start: formed(3), span: 12 * explorePing},
		{name: "links and messages", faults: []kind{sever, hold}, budget: 2, start: formed(3), span: 5 * explorePing},
		{
			name: "a join", faults: []kind{crash, isolate, sever, hold}, budget: 1, start: formed(2), span: 9 * explorePing / 2,
			wishes: []action{{join, 2, 0}},
		},
		{
			name: "two joins", faults: []kind{isolate, hold}, budget: 1, start: formed(1), span: 5 * explorePing / 2,
			wishes: []action{{join, 1, 0}, {join, 2, 0}},
		},
		{
			name: "the leader leaves", faults: []kind{crash, isolate, hold}, budget: 1, start: formed(3), span: 3 * explorePing,
			wishes: []action{{leave, 0, 0}},
		},
		{
			name: "a member leaves", faults: []kind{crash, isolate, hold}, budget: 1, start: formed(3), span: 4 * explorePing,
			wishes: []action{{leave, 2, 2}},
		},
		{
			name: "the leader and a member leave", faults: []kind{crash, isolate, hold}, budget: 1, start: formed(3), span: 2 * explorePing,
			wishes: []action{{leave, 0, 0}, {leave, 1, 1}},
		},
		under(gossip.KeepOldest{}, gossip.EvidenceFull),
		under(gossip.StaticQuorum{N: 2}, gossip.EvidenceFull),
		under(gossip.StaticQuorum{N: 3}, gossip.EvidenceFull),
		under(weighted{}, gossip.EvidenceFull),
		under(gossip.KeepMajority{}, gossip.EvidenceWithinQuorum),
		under(gossip.KeepMajority{}, gossip.EvidenceOff),
	}
}

// under returns a plan with one of the faults that policies and evidence decide.
func under(p gossip.Policy, e gossip.CrashEvidence) plan {
	return plan{
		name:   fmt.Sprintf("%v, evidence %d", p, e),
		faults: []kind{crash, isolate}, budget: 1, start: formed(3), span: 9 * explorePing,
		cfg: func(c *Config) { c.Partition, c.Evidence = p, e },
	}
}

const (
	// exploreStates bounds an exploration that must be complete, exploreShort and exploreSample
	// those that only show that it works, exploreLong those that PEERAGE_EXPLORE requests.
	exploreStates = 300_000
	exploreShort  = 1_000
	exploreSample = 3_000
	exploreLong   = 20_000_000
)

// explore plays a plan and fails the test if a check fails.
func explore(t *testing.T, p plan, states int) *explorer {
	t.Helper()
	p.states = states
	x := newExplorer(&p)
	if wrong := x.run(); wrong != "" {
		t.Fatalf("%s\n%s", wrong, x.retold())
	}
	n := x.count
	t.Logf("%d states, %d steps between them, longest path %d, whole: %v", n.states, n.steps, n.depth, !n.cut)
	return x
}

// TestExplore visits all executions of three cores within the bounds of each plan.
// PEERAGE_EXPLORE=n gives each plan n faults of every kind, and eight periods of pings.
func TestExplore(t *testing.T) {
	if s := os.Getenv("PEERAGE_EXPLORE"); s != "" {
		exploreAtLength(t, s)
		return
	}
	for _, p := range explorations() {
		t.Run(p.name, func(t *testing.T) {
			if !testsize.Full() {
				explore(t, p, testsize.Runs(exploreShort, exploreSample, exploreStates))
				return
			}
			if x := explore(t, p, exploreStates); x.count.cut {
				t.Fatal("the bounds of the plan were not reached: give it more states, or less to do")
			}
		})
	}
}

func exploreAtLength(t *testing.T, budget string) {
	n, err := strconv.Atoi(budget)
	if err != nil || n < 1 {
		t.Fatalf("PEERAGE_EXPLORE=%q is no number of faults", budget)
	}
	for i, p := range explorations() {
		if i > 0 && len(p.wishes) == 0 {
			continue // they differ only in their faults
		}
		p.faults, p.budget, p.span = []kind{crash, freeze, isolate, sever, hold}, n, 8*explorePing
		if i == 0 {
			p.name = "faults alone"
		}
		t.Run(p.name, func(t *testing.T) { explore(t, p, exploreLong) })
	}
}

// TestExploreSharesNothing: a step from one state modifies no other state, and the same
// step leads to the same state twice.
func TestExploreSharesNothing(t *testing.T) {
	for _, p := range explorations() {
		p.states = exploreShort
		x := newExplorer(&p)
		x.watch = func(before, after *exploreState, a action) {
			again := x.apply(before, a)
			for i, n := range before.nodes {
				if x.nodeDigest(n) != before.digests[i] {
					t.Fatalf("%s: %v changes node %d of the state before", p.name, a, n.id)
				}
			}
			if x.pastOf(before.truth) != before.past {
				t.Fatalf("%s: %v changes the checks' record of the state before", p.name, a)
			}
			if x.digest(again) != x.digest(after) {
				t.Fatalf("%s: %v leads to two states", p.name, a)
			}
		}
		if wrong := x.run(); wrong != "" {
			t.Fatal(wrong)
		}
	}
}
