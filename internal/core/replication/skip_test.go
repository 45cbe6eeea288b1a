package replication

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// skippedView: of 1, 2 and 3, 3 does not receive the view in which 4 and 5 vote. A write
// there stands at 1, 4 and 5, when 4 and 5 are gone again: two of five. Then 3 is told of
// the view after that one, and reads with 2.
func skippedView(t *testing.T) string {
	w := newWorld(t, 1, 3, nil)
	w.start(4)
	w.start(5)
	deaf := func(id gossip.NodeID) bool { return id == 3 }
	w.cut = func(a, b gossip.NodeID) bool { return deaf(a) || deaf(b) }
	w.view = w.next(add(gossip.Up, 4, 5))
	for _, id := range ids(1, 2, 4, 5) {
		w.step(id, ViewChanged{View: w.view})
	}
	w.run(time.Second)
	if !w.nodes[1].core.Stats().Settled {
		return "the view is not settled without node 3"
	}
	side := func(id gossip.NodeID) bool { return id == 2 || id == 3 }
	w.cut = func(a, b gossip.NodeID) bool { return side(a) || side(b) }
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))); r.Err != nil {
		return "the write failed: " + r.Err.Error()
	}
	w.crash(4)
	w.crash(5)
	w.setView(w.next(remove(4, 5)))
	w.cut = func(a, b gossip.NodeID) bool { return a == 1 || b == 1 }
	rid := w.read(3, majority, replicator.Fence{}, "k")
	w.run(500 * time.Millisecond)
	w.cut = nil
	if r := w.reply(3, rid); r.Err != nil || r.Values[0] == nil || !r.Values[0].(*crdt.ORSet[string]).Contains("e") {
		return "a majority read misses what a majority had confirmed"
	}
	return ""
}
