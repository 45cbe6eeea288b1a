package peerage_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// population is the number of entities in BenchmarkPopulation.
const population = 1_000_000

// citizen is an entity with 100 bytes of state, which moves with its shard.
type citizen struct{ state [100]byte }

// retires has a citizen passivate itself.
const retires = -1

func (c *citizen) Handle(ctx *sharding.Context, i int) (int, error) {
	if i == retires {
		ctx.Passivate()
	}
	c.state[0]++
	return i, nil
}

func (c *citizen) Snapshot(*sharding.Context) ([]byte, error) { return slices.Clone(c.state[:]), nil }

func (c *citizen) Restore(_ *sharding.Context, state []byte) error {
	copy(c.state[:], state)
	return nil
}

// citizens are the entities of one node.
type citizens struct {
	node   *peerage.Node
	region *sharding.Region[int, int]
}

// startCitizens starts a node, of the cluster of first unless that is nil.
func startCitizens(b *testing.B, first *citizens, change func(*sharding.Type[int, int])) *citizens {
	b.Helper()
	ty := sharding.Type[int, int]{Name: "citizen", New: func(string) sharding.Entity[int, int] { return new(citizen) }}
	change(&ty)
	addr := ""
	if first != nil {
		addr = first.node.Self().Addr
	}
	n, r := benchNode(b, addr, ty)
	return &citizens{node: n, region: r}
}

// tellAll tells ids[from:] and so on, in as many parts as there are processors.
func (c *citizens) tellAll(b *testing.B, ids []string, req int) {
	var all sync.WaitGroup
	for part := range slices.Chunk(ids, (len(ids)-1)/runtime.GOMAXPROCS(0)+1) {
		all.Go(func() {
			for _, id := range part {
				if err := c.region.Tell(context.Background(), id, req); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// awaitEntities waits until so many entities live on the node.
func (c *citizens) awaitEntities(n int) {
	awaitTrue(func() bool { return c.region.Stats().Entities == n })
}

// awaitTrue looks each millisecond.
func awaitTrue(ok func() bool) {
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for !ok() {
		<-look.C
	}
}

func citizenIDs() []string {
	ids := make([]string, population)
	for i := range ids {
		ids[i] = fmt.Sprint("citizen-", i)
	}
	return ids
}

func noChange(*sharding.Type[int, int]) {}

// BenchmarkPopulation reports what a million entities with 100 bytes of state cost a node, each of
// which has handled a message: how fast they begin, their heap, how long asks take beside them, what
// the collector adds to it, and the heap that is left when all have passivated.
func BenchmarkPopulation(b *testing.B) {
	ids := citizenIDs()
	for range b.N {
		c := startCitizens(b, nil, noChange)
		c.tellAll(b, ids[:1], 0)
		c.awaitEntities(1)
		before, began := liveHeap(), time.Now()
		c.tellAll(b, ids, 0)
		c.awaitEntities(population)
		b.ReportMetric(population/time.Since(began).Seconds(), "entities/s")
		b.ReportMetric((liveHeap()-before)/population, "B/entity")
		reportAsks(b, c.region, ids)
		c.tellAll(b, ids, retires)
		c.awaitEntities(0)
		b.ReportMetric((liveHeap()-before)/population, "B/former")
		c.node.Close()
	}
	runtime.KeepAlive(ids)
}

// BenchmarkPopulationDrain reports how long a node with half of a million entities takes to leave in
// order, with their states.
func BenchmarkPopulationDrain(b *testing.B) {
	ids := citizenIDs()
	for range b.N {
		stays, leaves := startPair(b, ids, noChange)
		moved, began := leaves.region.Stats().Entities, time.Now()
		if err := leaves.node.Drain(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(moved)/time.Since(began).Seconds(), "entities/s")
		if s := leaves.region.Stats(); s.StatesOut != uint64(moved) || s.StatesLost != 0 {
			b.Fatalf("of %d states %d moved, and %d are lost", moved, s.StatesOut, s.StatesLost)
		}
		leaves.node.Close()
		stays.node.Close()
	}
}

// BenchmarkPopulationRecall reports how fast two nodes store the ids of a million remembered
// entities, which begin as fast as they can, and how fast the one that stays starts those of the
// other one when it leaves. None may be forgotten.
func BenchmarkPopulationRecall(b *testing.B) {
	ids := citizenIDs()
	for range b.N {
		began := time.Now()
		stays, leaves := startPair(b, ids, func(ty *sharding.Type[int, int]) { ty.Remember = true })
		awaitTrue(func() bool {
			return stays.region.Stats().Remembered.Waiting+leaves.region.Stats().Remembered.Waiting == 0
		})
		b.ReportMetric(population/time.Since(began).Seconds(), "stored/s")
		moved := leaves.region.Stats().Entities
		began = time.Now()
		if err := leaves.node.Shutdown(b.Context()); err != nil {
			b.Fatal(err)
		}
		awaitTrue(func() bool { return stays.region.Stats().Entities == population })
		b.ReportMetric(float64(moved)/time.Since(began).Seconds(), "recalled/s")
		stays.node.Close()
	}
}

// startPair starts two nodes of which each has half of the shards, and all entities on them.
func startPair(b *testing.B, ids []string, change func(*sharding.Type[int, int])) (first, second *citizens) {
	first = startCitizens(b, nil, change)
	second = startCitizens(b, first, change)
	first.tellAll(b, ids[:population/50], 0)
	awaitTrue(func() bool { return second.region.Stats().Shards == sharding.DefaultShards/2 })
	first.tellAll(b, ids, 0)
	awaitTrue(func() bool { return first.region.Stats().Entities+second.region.Stats().Entities == population })
	return first, second
}

// reportAsks asks random entities, one after the other, and reports percentiles of the answers, and
// the longest pause of a collection.
func reportAsks(b *testing.B, r *sharding.Region[int, int], ids []string) {
	took := make([]time.Duration, 300_000)
	before := pauses()
	for i := range took {
		began := time.Now()
		if _, err := r.Ask(b.Context(), ids[rand.IntN(len(ids))], 0); err != nil {
			b.Fatal(err)
		}
		took[i] = time.Since(began)
		if i%100_000 == 0 {
			go runtime.GC()
		}
	}
	after := pauses()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "us/p50")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "us/p99")
	b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds())/1e3, "us/p99.9")
	longest := 0.0
	for i, n := range after.Counts {
		if n > before.Counts[i] {
			longest = after.Buckets[i+1]
		}
	}
	b.ReportMetric(longest*1e6, "us/longest-pause")
}

// pauses returns the durations of the pauses of collections so far.
func pauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	h := s[0].Value.Float64Histogram()
	return &metrics.Float64Histogram{Counts: slices.Clone(h.Counts), Buckets: h.Buckets}
}
