package replication

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/replicator"
)

// countBothWays counts n on a PNCounter, up and down in turns.
func countBothWays(id gossip.NodeID, key string, n int64) operation.Op {
	return Mutate(key, crdt.KindPNCounter, 24, func(v crdt.Value) crdt.Value {
		if d := v.(*crdt.PNCounter).Add(crdt.NodeID(id), n); d != nil {
			return d
		}
		return nil
	})
}

// countersOf returns the two counters of a node.
func countersOf(n *simNode) (up *crdt.GCounter, net *crdt.PNCounter) {
	return n.core.Value("up").(*crdt.GCounter), n.core.Value("net").(*crdt.PNCounter)
}

// countingRestarts makes the nodes restart one after the other, the folding leader among
// them. Each incarnation counts, at its beginning and at its end. It returns the sums.
func countingRestarts(w *world, restarts int, each func(restart int, n *simNode)) (up uint64, net int64) {
	counts := func(id gossip.NodeID, i int) {
		n := int64(i%7+1) * int64(1-2*(i%2))
		up, net = up+uint64(i+1), net+n
		w.reply(id, w.update(id, majority, replicator.Fence{}, count(id, "up", uint64(i+1)), countBothWays(id, "net", n)))
	}
	for i := range restarts {
		old, id := w.order[0], gossip.NodeID(1<<60+i)
		counts(old, i)
		w.start(id)
		w.setView(w.next(add(gossip.Up, id)))
		w.run(100 * time.Millisecond)
		counts(id, i)
		w.crash(old)
		w.setView(w.next(remove(old)))
		w.run(200 * time.Millisecond)
		for _, at := range w.order {
			each(i, w.nodes[at])
		}
	}
	w.run(10 * time.Second)
	return up, net
}

// TestSharesOfManyIncarnationsAreBounded: after a hundred restarts the counters are as small
// as those of the members alone, and show the sum.
func TestSharesOfManyIncarnationsAreBounded(t *testing.T) {
	t.Parallel()
	w := pruneWorld(t, 3)
	up, net := countingRestarts(w, 100, func(restart int, n *simNode) {
		if u, v := countersOf(n); len(u.Writers()) > 12 || len(v.Append(nil)) > 1000 {
			t.Fatalf("restart %d: node %v has %d writers and %d bytes", restart, n.id, len(u.Writers()), len(v.Append(nil)))
		}
	})
	w.forgotten()
	for _, id := range w.order {
		u, v := countersOf(w.nodes[id])
		if u.Count() != up || v.Count() != net || len(u.Writers()) > len(w.order) || len(v.Writers()) > len(w.order) {
			t.Errorf("node %v: %d of %d in %d shares, %d of %d in %d", id, u.Count(), up, len(u.Writers()), v.Count(), net, len(v.Writers()))
		}
	}
}

// TestSharesUnderDurableKeysTakeTwentyBytes: an old file may bring the share of any
// incarnation back, so under durable keys all shares stay.
func TestSharesUnderDurableKeysTakeTwentyBytes(t *testing.T) {
	const restarts = 50
	w := newWorld(t, 1, 3, func(c *Config) {
		c.PruneEvery = 20 * time.Millisecond
		c.Keep = func(string) bool { return true }
	})
	up, net := countingRestarts(w, restarts, func(int, *simNode) {})
	for _, id := range w.order {
		u, v := countersOf(w.nodes[id])
		if u.Count() != up || v.Count() != net || len(u.Append(nil)) > 20*(restarts+3) || len(v.Append(nil)) > 2*20*(restarts+3) {
			t.Errorf("node %v: %d of %d in %d bytes, %d of %d in %d", id, u.Count(), up, len(u.Append(nil)), v.Count(), net, len(v.Append(nil)))
		}
	}
}
