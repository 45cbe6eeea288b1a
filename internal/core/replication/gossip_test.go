package replication

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

// The first change of a member is still on its way when replicas compare: the vector of
// who has not got it does not name its stream at all. That is no reason to compare
// buckets. By count of sessions.
func TestFirstChangeOnItsWayOpensNoSession(t *testing.T) {
	for offset := range 50 {
		w := newWorld(t, uint64(offset)+1, 3, func(c *Config) { c.BatchEvery, c.GossipEvery = 60*time.Millisecond, 100*time.Millisecond })
		w.run(time.Second + time.Duration(offset)*2*time.Millisecond)
		for _, id := range w.order {
			w.update(id, replicator.Local, replicator.Fence{}, addTo(id, "k", id.String()))
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
	w.update(1, replicator.Local, replicator.Fence{}, addTo(1, "k", "e"))
	w.settle(10 * time.Second)
	if elements(w.nodes[gossip.NodeID(2)].core.Value("k")) == nil {
		t.Error("not there")
	}
}

// Deltas come from who wrote them and from nobody else, so none goes back to where it
// came from, and own ones never wait behind others'. What comparing pulls goes on another
// connection.
func TestNobodyForwardsWhatOthersWrote(t *testing.T) {
	w := newWorld(t, 3, 4, func(c *Config) { c.GossipEvery = 100 * time.Millisecond })
	deltas := map[gossip.NodeID]int{}
	w.posted = func(from, _ gossip.NodeID, m Message) {
		d, ok := m.(*Deltas)
		if !ok {
			return
		}
		deltas[from] += len(d.Entries)
		for _, e := range d.Entries {
			if e.Items[0].Key != fmt.Sprint("of", from) {
				t.Errorf("%v sends a change of %q", from, e.Items[0].Key)
			}
		}
	}
	for i := range 300 {
		id := gossip.NodeID(i%2 + 1)
		w.update(id, []replicator.Level{replicator.Local, majority}[i/2%2], replicator.Fence{}, addTo(id, fmt.Sprint("of", id), fmt.Sprint(i)))
		w.run(4 * time.Millisecond)
	}
	w.settle(time.Second)
	w.run(time.Second)
	if want := map[gossip.NodeID]int{1: 150 * 3, 2: 150 * 3}; !maps.Equal(deltas, want) {
		t.Errorf("sent %v, not %v", deltas, want)
	}
	for _, m := range []Message{&Deltas{}, &Ack{}, &Status{}, &ReadRequest{}, &ReadResult{}, &Values{}, &Differ{}, &Part{}} {
		_, pulled := map[string]bool{"values": true, "differ": true, "part": true}[Name(m)]
		if got := bulky(m, sizeOf(m)); got != pulled {
			t.Errorf("%T on the connection for transfers: %t", m, got)
		}
	}
}

// More changes at once than the window of a stream holds go on as the answers come, and
// not with repetitions or by comparing.
func TestStreamGoesOnBeyondItsWindow(t *testing.T) {
	w := newWorld(t, 1, 3, func(c *Config) { c.NoGossip, c.BatchEvery, c.ResendAfter = true, time.Millisecond, time.Hour })
	w.hasty = true
	for i := range 3 * windowEntries {
		w.update(1, replicator.Local, replicator.Fence{}, count(1, fmt.Sprint("k", i%100), 1))
	}
	w.settle(time.Second)
	if s := w.nodes[1].core.Stats(); s.DeltasResent > 0 || s.LagMax > 0 {
		t.Errorf("%d entries again, %d behind", s.DeltasResent, s.LagMax)
	}
}
