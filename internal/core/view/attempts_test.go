package view

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// generationOfAttempts: 2 takes over with 3 and dies before 3 learns of it.
func generationOfAttempts(w *world) {
	grow(w, 4)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return from == 2 && len(w.nodes[2].core.View().Members) == 2
	}
	w.kill(30*time.Millisecond, 1, 4)
	w.until(time.Second, "2 has taken over", func() bool { return len(w.nodes[2].core.View().Members) == 2 })
	w.kill(30*time.Millisecond, 2)
	w.must(time.Second, "3 takes over", func() bool { return w.allUp(1) && w.allHold() })
}

// leaseWhileCarrying: 1 commits a view without 3 and is cut off before any member learns
// it. 3 is elected by the acceptors of its removal, and must carry it.
func leaseWhileCarrying(w *world) {
	grow(w, 4)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool {
		return from == 1 && to == 3 || from == 3 && to == 1 || from == 1 && len(w.nodes[1].core.View().Members) == 3
	}
	w.until(4*time.Second, "3 is left out", func() bool { return len(w.nodes[1].core.View().Members) == 3 })
	// 2 is next in seniority; it must not stand, and 4 not before 3.
	w.lose = func(from, to gossip.NodeID, m Message) bool { _, ok := m.(*PreVote); return ok && from != 3 }
	w.until(3*time.Second, "3 carries its own removal", func() bool { return w.marks["carries"] > 0 })
	w.run(3 * time.Second)
}

// carriedRemoval: 1 proposes to leave the silent 4 out, and only itself has accepted when it
// is cut off. 2 leads without uncovering the attempt; 1 and 4 are back, and all hold leases.
// Then 4 is cut off, and 2 dies with certain proofs: 1 carries its own attempt while the
// lease of 4 runs.
func carriedRemoval(w *world) {
	grow(w, 5)
	w.run(time.Second)
	w.cutOff(4)
	w.lose = func(from, to gossip.NodeID, m Message) bool { _, ok := m.(*Accept); return ok && from == 1 }
	w.until(4*time.Second, "1 proposes to leave 4 out", func() bool { return w.nodes[1].core.leadership.proposal != nil })
	w.cutOff(1)
	w.until(4*time.Second, "2 leads", func() bool { return w.nodes[1].core.leadership == nil && w.nodes[2].core.leadership != nil })
	w.cut = nil
	w.until(time.Second, "all hold leases", func() bool { return w.allHold() })
	w.cutOff(4)
	w.kill(10*time.Millisecond, 2)
	w.until(time.Second, "the attempt is carried under the lease of 4", func() bool { return w.marks["carries"] > 0 && w.holds(w.nodes[4]) })
	w.must(4*time.Second, "4 is left out", func() bool { return w.nodes[1].core.View().Member(4) == nil })
	w.run(time.Second)
}

// admittedAgain: 3 is cut off and removed. 4 joins, and 1 and 2 leave in order: no member is
// left that has met 3. A late join request of 3 makes 4 admit it, in the same generation.
// 3 must not continue with its old instances.
func admittedAgain(w *world) {
	grow(w, 2)
	var late *JoinRequest
	w.sent = func(from, to gossip.NodeID, m Message) {
		if j, ok := m.(*JoinRequest); ok && from == 3 {
			late = j
		}
	}
	w.join(3)
	w.until(time.Second, "3 is up", func() bool { return w.allUp(3) && w.allHold() })
	generation := w.nodes[3].core.View().Epoch.Generation()
	w.cutOff(3)
	w.until(4*time.Second, "3 is left out", func() bool { return w.nodes[1].core.View().Member(3) == nil })
	n := w.add(4)
	w.step(4, Contacts{Nodes: []gossip.Node{w.nodes[1].core.cfg.Self}})
	w.until(time.Second, "4 holds a lease", func() bool { return w.holds(n) })
	for _, id := range []gossip.NodeID{1, 2} {
		w.step(id, Leave{})
		w.until(3*time.Second, "a member has left", func() bool { return w.nodes[id].removed != nil && w.holds(n) })
	}
	w.run(4 * time.Second)
	w.cut = nil
	w.inject(3, 4, late)
	w.until(time.Second, "3 is admitted again", func() bool { return n.core.View().Member(3) != nil })
	if n.core.View().Epoch.Generation() != generation {
		w.setup = true
		w.fail("the generation is no longer %d", generation)
	}
	w.must(5*time.Second, "3 ends", func() bool { return w.nodes[3].removed != nil })
}

// hopelessAttempt: 1 proposes to leave 4 and 5 out; 3 accepts, then 1 and 2 die. 3, 4 and
// 5 are a quorum of the old view with proofs that 1 and 2 are dead. The attempt can never
// be committed: it must not be carried forever.
func hopelessAttempt(w *world) {
	grow(w, 5)
	w.run(time.Second)
	w.cutOff(4, 5)
	w.until(4*time.Second, "3 has accepted", func() bool { return w.nodes[3].core.acceptor.attempts[w.nodes[3].core.view.Epoch] != nil })
	w.crash(1, 2)
	w.cut = nil
	for _, n := range w.living() {
		for _, id := range []gossip.NodeID{1, 2} {
			w.step(n.id, Link{Subject: id, Up: false})
			w.at(30*time.Millisecond, func() { w.step(n.id, ProvenDead{Subject: id, Reason: "refused", Certain: true}) })
		}
	}
	w.must(4*time.Second, "the rest serves", func() bool { return w.allUp(3) && w.allHold() })
}

// hopelessTakeover: 4 and 5 are cut off, and 4 receives proofs that 1, 2 and 3 are dead.
// It takes over with 5, which accepts; then 4 dies, and the network heals. 1 uncovers an
// emergency view that keeps the dead 4, and is a plain quorum with the living members.
func hopelessTakeover(w *world) {
	w.truth.wrongEvidence = true
	grow(w, 5)
	w.run(time.Second)
	w.cutOff(4, 5)
	for id := gossip.NodeID(1); id <= 3; id++ {
		w.step(5, Link{Subject: id, Up: false})
	}
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		p, ok := m.(*Pong)
		_, promised := m.(*Promised)
		return ok && p.Accepted != 0 && to == 4 || promised && from == 3 // so that 5 is needed
	}
	for id := gossip.NodeID(1); id <= 3; id++ {
		w.step(4, ProvenDead{Subject: id, Reason: "wrong", Certain: true})
	}
	w.until(2*time.Second, "5 has accepted", func() bool { return w.nodes[5].core.acceptor.attempts[w.nodes[5].core.view.Epoch] != nil })
	w.cut = nil
	w.kill(300*time.Millisecond, 4)
	before := w.marks["leads"]
	w.run(2 * time.Second)
	w.lose = nil
	w.must(4*time.Second, "the rest serves", func() bool { return w.allUp(4) && w.allHold() })
	if n := w.marks["leads"] - before; n > 10 {
		w.fail("it took %d leaders", n)
	}
}
