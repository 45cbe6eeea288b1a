package replicator

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage/crdt"
	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/replicator/core"
)

// tcpNode is a replicator over a transport on loopback.
type tcpNode struct {
	*Replicator
	tr   *transport.TCP
	pong chan struct{}
}

// startTCP starts n replicators in one view, over loopback sockets.
func startTCP(tb testing.TB, n int) []*tcpNode {
	nodes := make([]*tcpNode, n)
	v := &view.View{Epoch: view.FirstEpoch(1)}
	for i := range nodes {
		id := view.NodeID(i + 1)
		tr, err := transport.NewTCP(transport.TCPConfig{Config: transport.Config{ID: id, Name: fmt.Sprint("n", id), Cluster: "bench"}})
		if err != nil {
			tb.Fatal(err)
		}
		node := &tcpNode{tr: tr, pong: make(chan struct{}, 1)}
		node.Replicator = New(Config{Self: id, Send: func(to view.NodeID, c transport.Class, p []byte) error {
			return tr.Send(to, c, transport.KindReplicator, p)
		}})
		tr.Handle(transport.KindReplicator, func(from view.NodeID, p []byte) {
			if _, payload, err := SplitRole(p); err == nil {
				node.HandleFrame(from, payload)
			}
		})
		// The raw round trip of the same connections, for comparison.
		tr.Handle(transport.KindEvidence, func(from view.NodeID, p []byte) {
			if p[0] == 0 {
				_ = tr.Send(from, transport.Control, transport.KindEvidence, []byte{1})
				return
			}
			node.pong <- struct{}{}
		})
		if err := tr.Start(); err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { node.Close(); tr.Close() })
		nodes[i] = node
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: id}, Status: view.Up})
	}
	for _, a := range nodes {
		for _, b := range nodes {
			if a != b {
				a.tr.Learn(b.tr.Self())
			}
		}
		a.SetView(v)
	}
	return nodes
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

func setEntry(id view.NodeID, key, k string, seq uint64) Op {
	return core.Mutate(key, crdt.KindLWWMap, 64, func(v crdt.Value) crdt.Value {
		return v.(*crdt.LWWMap[string, string]).Set(k, "value", crdt.Stamp{Time: seq, Node: crdt.NodeID(id)})
	})
}

// BenchmarkMajority is a majority write of a small delta over loopback; it also
// reports the raw round trip between two of the nodes, measured in turns with it.
func BenchmarkMajority(b *testing.B) {
	for _, n := range []int{3, 5} {
		b.Run(fmt.Sprint("nodes=", n), func(b *testing.B) {
			nodes := startTCP(b, n)
			ctx := context.Background()
			fatal(b, nodes[0].Update(ctx, []Op{setEntry(1, "m", "k", 1)}, All))
			var writes, raw []time.Duration
			seq := uint64(1)
			b.ReportAllocs()
			for b.Loop() {
				seq++
				start := time.Now()
				fatal(b, nodes[0].Update(ctx, []Op{setEntry(1, "m", "k", seq)}, Majority(0, 0)))
				mid := time.Now()
				writes = append(writes, mid.Sub(start))
				fatal(b, nodes[0].tr.Send(2, transport.Control, transport.KindEvidence, []byte{0}))
				<-nodes[0].pong
				raw = append(raw, time.Since(mid))
			}
			w, r := p50(writes), p50(raw)
			b.ReportMetric(float64(w.Microseconds()), "p50-write-µs")
			b.ReportMetric(float64(r.Microseconds()), "p50-raw-µs")
			b.ReportMetric(float64(w)/float64(r), "p50-ratio")
		})
	}
}

// BenchmarkMajorityConcurrent is 1,000 majority writes at a time into one map of
// 100,000 entries.
func BenchmarkMajorityConcurrent(b *testing.B) {
	nodes := startTCP(b, 3)
	ctx := context.Background()
	for i := 0; i < 100_000; i += 1000 {
		ops := make([]Op, 1000)
		for j := range ops {
			ops[j] = setEntry(1, "m", fmt.Sprint("entry-", i+j), 1)
		}
		fatal(b, nodes[0].Update(ctx, ops, All))
	}
	seq := uint64(1)
	before := nodes[0].Stats().BytesSent
	for b.Loop() {
		seq++
		var wg sync.WaitGroup
		for i := range 1000 {
			wg.Go(func() {
				fatal(b, nodes[0].Update(ctx, []Op{setEntry(1, "m", fmt.Sprint("entry-", i*97), seq)}, Majority(0, 0)))
			})
		}
		wg.Wait()
	}
	b.ReportMetric(float64(nodes[0].Stats().BytesSent-before)/float64(seq-1)/1000, "B/write")
}

// BenchmarkJoiner fills a newcomer with 100,000 keys, about 10 MB.
func BenchmarkJoiner(b *testing.B) {
	const keys = 100_000
	for b.Loop() {
		b.StopTimer()
		nodes := startTCP(b, 2)
		first, joiner := nodes[0], nodes[1]
		lone := &view.View{Epoch: view.FirstEpoch(1) + 1, Members: []view.Member{{Node: view.Node{ID: 1}, Status: view.Up}}}
		first.SetView(lone)
		fill(b, first.Replicator, keys, 60)
		b.StartTimer()
		start := time.Now()
		both := &view.View{Epoch: lone.Epoch + 1, Members: append(slices.Clone(lone.Members), view.Member{Node: view.Node{ID: 2}, Status: view.Joining})}
		first.SetView(both)
		joiner.SetView(both)
		tick := time.NewTicker(2 * time.Millisecond)
		for joiner.Stats().Keys < keys {
			<-tick.C
		}
		tick.Stop()
		b.ReportMetric(time.Since(start).Seconds(), "s/joiner")
		b.ReportMetric(float64(first.Stats().BytesSent)/keys, "B/key")
		for _, n := range nodes {
			n.Close()
			n.tr.Close()
		}
	}
}

func fill(b *testing.B, r *Replicator, keys, bytes int) {
	value := string(make([]byte, bytes))
	for i := 0; i < keys; i += 1000 {
		ops := make([]Op, 1000)
		for j := range ops {
			ops[j] = setEntry(1, fmt.Sprintf("key-%08d", i+j), value, 1)
		}
		fatal(b, r.Update(context.Background(), ops, Local))
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
		c := core.New(core.Config{Self: 1})
		var out core.Effects
		for i := range keys {
			c.Step(1, core.Update{ID: 1, Ops: []core.Op{{Key: names[i], Kind: crdt.KindLWWMap, Plan: func(crdt.Value) (core.Plan, error) {
				return core.Plan{Apply: func(v crdt.Value) crdt.Value {
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
