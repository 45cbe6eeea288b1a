package view

import (
	"testing"
	"time"
)

func TestOneNodeFormsAndLeads(t *testing.T) {
	w := newWorld(t)
	w.add(1)
	w.step(1, Form{Generation: 100})
	if !w.holds(w.nodes[1]) || !w.allUp(1) {
		w.fail("a cluster of one is not there in the step that forms it")
	}
	w.run(10 * time.Second)
	if !w.holds(w.nodes[1]) {
		w.fail("the lease was not renewed")
	}
}

func TestNodesJoin(t *testing.T) {
	w := cluster(t, 7)
	w.run(5 * time.Second)
	if !w.allUp(7) || !w.allHold() {
		w.fail("the cluster does not hold")
	}
	if got := w.nodes[1].core.State(); got.Part != "leader" {
		w.fail("the most senior member is a %s", got.Part)
	}
}

func TestDeadMemberIsRemovedInAFewRoundTrips(t *testing.T) {
	w := cluster(t, 5)
	w.run(time.Second)
	w.kill(30*time.Millisecond, 3)
	took := w.until(time.Second, "view without the dead", func() bool { return w.allUp(4) })
	t.Logf("a member: %v after the kill, the proof came after 30ms", took)
	if took > 40*time.Millisecond {
		w.fail("took %v", took)
	}
}

func TestDeadLeaderIsReplaced(t *testing.T) {
	w := cluster(t, 5)
	w.run(time.Second)
	w.kill(30*time.Millisecond, 1)
	took := w.until(time.Second, "view without the dead", func() bool { return w.allUp(4) })
	t.Logf("the leader: %v after the kill, the proof came after 30ms", took)
	if took > 50*time.Millisecond {
		w.fail("took %v", took)
	}
}

func TestSurvivorOfAllOthersTakesOver(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for survivor := 1; survivor <= n; survivor++ {
			w := cluster(t, n)
			w.run(time.Second)
			var dead []NodeID
			for id := 1; id <= n; id++ {
				if id != survivor {
					dead = append(dead, NodeID(id))
				}
			}
			w.kill(30*time.Millisecond, dead...)
			took := w.until(time.Second, "the survivor leads", func() bool { return w.allUp(1) && w.allHold() })
			if took > 40*time.Millisecond {
				w.fail("n=%d survivor=%d took %v", n, survivor, took)
			}
		}
	}
}

func TestSilentMemberAndSilentLeaderAreReplaced(t *testing.T) {
	for _, silent := range []NodeID{1, 3} {
		w := cluster(t, 5)
		w.run(time.Second)
		w.pause(silent)
		took := w.until(10*time.Second, "view without the silent", func() bool {
			for _, n := range w.living() {
				if v := n.core.View(); n.id != silent && (len(v.Members) != 4 || !w.holds(n)) {
					return false
				}
			}
			return true
		})
		t.Logf("silence of %v: %v", silent, took)
		w.resume(silent)
		w.until(5*time.Second, "the silent one learns that it is out", func() bool { return w.nodes[silent].removed != nil })
	}
}

func TestLeaving(t *testing.T) {
	w := cluster(t, 4)
	for _, id := range []NodeID{3, 1, 2} {
		w.run(time.Second)
		w.step(id, Leave{})
		took := w.until(3*time.Second, "has left", func() bool {
			return w.nodes[id].removed != nil && w.allHold() && w.allUp(len(w.living()))
		})
		t.Logf("%v left in %v", id, took)
	}
	w.step(4, Leave{})
	if w.nodes[4].removed == nil {
		w.fail("the last member did not just go")
	}
}
