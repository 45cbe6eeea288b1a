package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"pgregory.net/rapid"
)

// policies returns the built-in ones, and one that an application might implement.
func policies() []gossip.Policy {
	return []gossip.Policy{
		gossip.KeepMajority{}, gossip.StaticQuorum{N: 1}, gossip.StaticQuorum{N: 2}, gossip.StaticQuorum{N: 3}, gossip.StaticQuorum{N: 5}, gossip.KeepOldest{},
		gossip.AssumeCrash{After: 2 * (testRemove + testLease)}, byRole{"core"}, weighted{},
	}
}

func drawPolicy(t *rapid.T) gossip.Policy { return rapid.SampledFrom(policies()).Draw(t, "policy") }

// weighted is an application's policy: the first three voters count double.
type weighted struct{}

func (weighted) String() string { return "weighted" }

func (weighted) Quorum(v *gossip.View, in func(gossip.NodeID) bool) bool {
	all, yes, seen := 0, 0, 0
	for i := range v.Members {
		m := &v.Members[i]
		if !m.Status.Votes() {
			continue
		}
		w := 1
		if seen++; seen <= 3 {
			w = 2
		}
		all += w
		if in(m.ID) {
			yes += w
		}
	}
	return 2*yes > all
}

func (weighted) Survives(*gossip.View, func(gossip.NodeID) bool) bool { return true }

// byRole is another one: the majority of the voters with a role decides, of all if none
// has it.
type byRole struct{ role string }

func (p byRole) String() string { return "majority of " + p.role }

func (p byRole) Quorum(v *gossip.View, in func(gossip.NodeID) bool) bool {
	of := v.WithRole(p.role)
	if len(of) == 0 {
		of = v.WithRole("")
	}
	return gossip.KeepMajority{}.Quorum(&gossip.View{Members: of}, in)
}

func (p byRole) Survives(v *gossip.View, living func(gossip.NodeID) bool) bool {
	return p.Quorum(v, living)
}

func TestPoliciesKeepTheirPromise(t *testing.T) {
	for _, p := range policies() {
		for _, word := range []string{"u", "uu", "uuu", "uuuu", "uuuuu", "uuuuuu", "uuuuuuu", "juu", "uujjl", "lul", "juuuj", "jjj"} {
			if err := gossip.VerifyPolicy(p, viewOf(word)); err != nil {
				t.Errorf("%s: %v", word, err)
			}
		}
	}
}

// TestA34PartsThatLiveAndPartsThatStop is the table of partition policies: a cluster is cut in
// two parts, of which the first has the oldest. A part that stops has stopped within
// L (and the drift); one that lives removes the others and serves.
func TestA34PartsThatLiveAndPartsThatStop(t *testing.T) {
	static := func(n int) gossip.Policy { return gossip.StaticQuorum{N: n} }
	for _, c := range []struct {
		policy       gossip.Policy
		one, two     int
		lives, other bool
	}{
		{gossip.KeepMajority{}, 2, 1, true, false}, {gossip.KeepMajority{}, 1, 2, false, true},
		{gossip.KeepMajority{}, 4, 5, false, true}, {gossip.KeepMajority{}, 5, 4, true, false},
		{gossip.KeepMajority{}, 4, 4, true, false}, {gossip.KeepMajority{}, 1, 1, true, false},
		{gossip.KeepMajority{}, 1, 8, false, true}, {gossip.KeepMajority{}, 8, 1, true, false},
		{static(1), 1, 1, true, false}, {static(1), 1, 2, false, true}, // N below a majority
		{static(5), 2, 1, true, false}, {static(5), 1, 3, false, true}, // fewer than N have joined
		{static(2), 1, 2, false, true}, {static(2), 2, 1, true, false},
		{static(5), 4, 4, false, false}, {static(5), 5, 4, true, false}, {static(5), 4, 5, false, true},
		{static(5), 1, 5, false, true}, {static(5), 6, 3, true, false}, {static(6), 5, 4, false, false},
		{static(6), 3, 6, false, true}, {static(9), 8, 1, false, false},
		{static(3), 4, 5, false, true}, {static(3), 3, 3, true, false}, // 2N and more
		{gossip.KeepOldest{}, 3, 3, true, false}, {gossip.KeepOldest{}, 1, 1, true, false}, {gossip.KeepOldest{}, 1, 2, false, true},
		{gossip.KeepOldest{}, 2, 7, true, false}, {gossip.KeepOldest{}, 8, 1, true, false}, {gossip.KeepOldest{}, 1, 8, false, true},
		{weighted{}, 3, 3, true, false}, {weighted{}, 2, 7, false, true}, {weighted{}, 3, 6, false, false},
		{weighted{}, 3, 5, true, false}, {byRole{"core"}, 4, 5, false, true},
	} {
		t.Run(fmt.Sprintf("%v %d-%d", c.policy, c.one, c.two), func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Partition = c.policy
			grow(w, c.one+c.two)
			w.run(time.Second)
			w.cut = func(from, to gossip.NodeID) bool { return (int(from) > c.one) != (int(to) > c.one) }
			w.run(testLease + 10*time.Millisecond)
			first, second := w.part(1, c.one), w.part(c.one+1, c.one+c.two)
			for _, p := range []struct {
				nodes []*simNode
				lives bool
			}{{first, c.lives}, {second, c.other}} {
				if !p.lives && w.serving(p.nodes) != 0 {
					w.fail("of %d that must stop %d hold leases after L", len(p.nodes), w.serving(p.nodes))
				}
			}
			w.run(4 * (testRemove + testLease))
			for _, p := range []struct {
				nodes []*simNode
				lives bool
			}{{first, c.lives}, {second, c.other}} {
				want := 0
				if p.lives {
					want = len(p.nodes)
				}
				if got := w.serving(p.nodes); got != want {
					w.fail("of %d nodes %d serve, want %d", len(p.nodes), got, want)
				}
				if p.lives && len(p.nodes[0].core.View().Members) != len(p.nodes) {
					w.fail("the living nodes are in %s", viewText(p.nodes[0].core.View()))
				}
			}
		})
	}
}

