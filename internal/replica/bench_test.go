package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
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

// benchNode is a replicator over a transport.
type benchNode struct {
	*Replicator
	tr   transport.Transport
	pong chan struct{}
}

// startTCP starts n replicators in one view, over loopback sockets.
func startTCP(tb testing.TB, n int) []*benchNode {
	return startNodes(tb, n, openTCP)
}

// startMemory is startTCP over the network in memory.
func startMemory(tb testing.TB, n int) []*benchNode {
	net := transport.NewNetwork(transport.NetworkConfig{})
	return startNodes(tb, n, func(c transport.Config) (transport.Transport, error) {
		return net.Transport(transport.MemoryConfig{Config: c})
	})
}

func startNodes(tb testing.TB, n int, open func(transport.Config) (transport.Transport, error)) []*benchNode {
	nodes := make([]*benchNode, n)
	peers := make([]transport.Peer, n)
	for i := range nodes {
		node, err := newBenchNode(gossip.NodeID(i+1), n, open)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(node.stop)
		nodes[i], peers[i] = node, node.tr.Self()
	}
	for _, node := range nodes {
		node.meet(peers)
	}
	return nodes
}

// newBenchNode starts a replicator, one of n, that knows nobody.
func newBenchNode(id gossip.NodeID, n int, open func(transport.Config) (transport.Transport, error)) (*benchNode, error) {
	tr, err := open(transport.Config{ID: id, Name: fmt.Sprint("n", id), Cluster: "bench"})
	if err != nil {
		return nil, err
	}
	node := &benchNode{tr: tr, pong: make(chan struct{}, n)}
	node.Replicator = New(Config{Self: id, Direct: true, Send: func(to gossip.NodeID, c transport.Class, p []byte) error {
		return tr.Send(to, c, transport.KindReplicator, p)
	}})
	tr.Handle(transport.KindReplicator, func(from gossip.NodeID, p []byte) {
		if _, payload, err := SplitRole(p); err == nil {
			node.HandleFrame(from, payload)
		}
	})
	// The raw round trip of the same connections, for comparison.
	tr.Handle(transport.KindEvidence, func(from gossip.NodeID, p []byte) {
		if p[0] == 0 {
			_ = tr.Send(from, transport.Control, transport.KindEvidence, []byte{1})
			return
		}
		node.pong <- struct{}{}
	})
	return node, tr.Start()
}

// meet tells a node of all others, and the view of all of them.
func (n *benchNode) meet(peers []transport.Peer) {
	v := &gossip.View{Epoch: gossip.FirstEpoch(1)}
	for _, p := range peers {
		if p.ID != n.tr.Self().ID {
			n.tr.Learn(p)
		}
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: p.ID}, Status: gossip.Up})
	}
	n.SetView(v)
}

func (n *benchNode) stop() {
	n.Close()
	n.tr.Close()
}

func fatal(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func p50(ds []time.Duration) time.Duration {
	slices.Sort(ds)
	return ds[len(ds)/2]
}

func setEntry(id gossip.NodeID, key, k string, seq uint64) operation.Op {
	return replication.Mutate(key, crdt.KindLWWMap, 64, func(v crdt.Value) crdt.Value {
		return v.(*crdt.LWWMap[string, string]).Set(k, "value", crdt.Stamp{Time: seq, Node: crdt.NodeID(id)})
	})
}

// BenchmarkMajority is a majority write of a small delta over loopback. In turns with
// it, it measures the raw round trip between two of the nodes, and the raw exchange
// that the write consists of: a frame to as many nodes as it needs, and an answer
// from each of them. With 5 nodes in one process on 2 cores the exchange with two others takes twice the round trip.
func BenchmarkMajority(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) { majorityWrites(b, startTCP(b, n)[0], n) })
	}
}

// majorityWrites measures majority writes of the first of n nodes, and raw frames in
// turns with them.
func majorityWrites(b *testing.B, first *benchNode, n int) {
	ctx := context.Background()
	fatal(b, first.Update(ctx, []operation.Op{setEntry(1, "m", "k", 1)}, replicator.All))
	var writes, raw, exchange []time.Duration
	seq := uint64(1)
	b.ReportAllocs()
	for b.Loop() {
		seq++
		start := time.Now()
		fatal(b, first.Update(ctx, []operation.Op{setEntry(1, "m", "k", seq)}, replicator.Majority(0, 0)))
		writes = append(writes, time.Since(start))
		raw = append(raw, first.ping(b, 1))
		exchange = append(exchange, first.ping(b, n/2))
	}
	w, r, x := p50(writes), p50(raw), p50(exchange)
	b.ReportMetric(float64(w.Microseconds()), "p50-write-µs")
	b.ReportMetric(float64(r.Microseconds()), "p50-raw-µs")
	b.ReportMetric(float64(x.Microseconds()), "p50-exchange-µs")
	b.ReportMetric(float64(w)/float64(r), "p50-ratio")
	b.ReportMetric(float64(w)/float64(x), "p50-ratio-exchange")
}

// ping sends a raw frame to each of the first others and waits for their answers.
func (n *benchNode) ping(tb testing.TB, others int) time.Duration {
	start := time.Now()
	for i := range others {
		fatal(tb, n.tr.Send(gossip.NodeID(2+i), transport.Control, transport.KindEvidence, []byte{0}))
	}
	for range others {
		<-n.pong
	}
	return time.Since(start)
}

