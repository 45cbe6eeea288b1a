package peerage_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/peerage-go/peerage"
	"github.com/peerage-go/peerage/sharding"
)

// BenchmarkColdStart reports how long one of three nodes takes to ask an entity of every shard of a
// type that is new to all of them, 1,024 at a time. The time for a shard must not grow with their
// number.
func BenchmarkColdStart(b *testing.B) {
	for _, shards := range []int{1000, 8192, 32768} {
		b.Run(fmt.Sprint(shards), func(b *testing.B) {
			var took time.Duration
			for range b.N {
				took += coldStartOf(b, shards)
			}
			b.ReportMetric(float64(took.Microseconds())/float64(b.N*shards), "us/shard")
			b.ReportMetric(took.Seconds()/float64(b.N), "s/start")
		})
	}
}

func coldStartOf(b *testing.B, shards int) time.Duration {
	const nodes = 3
	var all []*peerage.Node
	var asker *sharding.Region[int, int]
	for range nodes {
		first := ""
		if len(all) > 0 {
			first = all[0].Self().Addr
		}
		n, r := heapNode(b, first, shards)
		all, asker = append(all, n), r
	}
	begin := time.Now()
	askEveryShard(b, asker, shards, 1024)
	took := time.Since(begin)
	for _, n := range all {
		n.Close()
	}
	return took
}
