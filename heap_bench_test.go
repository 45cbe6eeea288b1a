package peerage_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// heapNode is a node of BenchmarkHeapPerShard.
func heapNode(b *testing.B, first string, shards int) (*peerage.Node, *sharding.Region[int, int]) {
	b.Helper()
	return benchNode(b, first, sharding.Type[int, int]{
		Name: "heap", Shards: shards, MinMembers: 3,
		New: func(string) sharding.Entity[int, int] {
			return sharding.Func(func(_ *sharding.Context, i int) (int, error) { return i, nil })
		},
		ShardOf: func(id string) (s sharding.ShardID) { _, _ = fmt.Sscan(id, &s); return s },
	})
}

// benchNode starts a node on the loopback interface that hosts a type. It joins the node at the
// address first, unless that is "".
func benchNode(b *testing.B, first string, t sharding.Type[int, int]) (*peerage.Node, *sharding.Region[int, int]) {
	b.Helper()
	cfg := peerage.LocalConfig()
	cfg.Listen, cfg.Bootstrap = "127.0.0.1:0", first == ""
	if first != "" {
		cfg.Join, cfg.BootstrapExpect = []string{first}, 1
	}
	n, err := peerage.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	r, err := sharding.Register(n.Registry(), t)
	if err == nil {
		err = n.Start(b.Context())
	}
	if err == nil {
		err = n.WaitReady(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	return n, r
}

// BenchmarkHeapPerShard reports the heap that a further shard in use takes on each of three nodes
// that ask an entity of every shard. The entities are at rest when it is measured. All that a node
// makes for a shard is in it, also when the type is registered.
func BenchmarkHeapPerShard(b *testing.B) {
	for _, shards := range []int{4096, 32768} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			for range b.N {
				few := shards / 4
				more := heapOfNodes(b, shards) - heapOfNodes(b, few)
				b.ReportMetric(more/float64(heapNodes*(shards-few)), "B/shard")
			}
		})
	}
}

const heapNodes = 3

// heapOfNodes returns the heap of nodes that use all shards of a type.
func heapOfNodes(b *testing.B, shards int) float64 {
	var nodes []*peerage.Node
	var regions []*sharding.Region[int, int]
	before, first := liveHeap(), ""
	for range heapNodes {
		n, r := heapNode(b, first, shards)
		if first == "" {
			first = n.Self().Addr
		}
		nodes, regions = append(nodes, n), append(regions, r)
	}
	for _, r := range regions {
		askEveryShard(b, r, shards, 64)
	}
	heap := liveHeap() - before
	for _, n := range nodes {
		n.Close()
	}
	runtime.KeepAlive(regions)
	return heap
}

// askEveryShard asks an entity of each shard, as many at a time as there are callers.
func askEveryShard(b *testing.B, r *sharding.Region[int, int], shards, callers int) {
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for s := c; s < shards; s += callers {
				if _, err := r.Ask(context.Background(), fmt.Sprint(s), 0); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// liveHeap returns the bytes of the heap that a collection keeps.
func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
