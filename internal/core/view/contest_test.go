package view

import (
	"github.com/peerage-go/peerage/gossip"
	"testing"
	"time"
)

// TestLineagesWithoutCommonMembersMeet: two lineages part by wrong evidence, and each
// replaces all members that it had then. When they meet, each is a non-member to the other,
// and one lineage ends all the same.
func TestLineagesWithoutCommonMembersMeet(t *testing.T) {
	w := cluster(t, 4)
	w.truth.wrongEvidence = true
	w.run(time.Second)
	side := func(id gossip.NodeID) int { return b2i(id%2 == 0) }
	w.cut = func(from, to gossip.NodeID) bool { return side(from) != side(to) }
	for _, a := range w.order {
		for _, b := range w.order {
			if side(a) != side(b) {
				w.step(a, Link{Subject: b})
				w.step(a, ProvenDead{Subject: b, Reason: "wrong", Certain: true})
			}
		}
	}
	w.run(4 * time.Second)
	for i, old := range [][]gossip.NodeID{{1, 3}, {2, 4}} {
		for k := range gossip.NodeID(3) {
			id := 11 + gossip.NodeID(i) + 2*k
			w.add(id)
			w.step(id, Contacts{Nodes: []gossip.Node{{ID: old[0]}}})
			w.must(10*time.Second, "a newcomer joins", func() bool { m := w.nodes[id].core.View().Member(id); return m != nil && m.Status == gossip.Up })
		}
		w.kill(30*time.Millisecond, old...)
		w.must(10*time.Second, "the newcomers are left", func() bool { return len(w.nodes[11+gossip.NodeID(i)].core.View().Members) == 3 })
	}
	w.cut = nil
	show := func() bool {
		for _, a := range w.living() {
			for _, b := range w.living() {
				if side(a.id) != side(b.id) {
					w.transmit(a.id, b.id, &Decided{View: Whole(a.core.View())})
				}
			}
		}
		w.run(testPing)
		return len(w.living()) == 3
	}
	w.must(10*time.Second, "one lineage ends", show)
	if !w.allUp(3) || !w.allHold() {
		w.fail("the other does not hold")
	}
}

// TestAttackAForgedLineageNeedsProof: a non-member shows a view of a lineage that would
// win, and answers every question about it. No member ends, since the answers hold no
// proof of membership, or one that a member gave to another node's question.
func TestAttackAForgedLineageNeedsProof(t *testing.T) {
	w := cluster(t, 5)
	w.run(time.Second)
	w.kill(30*time.Millisecond, 1, 2, 3)
	w.must(5*time.Second, "two take over", func() bool { return w.allUp(2) && w.allHold() })
	asks := 0
	for range 200 {
		for _, n := range w.living() {
			c, other := n.core, 9-n.id
			forged := &gossip.View{Cluster: c.View().Cluster, Epoch: c.View().Epoch + 7, Members: []gossip.Member{{Node: gossip.Node{ID: strangerID}, Joined: 1, Status: gossip.Up}}}
			if compareViews(c.View(), forged) != loses {
				w.fail("the forged view does not win")
			}
			w.inject(strangerID, n.id, &Decided{View: Whole(forged)})
			asked := c.lineage.membership.asked
			if asked.with != strangerID {
				continue
			}
			asks++
			for _, proof := range []uint64{0, 1, c.lineage.membership.proof(asked.nonce, strangerID, other), c.lineage.membership.proof(asked.nonce, n.id, other)} {
				w.inject(strangerID, n.id, &Contested{View: Whole(forged), Nonce: asked.nonce, Proof: proof})
			}
		}
		w.run(5 * time.Millisecond)
		if !w.allUp(2) || !w.allHold() {
			w.fail("the cluster does not hold")
		}
	}
	if asks == 0 {
		w.fail("no member has asked for a proof")
	}
}

// TestOnlyMembersAreSentTheSecret: each joining member receives the secret in a few pings.
func TestOnlyMembersAreSentTheSecret(t *testing.T) {
	w := newWorld(t)
	sent := map[gossip.NodeID]int{}
	w.sent = func(from, to gossip.NodeID, m Message) {
		p, is := m.(*Ping)
		if a, accept := m.(*Accept); accept {
			p, is = &a.Ping, true
		}
		if !is || p.Secret == ([2]uint64{}) {
			return
		}
		if w.nodes[from].core.View().Member(to) == nil {
			w.fail("%d sends %d the secret", from, to)
		}
		if sent[to]++; sent[to] > 3 {
			w.fail("%d sends %d the secret in each ping", from, to)
		}
	}
	grow(w, 3)
	w.run(time.Second)
	if len(sent) != 2 || sent[2] == 0 || sent[3] == 0 {
		w.fail("sent %v", sent)
	}
	for _, n := range w.living() {
		if n.core.lineage.membership.secret != ([2]uint64{7, 8}) {
			w.fail("%d has %v", n.id, n.core.lineage.membership.secret)
		}
	}
}
