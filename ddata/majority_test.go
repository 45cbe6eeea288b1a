package ddata

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/replica"
	"github.com/peerage-go/peerage/internal/transport"
)

// mesh connects the Data of several nodes in memory. Nothing spreads by itself beyond
// the replicas that a request needs.
type mesh struct {
	mu    sync.Mutex
	nodes map[gossip.NodeID]*replica.Replicator
	data  map[gossip.NodeID]*Data
	// blocked has the pairs between which nothing passes.
	blocked map[[2]gossip.NodeID]bool
	// ahead is how far nodes' wall clocks are ahead.
	ahead map[gossip.NodeID]time.Duration
}

// wall is the wall clock of a node.
func (m *mesh) wall(id gossip.NodeID) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.ahead[id])
}

func newMesh(t *testing.T, n int) *mesh {
	m := &mesh{nodes: map[gossip.NodeID]*replica.Replicator{}, data: map[gossip.NodeID]*Data{}, blocked: map[[2]gossip.NodeID]bool{}, ahead: map[gossip.NodeID]time.Duration{}}
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for i := range n {
		id := gossip.NodeID(i + 1)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
		m.nodes[id] = replica.New(replica.Config{Self: id, BatchEvery: time.Hour, GossipEvery: time.Hour, WallClock: func() time.Time { return m.wall(id) },
			Send: func(to gossip.NodeID, _ transport.Class, frame []byte) error { return m.send(id, to, frame) }})
		m.data[id] = dataOf(m.nodes[id])
		t.Cleanup(func() { m.nodes[id].Close() })
	}
	for _, r := range m.nodes {
		r.SetView(v)
	}
	return m
}

func (m *mesh) send(from, to gossip.NodeID, frame []byte) error {
	m.mu.Lock()
	r, blocked := m.nodes[to], m.blocked[[2]gossip.NodeID{from, to}]
	m.mu.Unlock()
	if r == nil || blocked {
		return nil
	}
	_, payload, err := replica.SplitRole(frame)
	if err == nil {
		r.HandleFrame(from, payload)
	}
	return err
}

// block stops, or lets pass, all between two nodes.
func (m *mesh) block(a, b gossip.NodeID, block bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.blocked[[2]gossip.NodeID{a, b}], m.blocked[[2]gossip.NodeID{b, a}] = block, block
}

// skew sets how far a node's wall clock is ahead.
func (m *mesh) skew(id gossip.NodeID, ahead time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ahead[id] = ahead
}

// A write at Majority wins over every write that was acknowledged at Majority before it
// began, whatever the clocks of their nodes: node 1's is ahead, and node 3 has nothing of
// what node 1 wrote.
func TestMajorityWriteWinsOverEarlierOnes(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Millisecond, 400 * time.Millisecond, 30 * time.Second} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { majorityWrites(t, ahead) })
		})
	}
}

func majorityWrites(t *testing.T, ahead time.Duration) {
	m := newMesh(t, 3)
	m.skew(1, ahead)
	m.block(1, 3, true)
	reg, table := LWWRegisterKey[string]("reg"), LWWMapKey[string, string]("table")
	write := func(id gossip.NodeID, v string) {
		t.Helper()
		must(t, Update(t.Context(), m.data[id], reg, Majority, func(r *LWWRegisterTx[string]) error { r.Set(v); return nil }))
		must(t, Update(t.Context(), m.data[id], table, Majority, func(m *LWWMapTx[string, string]) error { m.Set("k", v); return nil }))
	}
	for i := range 20 {
		write(1, fmt.Sprint("a", i))
		write(3, fmt.Sprint("b", i))
		for reader := range gossip.NodeID(3) {
			got, err := Get(t.Context(), m.data[reader+1], reg, Majority)
			must(t, err)
			entries, err := Get(t.Context(), m.data[reader+1], table, Majority)
			must(t, err)
			inReg, _ := got.Value()
			inTable, _ := entries.Get("k")
			if want := fmt.Sprint("b", i); inReg != want || inTable != want {
				t.Fatalf("round %d: node 1's write was acknowledged, then node 3's of %q; a later read at node %d returns %q (register), %q (map)", i, want, reader+1, inReg, inTable)
			}
		}
	}
}

// An acknowledged write shows in the writer's own Local read.
func TestWriterReadsItsMajorityWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3)
		m.skew(1, time.Second)
		reg := LWWRegisterKey[string]("reg")
		set := func(id gossip.NodeID, v string, level Level) {
			t.Helper()
			must(t, Update(t.Context(), m.data[id], reg, level, func(r *LWWRegisterTx[string]) error { r.Set(v); return nil }))
		}
		m.block(1, 3, true)
		set(1, "a", Majority)
		set(3, "b", Majority)
		for _, level := range []Level{Local, Majority, Local} {
			got, err := Get(context.Background(), m.data[3], reg, level)
			must(t, err)
			if v, _ := got.Value(); v != "b" {
				t.Errorf("%v read: %q", level, v)
			}
		}
	})
}

// Deletions are ordered by generation: one that is acknowledged ends whatever was
// acknowledged before it, also at a node that has never heard of the key or of its
// earlier deletions.
func TestMajorityDeleteEndsWhatWasAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, 3)
		m.block(1, 3, true)
		set := ORSetKey[string]("set")
		add := func(id gossip.NodeID, e string) {
			t.Helper()
			must(t, Update(t.Context(), m.data[id], set, Majority, func(s *ORSetTx[string]) error { s.Add(e); return nil }))
		}
		for i := range 5 { // node 3 hears of none of these
			add(1, fmt.Sprint(i))
			must(t, m.data[1].Update(t.Context(), Majority, Delete("set")))
		}
		add(1, "last")
		must(t, m.data[3].Update(t.Context(), Majority, Delete("set")))
		for reader := range gossip.NodeID(3) {
			got, err := Get(t.Context(), m.data[reader+1], set, Majority)
			must(t, err)
			if got.Len() != 0 {
				t.Errorf("node %d reads %v after the acknowledged deletion", reader+1, got.Elements())
			}
		}
	})
}