func (w *world) part(from, to int) []*simNode {
	var out []*simNode
	for id := from; id <= to; id++ {
		out = append(out, w.nodes[gossip.NodeID(id)])
	}
	return out
}

// serving counts the nodes that hold a lease.
func (w *world) serving(nodes []*simNode) int {
	n := 0
	for _, x := range nodes {
		if w.holds(x) {
			n++
		}
	}
	return n
}

// TestA34SurvivorsOfCrashes: all but a few crash, with proofs in time. StaticQuorum does
// not continue below its number; the other policies do, down to the last node.
func TestA34SurvivorsOfCrashes(t *testing.T) {
	for _, c := range []struct {
		policy gossip.Policy
		of     int
		left   int
		lives  bool
	}{
		{gossip.KeepMajority{}, 5, 1, true}, {gossip.KeepOldest{}, 5, 1, true}, {gossip.AssumeCrash{After: 10 * time.Second}, 5, 1, true},
		{gossip.StaticQuorum{N: 3}, 5, 3, true}, {gossip.StaticQuorum{N: 3}, 5, 2, false}, {gossip.StaticQuorum{N: 3}, 3, 2, false},
		{gossip.StaticQuorum{N: 3}, 2, 1, true}, {weighted{}, 5, 1, true}, {byRole{"core"}, 5, 2, false},
	} {
		t.Run(fmt.Sprintf("%v %d of %d", c.policy, c.left, c.of), func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Partition = c.policy
			grow(w, c.of)
			w.run(time.Second)
			var dead []gossip.NodeID
			for id := 1; id <= c.of-c.left; id++ {
				dead = append(dead, gossip.NodeID(id))
			}
			w.kill(30*time.Millisecond, dead...)
			w.run(10 * time.Second)
			if got := w.serving(w.living()) == c.left; got != c.lives || !got && w.serving(w.living()) != 0 {
				w.fail("%d of %d serve", w.serving(w.living()), c.left)
			}
		})
	}
}

// TestStaticQuorumLeavesInOrder: below N a crash stops the rest, a leave does not.
func TestStaticQuorumLeavesInOrder(t *testing.T) {
	w := newWorld(t)
	w.cfg.Partition = gossip.StaticQuorum{N: 4}
	grow(w, 5)
	for id := gossip.NodeID(1); id <= 4; id++ {
		w.run(time.Second)
		w.step(id, Leave{})
		w.must(3*time.Second, "has left", func() bool { return w.nodes[id].removed != nil && w.allUp(5-int(id)) && w.allHold() })
	}
}

// TestAssumeCrash: both parts continue, the smaller one only after After; any message of
// the other side withdraws the assumption; when the parts meet, one yields.
func TestAssumeCrash(t *testing.T) {
	after := 8 * time.Second
	w := newWorld(t)
	w.cfg.Partition = gossip.AssumeCrash{After: after}
	w.truth.wrongEvidence = true
	grow(w, 5)
	w.run(time.Second)
	w.cutOff(4, 5)
	began := w.now
	small, large := w.part(4, 5), w.part(1, 3)
	for _, n := range small {
		for _, o := range large {
			w.step(n.id, Link{Subject: o.id, Up: false})
		}
	}
	w.must(4*time.Second, "the majority has removed them", func() bool { return w.serving(large) == 3 && len(large[0].core.View().Members) == 3 })
	w.must(after, "the minority goes on", func() bool { return w.serving(small) == 2 })
	if took := w.now - began; took < after {
		w.fail("the minority went on after %v", took)
	}
	if w.serving(large) != 3 {
		w.fail("the majority no longer serves")
	}
	w.cut = nil
	for _, n := range small {
		w.transmit(n.id, 1, &Decided{View: Whole(n.core.View())})
	}
	w.must(time.Second, "the minority has yielded", func() bool { return small[0].removed != nil && small[1].removed != nil })
	if w.serving(large) != 3 {
		w.fail("the majority has yielded as well")
	}
}

// TestAssumeCrashTakesItBack: a member that sends messages is not dead, even if all other
// members are silent.
func TestAssumeCrashTakesItBack(t *testing.T) {
	after := 8 * time.Second
	w := newWorld(t)
	w.cfg.Partition = gossip.AssumeCrash{After: after}
	w.truth.wrongEvidence = true
	grow(w, 3)
	w.run(time.Second)
	w.cutOff(3)
	w.step(3, Link{Subject: 1, Up: false})
	w.run(after / 2)
	w.step(3, Link{Subject: 2, Up: false})
	w.run(after/2 + testLease)
	three := w.nodes[3].core
	if !three.evidence.dead(1) || three.evidence.dead(2) || w.holds(w.nodes[3]) {
		w.fail("dead to 3: 1 %v, 2 %v", three.evidence.dead(1), three.evidence.dead(2))
	}
	w.inject(1, 3, &LeaveRequest{})
	if three.evidence.dead(1) {
		w.fail("1 sends messages but still counts as dead")
	}
	w.must(after+testLease, "3 goes on", func() bool { return w.holds(w.nodes[3]) })
}
