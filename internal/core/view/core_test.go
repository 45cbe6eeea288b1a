package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func TestOneNodeFormsAndLeads(t *testing.T) {
	w := newWorld(t)
	w.add(1)
	w.step(1, Form{Generation: 100})
	if !w.holds(w.nodes[1]) || !w.allUp(1) {
		w.fail("the step that forms a cluster of one does not show it")
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
			var dead []gossip.NodeID
			for id := 1; id <= n; id++ {
				if id != survivor {
					dead = append(dead, gossip.NodeID(id))
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
	for _, silent := range []gossip.NodeID{1, 3} {
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
	for _, id := range []gossip.NodeID{3, 1, 2} {
		w.run(time.Second)
		w.step(id, Leave{})
		took := w.until(3*time.Second, "has left", func() bool {
			return w.nodes[id].removed != nil && w.allHold() && w.allUp(len(w.living()))
		})
		t.Logf("%v left in %v", id, took)
	}
	w.step(4, Leave{})
	if w.nodes[4].removed == nil {
		w.fail("the last member did not end immediately")
	}
}

// TestAnnouncedLeave: a member that announces its leave, the leader as well, is shown
// as leaving within a few round trips; it keeps vote and lease until it leaves, and
// comes out in order.
func TestAnnouncedLeave(t *testing.T) {
	for _, id := range []gossip.NodeID{1, 3} {
		w := cluster(t, 3)
		w.run(time.Second)
		w.step(id, AnnounceLeave{})
		w.step(id, AnnounceLeave{})
		took := w.must(testPing, "all see it leaving", func() bool { return w.shown(id, gossip.Leaving) })
		t.Logf("%d is shown as leaving after %v", id, took)
		before := w.nodes[1].core.View().Epoch
		w.run(10 * time.Second)
		v := w.nodes[2].core.View()
		if v.Epoch != before || !w.allHold() || len(v.Members) != 3 {
			w.fail("the notice changes more than the status: %s", viewText(v))
		}
		if part := w.nodes[1].core.State().Part; part != "leader" {
			w.fail("the most senior member is a %s", part)
		}
		w.step(id, Leave{})
		w.must(3*time.Second, "has left", func() bool { return w.nodes[id].removed != nil && w.allUp(2) && w.allHold() })
	}
}

// TestAnnouncedLeaveSurvivesTheLeader: the leader's crash loses the notice, and it is
// sent to the next leader.
func TestAnnouncedLeaveSurvivesTheLeader(t *testing.T) {
	w := cluster(t, 4)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool { _, ok := m.(*LeaveNotice); return ok && to == 1 }
	w.step(4, AnnounceLeave{})
	w.run(time.Second)
	if w.shown(4, gossip.Leaving) {
		w.fail("the notice was lost, but 4 is leaving")
	}
	w.kill(30*time.Millisecond, 1)
	w.must(time.Second, "4 is leaving", func() bool { return w.shown(4, gossip.Leaving) && w.allHold() })
	w.kill(30*time.Millisecond, 2, 3)
	w.must(time.Second, "4 goes on alone, still leaving", func() bool {
		v := w.nodes[4].core.View()
		return len(v.Members) == 1 && w.shown(4, gossip.Leaving) && w.allHold()
	})
}

// TestJoinerAnnouncesItsLeave: a joiner that announces its leave is shown as leaving once
// it would be up.
func TestJoinerAnnouncesItsLeave(t *testing.T) {
	w := cluster(t, 2)
	w.add(3)
	w.step(3, AnnounceLeave{})
	w.step(3, Contacts{Nodes: w.contacts()})
	w.must(time.Second, "3 is leaving", func() bool { return w.shown(3, gossip.Leaving) && w.allHold() })
}

// shown reports whether all living nodes show a member with a status.
func (w *world) shown(id gossip.NodeID, s gossip.Status) bool {
	for _, n := range w.living() {
		if m := n.core.View().Member(id); m == nil || m.Status != s {
			return false
		}
	}
	return true
}

// TestADenialIsTracedOnce: 2 keeps its link with a member that is proven dead to the
// leader, which asks twenty times a second.
func TestADenialIsTracedOnce(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	deny := func(n int) {
		w.step(1, ProvenDead{Subject: 3, Reason: "refused", Certain: true})
		asked := 0
		w.sent = func(from, to gossip.NodeID, m Message) {
			if _, ok := m.(*Doubt); ok {
				asked++
			}
		}
		w.run(5 * time.Second)
		if asked < 20 || w.marks["proof denied"] != n || !w.allUp(3) {
			w.fail("asked %d times, traced %d denials, want %d", asked, w.marks["proof denied"], n)
		}
		w.step(1, Alive{Subject: 3})
	}
	deny(1)
	w.run(2 * time.Second)
	deny(2)
}

// TestANodeThatIsAdmittedAgainEnds: a view in which this node has joined later than it did,
// or is joining although it was up, admits another incarnation: this one ends, and drops its
// instances.
func TestANodeThatIsAdmittedAgainEnds(t *testing.T) {
	for name, change := range map[string]func(m *gossip.Member, e gossip.Epoch){
		"joined later":  func(m *gossip.Member, e gossip.Epoch) { m.Joined = e },
		"joining again": func(m *gossip.Member, _ gossip.Epoch) { m.Status = gossip.Joining },
	} {
		w := cluster(t, 3)
		w.run(time.Second)
		v := *w.nodes[3].core.View()
		v.Epoch++
		v.Members = slices.Clone(v.Members)
		change(&v.Members[2], v.Epoch)
		w.inject(1, 3, &Decided{View: Whole(&v)})
		if n := w.nodes[3]; n.removed == nil || n.abandon != 1 || n.lease.Until != 0 {
			t.Errorf("%s: removed %v, abandoned %d times, lease %+v", name, n.removed, n.abandon, n.lease)
		}
	}
}
