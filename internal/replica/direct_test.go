package replica

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/replication"
	"github.com/peerage-go/peerage/internal/operation"
	"github.com/peerage-go/peerage/internal/transport"
	"github.com/peerage-go/peerage/replicator"
)

// Callers and whoever brings frames step the core themselves, all at once, while the
// replicator's own goroutine looks after time: nothing is lost, and steps never overlap
// (the race detector would see).
func TestManyStepTheCoreThemselves(t *testing.T) {
	nodes := startMemory(t, 3)
	const writers, each = 8, 50
	var wg sync.WaitGroup
	for i, n := range nodes {
		for w := range writers {
			wg.Go(func() {
				for k := range each {
					level := []replicator.Level{replicator.Local, replicator.Majority(0, 0), replicator.All}[k%3]
					if err := n.Update(t.Context(), []operation.Op{addTo(gossip.NodeID(i+1), "set", fmt.Sprint(i, w, k))}, level); err != nil {
						t.Error(err)
					}
					if _, err := n.Get(t.Context(), []string{"set"}, replicator.Local); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	for _, n := range nodes {
		vs, err := n.Get(t.Context(), []string{"set"}, replicator.All)
		if err != nil || vs[0].(*crdt.ORSet[string]).Len() != 3*writers*each {
			t.Errorf("%d elements, %v", vs[0].(*crdt.ORSet[string]).Len(), err)
		}
	}
}

// A bug in the core that a caller runs into ends the replicator, not the caller.
func TestBrokenCoreEndsTheReplicatorAlone(t *testing.T) {
	r := New(Config{Self: 1, Send: func(gossip.NodeID, transport.Class, []byte) error { return nil }})
	done := make(chan error, 1)
	go func() {
		done <- r.Update(t.Context(), []operation.Op{replication.Mutate("k", crdt.KindORSet, 1, func(crdt.Value) crdt.Value { panic("a bug") })}, replicator.Local)
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("no error")
		}
	case <-time.After(time.Minute):
		t.Fatal("it hangs")
	}
	<-r.done
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Only frames that nobody has to work for are dealt with at once.
func TestLightFrames(t *testing.T) {
	for _, c := range []struct {
		m     replication.Message
		light bool
	}{
		{&replication.Ack{From: 1, To: 1}, true},
		{&replication.Deltas{From: 1, Entries: []*replication.Entry{{Items: []replication.Item{{Key: "k", Bytes: make([]byte, 100)}}}}}, true},
		{&replication.Deltas{From: 1, Entries: []*replication.Entry{{Items: []replication.Item{{Key: "k", Bytes: make([]byte, directBytesMax)}}}}}, false},
		{&replication.Compare{}, false}, {&replication.ReadRequest{Keys: []string{"k"}, Prints: []uint64{1}}, false}, {&replication.Commit{}, false},
	} {
		if got := light(replication.Append(nil, c.m)); got != c.light {
			t.Errorf("%T: %t", c.m, got)
		}
	}
	if light(nil) {
		t.Error("an empty frame")
	}
}
