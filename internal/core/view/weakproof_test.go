package view

import (
	"github.com/peerage-go/peerage/gossip"
	"testing"
	"time"
)

// Weak proofs: those that a rejecting network can produce for living members.

// suspect gives a node a weak proof of a peer's death, as a control link that breaks and
// is then refused.
func (w *world) suspect(of, about gossip.NodeID) {
	w.step(of, Link{Subject: about})
	w.step(of, ProvenDead{Subject: about, Reason: "refused"})
}

// windowOfTotal: certain proofs that arrive within L of the newest grant replace a
// quorum, later ones do not.
func windowOfTotal(w *world) {
	for _, late := range []time.Duration{600 * time.Millisecond, 1500 * time.Millisecond} {
		x := newWorld(w.t)
		x.quiet = w.quiet
		grow(x, 3)
		x.run(time.Second)
		x.kill(late, 1, 2)
		x.run(late + time.Second)
		if took := x.holds(x.nodes[3]); took != (late < testLease) {
			x.fail("the proofs came after %v: takeover %v", late, took)
		}
	}
}

// weakRemovalThenDeaths: 1 removes 3 by weak proof, admits 4, and dies with 2; 3 and 4
// both have certain proofs then. A window of RemoveAfter would let both take over.
func weakRemovalThenDeaths(w *world) {
	grow(w, 3)
	w.run(time.Second)
	w.cutOff(3)
	w.suspect(1, 3)
	w.suspect(2, 3)
	gone := w.until(testLease+3*testPing, "3 is left out", func() bool { return len(w.nodes[1].core.View().Members) == 2 })
	w.join(4)
	joined := w.until(time.Second, "4 is up", func() bool { m := w.nodes[1].core.View().Member(4); return m != nil && m.Status == gossip.Up })
	w.kill(30*time.Millisecond, 1, 2)
	w.run(40 * time.Millisecond)
	if w.holds(w.nodes[3]) {
		w.fail("3 was left out after %v, 4 up %v later, but 3 holds a lease", gone, joined)
	}
	w.until(time.Second, "4 takes over", func() bool { return w.holds(w.nodes[4]) })
	w.run(3 * time.Second)
}

// leaderRefusedToOne: the leader is cut off and weakly proven dead to 2; 3 has lost its
// link as well. The promise to the leader holds: its lease still runs.
func leaderRefusedToOne(w *world) {
	grow(w, 3)
	w.run(time.Second + testPing/2) // no ping is in flight
	w.cutOff(1)
	w.suspect(2, 1)
	w.step(3, Link{Subject: 1})
	w.must(testLease+testRemove, "2 leads when the lease of 1 has ended", func() bool { return w.nodes[2].core.LeaderLease().After(w.clock(w.nodes[2])) })
	if w.nodes[1].core.LeaderLease().After(w.clock(w.nodes[1])) {
		w.fail("1 still holds the leader lease")
	}
	took := w.must(2*testLease, "1 is left out", func() bool { return w.nodes[2].core.View().Member(1) == nil })
	if w.t != nil {
		w.t.Logf("1 is left out %v after 2 became leader", took)
	}
	w.run(time.Second)
}

// grantOfTheFormerLeader: 1 grants 3 a lease and dies, with a certain proof. 2 leads with
// 4 and 5, and has a weak proof of 3: the lease of 3 is still valid after 2 became
// leader.
func grantOfTheFormerLeader(w *world) {
	grow(w, 5)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return (from == 3 || to == 3) && from != 1 && to != 1 }
	w.run(testPing)
	w.kill(10*time.Millisecond, 1)
	w.at(5*time.Millisecond, func() {
		w.suspect(2, 3)
		w.step(4, Link{Subject: 3})
		w.step(5, Link{Subject: 3})
	})
	w.until(time.Second, "2 leads", func() bool { return w.nodes[2].core.LeaderLease().After(w.clock(w.nodes[2])) })
	if !w.holds(w.nodes[3]) {
		w.setup = true
		w.fail("3 holds no lease of the former leader")
	}
	took := w.must(testLease+3*testPing, "3 is left out", func() bool { return w.nodes[2].core.View().Member(3) == nil })
	if w.t != nil {
		w.t.Logf("3 is left out %v after 2 became leader", took)
	}
	w.run(time.Second)
}

