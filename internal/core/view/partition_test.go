package view

import (
	"fmt"
	"github.com/peerage-go/peerage/gossip"
	"testing"
	"time"
)

// TestA38JoinsAndLeavesDuringAPartition: five nodes are cut in two, for less than a lease
// and for long. Meanwhile a node asks for admission on either side, and members leave:
// one of the side that stops, one of the side that continues, the leader at the moment of
// the cut, or all of the smaller side. Each step is checked for one view per epoch and no
// lease outside the newest. After the heal all living nodes, the removed ones as new
// incarnations, are in one view within 5 s, without those that left.
func TestA38JoinsAndLeavesDuringAPartition(t *testing.T) {
	leavers := map[string][]gossip.NodeID{
		"no node leaves": nil, "the leader leaves": {1}, "the second leaves": {2}, "the last leaves": {5}, "the last two leave": {4, 5},
		"the first and the last leave": {1, 5},
	}
	for _, first := range []int{2, 3} { // how many are on the leader's side
		for who, goes := range leavers {
			for _, cut := range []time.Duration{300 * time.Millisecond, 1200 * time.Millisecond, 2500 * time.Millisecond, 20 * time.Second} {
				for _, joinAfter := range []time.Duration{0, 50 * time.Millisecond, 1100 * time.Millisecond, 4 * time.Second} {
					if joinAfter > cut {
						continue
					}
					t.Run(fmt.Sprintf("%d-%d for %v, %s, joins after %v", first, 5-first, cut, who, joinAfter), func(t *testing.T) {
						joinsAndLeaves(newWorld(t), first, goes, cut, joinAfter)
					})
				}
			}
		}
	}
}

// joinsAndLeaves plays one case. Nodes 6 and 7 ask for admission, on the leader's side
// and on the other.
func joinsAndLeaves(w *world, first int, goes []gossip.NodeID, cut, joinAfter time.Duration) {
	w.quiet = true
	grow(w, 5)
	w.run(time.Second)
	side := map[gossip.NodeID]bool{6: true}
	for id := 1; id <= first; id++ {
		side[gossip.NodeID(id)] = true
	}
	next := gossip.NodeID(100)
	w.removed = func(n *simNode) {
		if n.leaves {
			return
		}
		next++
		id, at := next, side[n.id]
		w.at(200*time.Millisecond, func() { side[id] = at; w.join(id); w.askAgain(id) })
	}
	w.cut = func(from, to gossip.NodeID) bool { return side[from] != side[to] }
	w.at(joinAfter, func() {
		for id := gossip.NodeID(6); id <= 7; id++ {
			w.join(id)
			w.askAgain(id)
		}
	})
	for _, id := range goes {
		w.nodes[id].leaves = true
		w.step(id, Leave{})
	}
	w.run(cut)
	w.cut = nil
	left := 7 - len(goes)
	took := w.must(5*time.Second, "one view again", func() bool {
		return len(w.living()) == left && w.allUp(left) && w.allHold()
	})
	w.t.Logf("one view of %d after %v", left, took)
}

// askAgain repeatedly names contacts to a node without a view, as the shell does.
func (w *world) askAgain(id gossip.NodeID) {
	if n := w.nodes[id]; n.down || n.removed != nil || n.core.View() != nil {
		return
	}
	w.step(id, Contacts{Nodes: w.contacts()})
	w.at(500*time.Millisecond, func() { w.askAgain(id) })
}