// BenchmarkMajorityConcurrent is 1,000 majority writes at a time into one map of
// 100,000 entries.
func BenchmarkMajorityConcurrent(b *testing.B) {
	nodes := startTCP(b, 3)
	ctx := context.Background()
	for i := 0; i < 100_000; i += 1000 {
		ops := make([]operation.Op, 1000)
		for j := range ops {
			ops[j] = setEntry(1, "m", fmt.Sprint("entry-", i+j), 1)
		}
		fatal(b, nodes[0].Update(ctx, ops, replicator.All))
	}
	seq := uint64(1)
	before := nodes[0].Stats().BytesSent
	for b.Loop() {
		seq++
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				fatal(b, nodes[0].Update(ctx, []operation.Op{setEntry(1, "m", fmt.Sprint("entry-", i*97), seq)}, replicator.Majority(0, 0)))
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(nodes[0].Stats().BytesSent-before)/float64(seq-1)/1000, "B/write")
}

// BenchmarkJoiner fills a newcomer with 100,000 keys, about 10 MB, from as many peers
// as hold them. B/key is what all of them have sent, per key.
func BenchmarkJoiner(b *testing.B) {
	for _, c := range []struct {
		name  string
		peers int
		start func(testing.TB, int) []*benchNode
	}{
		{"tcp/peers=1", 1, startTCP},
		{"memory/peers=1", 1, startMemory},
		{"memory/peers=4", 4, startMemory},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkJoiner(b, c.start, c.peers) })
	}
}

func benchmarkJoiner(b *testing.B, start func(testing.TB, int) []*benchNode, peers int) {
	const keys = 100_000
	var took time.Duration
	var bytes uint64
	for b.Loop() {
		b.StopTimer()
		nodes := start(b, peers+1)
		joiner := nodes[peers]
		before := &gossip.View{Epoch: gossip.FirstEpoch(1) + 1}
		for i := range peers {
			before.Members = append(before.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1)}, Status: gossip.Up})
		}
		for _, n := range nodes[:peers] {
			n.SetView(before)
		}
		fill(b, nodes[0].Replicator, keys, 60)
		for _, n := range nodes[:peers] {
			// All have it all, and have been told so.
			waitFor(func() bool { s := n.Stats(); return s.Keys == keys && s.LogEntries == 0 })
		}
		for _, n := range nodes[:peers] {
			bytes -= n.Stats().BytesSent
		}
		after := &gossip.View{Epoch: before.Epoch + 1, Members: append(slices.Clone(before.Members), gossip.Member{Node: gossip.Node{ID: gossip.NodeID(peers + 1)}, Status: gossip.Joining})}
		b.StartTimer()
		begun := time.Now()
		for _, n := range nodes {
			n.SetView(after)
		}
		waitFor(func() bool { return joiner.Stats().Keys == keys })
		took += time.Since(begun)
		b.StopTimer()
		for i, n := range nodes {
			if i < peers {
				bytes += n.Stats().BytesSent
			}
			n.Close()
			n.tr.Close()
		}
		b.StartTimer()
	}
	b.ReportMetric(took.Seconds()/float64(b.N), "s/joiner")
	b.ReportMetric(float64(bytes)/keys/float64(b.N), "B/key")
}

// waitFor looks every other millisecond.
func waitFor(ok func() bool) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		<-tick.C
	}
}

// fill writes keys of which the values do not compress well.
func fill(b *testing.B, r *Replicator, keys, bytes int) {
	rng := rand.New(rand.NewPCG(1, 1))
	for i := 0; i < keys; i += 1000 {
		ops := make([]operation.Op, 1000)
		for j := range ops {
			value := make([]byte, bytes)
			for k := range value {
				value[k] = byte(' ' + rng.IntN(64))
			}
			ops[j] = setEntry(1, fmt.Sprintf("key-%08d", i+j), string(value), 1)
		}
		fatal(b, r.Update(context.Background(), ops, replicator.Local))
	}
}

// BenchmarkMemoryPerKey reports what a key at rest costs beside its name and its
// value.
func BenchmarkMemoryPerKey(b *testing.B) {
	const keys = 100_000
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	names := make([]string, keys)
	values := make([]crdt.Value, keys)
	for b.Loop() {
		start := heap()
		for i := range names {
			names[i] = fmt.Sprintf("key-%08d", i)
			m := &crdt.LWWMap[string, string]{}
			m.Set("k", "value", crdt.Stamp{Time: 1, Node: 1})
			values[i] = m
		}
		mid := heap()
		c := replication.New(replication.Config{Self: 1})
		var out replication.Effects
		for i := range keys {
			c.Step(1, replication.Update{ID: 1, Ops: []operation.Op{{Key: names[i], Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (operation.Plan, error) {
				return operation.Plan{Apply: func(v crdt.Value) crdt.Value {
					return v.(*crdt.LWWMap[string, string]).Set("k", "value", crdt.Stamp{Time: 1, Node: 1})
				}}, nil
			}}}}, &out)
			out.Reset()
		}
		end := heap()
		value := (mid - start) / keys
		b.ReportMetric(value, "B/name+value")
		b.ReportMetric((end-mid)/keys-value, "B/key-beside")
		runtime.KeepAlive(c)
	}
	runtime.KeepAlive(values)
}