// strangersView: a node in no view sends a member one of the highest epoch.
func strangersView(w *world) {
	grow(w, 3)
	w.run(time.Second)
	w.inject(strangerID, 2, lies(w.nodes[2].core.View())["decided at the last epoch"])
	w.run(time.Second)
	if !w.allUp(3) || !w.allHold() {
		w.fail("a message of a non-member has ended a member")
	}
}

// TestWeakProofRemovesAfterTheLease: a member that is weakly proven dead is removed one
// lease after its newest answer, sooner than for silence; a leader two leases after.
func TestWeakProofRemovesAfterTheLease(t *testing.T) {
	for _, dead := range []gossip.NodeID{1, 3} {
		w := cluster(t, 4)
		w.run(time.Second)
		w.crash(dead)
		for _, n := range w.living() {
			w.at(20*time.Millisecond, func() { w.suspect(n.id, dead) })
		}
		least, most := testLease-testPing, testLease+2*testPing
		if dead == 1 {
			least, most = 2*testLease-testPing, 2*testLease+4*testPing
		}
		took := w.must(4*time.Second, "the dead is out", func() bool { return w.allUp(3) && w.allHold() })
		t.Logf("%d is left out after %v", dead, took)
		if took < least || took > most {
			w.fail("%d was left out after %v", dead, took)
		}
	}
}

// TestWeakProofBecomesCertain: from that moment it counts as a certain one does.
func TestWeakProofBecomesCertain(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.crash(1, 2)
	w.suspect(3, 1)
	w.suspect(3, 2)
	w.run(300 * time.Millisecond)
	if w.nodes[3].core.View().Member(1) == nil {
		w.fail("weak proofs replace a quorum")
	}
	for _, id := range []gossip.NodeID{1, 2} {
		w.step(3, ProvenDead{Subject: id, Reason: "sealed", Certain: true})
	}
	took := w.must(time.Second, "3 takes over", func() bool { return w.allUp(1) && w.allHold() })
	if took > 10*time.Millisecond {
		w.fail("took %v", took)
	}
}

// TestWeakProofsReplaceNoQuorum: all other members are weakly proven dead, long before
// and long after.
func TestWeakProofsReplaceNoQuorum(t *testing.T) {
	for _, level := range []gossip.CrashEvidence{gossip.EvidenceFull, gossip.EvidenceWithinQuorum} {
		w := newWorld(t)
		w.cfg.Evidence = level
		grow(w, 3)
		w.run(time.Second)
		w.cutOff(3)
		w.suspect(3, 1)
		w.suspect(3, 2)
		w.run(5 * time.Second)
		if w.holds(w.nodes[3]) {
			w.fail("3 continues alone")
		}
	}
}

// TestADeniedWeakProofEndsNoCandidacy: the leader is certainly dead; 2 has a wrong weak
// proof of 3, with which the other members have links. It takes over nevertheless, and 3
// stays.
func TestADeniedWeakProofEndsNoCandidacy(t *testing.T) {
	w := cluster(t, 5)
	w.run(time.Second)
	w.step(2, ProvenDead{Subject: 3, Reason: "refused"})
	w.kill(30*time.Millisecond, 1)
	took := w.must(time.Second, "four serve", func() bool { return w.allUp(4) && w.allHold() })
	if took > 50*time.Millisecond {
		w.fail("took %v", took)
	}
}

// TestAWeakProofThatIsDenied: a member with which 2 has a link is not left out, even if
// the link is restored only just before the lease has ended.
func TestAWeakProofThatIsDenied(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return from+to == 4 } // 1 and 3
	w.suspect(1, 3)
	w.step(2, Link{Subject: 3})
	w.run(testLease * 9 / 10)
	w.step(2, Link{Subject: 3, Up: true})
	w.run(testRemove - testLease) // silence eventually removes it
	if w.nodes[1].core.View().Member(3) == nil || w.marks["proof denied"] == 0 {
		w.fail("3 was left out though 2 has a link with it")
	}
}
