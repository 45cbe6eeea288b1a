package core

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
)

// The first change of a member is still on its way when replicas compare: the vector of
// who has not got it does not name its stream at all. That is no reason to compare
// buckets. By count of sessions.
func TestFirstChangeOnItsWayOpensNoSession(t *testing.T) {
	for offset := range 50 {
		w := newWorld(t, uint64(offset)+1, 3, func(c *Config) { c.BatchEvery, c.GossipEvery = 60*time.Millisecond, 100*time.Millisecond })
		w.run(time.Second + time.Duration(offset)*2*time.Millisecond)
		for _, id := range w.order {
			w.update(id, Local, Fence{}, addTo(id, "k", id.String()))
			w.run(5 * time.Millisecond)
		}
		w.settle(time.Second)
		for _, id := range w.order {
			if n := w.nodes[id].core.Stats().Descents; n > 0 {
				t.Fatalf("offset %d: node %v compared buckets %d times for what streams bring", offset, id, n)
			}
		}
	}
}

// A member that has nothing of a stream, and will not get it that way, is compared with
// all the same.
func TestStreamThatNeverComesIsMadeUpFor(t *testing.T) {
	w := newWorld(t, 1, 2, nil)
	w.dropKind = func(m Message) bool { _, deltas := m.(*Deltas); return deltas }
	w.update(1, Local, Fence{}, addTo(1, "k", "e"))
	w.settle(10 * time.Second)
	if elements(w.nodes[view.NodeID(2)].core.Value("k")) == nil {
		t.Error("not there")
	}
}
