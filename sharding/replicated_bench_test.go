package sharding

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkReplicatedAsk shows what replicated state costs: asks to entities on the
// asker's node, by 1 and by 64 callers, each of which changes a small state. The
// network is one in memory without delay, so this is the machine's work, not the
// wait; x-none is the ratio to the same without replication.
func BenchmarkReplicatedAsk(b *testing.B) {
	for _, callers := range []int{1, 64} {
		none := 0.0
		for _, set := range []struct {
			name string
			Replicated
		}{{"none", Replicated{}}, {"async", Replicated{Replicas: 3, Mode: Async}}, {"quorum", Replicated{Replicas: 3}}} {
			b.Run(fmt.Sprintf("callers=%d/%s", callers, set.name), func(b *testing.B) {
				took := replicatedAsks(b, callers, set.Replicated)
				if set.name == "none" {
					none = took
				} else if none > 0 {
					b.ReportMetric(took/none, "x-none")
				}
			})
		}
	}
}

func replicatedAsks(b *testing.B, callers int, set Replicated) (nanos float64) {
	c := newCluster(b)
	regions := keepers(b, c, 3, set)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var refs []Ref[int, heardCount]
	for i := 0; len(refs) < callers; i++ {
		ref := regions[0].Ref(fmt.Sprint("e", i))
		got, err := ref.Ask(ctx, 1, Retry())
		if err != nil {
			b.Fatal(err)
		}
		if got.Node == 1 {
			refs = append(refs, ref)
		}
	}
	var next atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(max(callers/2, 1))
	if callers == 1 {
		for b.Loop() {
			if _, err := refs[0].Ask(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	} else {
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			ref := refs[int(next.Add(1))%callers]
			for pb.Next() {
				if _, err := ref.Ask(ctx, 1); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}
