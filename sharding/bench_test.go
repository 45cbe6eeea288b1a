package sharding

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// alone starts a cluster of one with a type whose entities do nothing.
func alone(b testing.TB) *Region[int, int] {
	c := newCluster(b)
	n := c.add("n1")
	r, err := Register(n.reg, Type[int, int]{
		Name: "nothing",
		New: func(string) Entity[int, int] {
			return Func(func(_ *Context, i int) (int, error) { return i, nil })
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	n.start()
	c.install(n)
	return r
}

func warm(b *testing.B, r *Region[int, int], ids []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, id := range ids {
		if _, err := r.Ask(ctx, id, 1, Retry()); err != nil {
			b.Fatal(err)
		}
	}
}

func someIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%d", i)
	}
	return ids
}

func BenchmarkLocalTell(b *testing.B) {
	for _, n := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("entities=%d", n), func(b *testing.B) {
			r, ids := alone(b), someIDs(n)
			warm(b, r, ids)
			refs := make([]Ref[int, int], n)
			for i, id := range ids {
				refs[i] = r.Ref(id)
			}
			ctx := context.Background()
			before := r.Stats().Handled
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if err := refs[i%n].Tell(ctx, i); err != nil {
					b.Fatal(err)
				}
				i++
			}
			for r.Stats().Handled-before < uint64(i) {
				runtime.Gosched()
			}
		})
	}
}

func BenchmarkLocalAsk(b *testing.B) {
	r := alone(b)
	warm(b, r, []string{"a"})
	ref := r.Ref("a")
	for _, deadline := range []bool{false, true} {
		b.Run(fmt.Sprintf("deadline=%v", deadline), func(b *testing.B) {
			ctx := context.Background()
			if deadline {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Hour)
				defer cancel()
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ref.Ask(ctx, 1); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLocalParallel has 64 senders, or callers, on each processor, which use 1,000
// entities.
func BenchmarkLocalParallel(b *testing.B) {
	for _, kind := range []string{"tell", "ask"} {
		b.Run(kind, func(b *testing.B) {
			r, ids := alone(b), someIDs(1000)
			warm(b, r, ids)
			refs := make([]Ref[int, int], len(ids))
			for i, id := range ids {
				refs[i] = r.Ref(id)
			}
			ctx := context.Background()
			var senders atomic.Int64
			before := r.Stats().Handled
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				for i := int(senders.Add(1)) * 31; pb.Next(); i++ {
					ref := refs[i%len(refs)]
					if kind == "ask" {
						if _, err := ref.Ask(ctx, i); err != nil {
							b.Error(err)
						}
						continue
					}
					err := ref.Tell(ctx, i)
					for errors.Is(err, ErrMailboxFull) {
						runtime.Gosched()
						err = ref.Tell(ctx, i)
					}
					if err != nil {
						b.Error(err)
					}
				}
			})
			for r.Stats().Handled-before < uint64(b.N) {
				runtime.Gosched()
			}
		})
	}
}

// BenchmarkRemote sends through encoding, routes and decoding, without a network.
func BenchmarkRemote(b *testing.B) {
	for _, kind := range []string{"tell", "ask"} {
		b.Run(kind, func(b *testing.B) {
			c := newCluster(b)
			home, away := c.add("home", "host"), c.add("away")
			ty := Type[[]byte, []byte]{Name: "raw", Role: "host", New: func(string) Entity[[]byte, []byte] {
				return Func(func(_ *Context, p []byte) ([]byte, error) { return p, nil })
			}}
			if _, err := Register(home.reg, ty); err != nil {
				b.Fatal(err)
			}
			r, err := Register(away.reg, ty)
			if err != nil {
				b.Fatal(err)
			}
			home.start()
			away.start()
			c.install(home, away)
			ref, payload := r.Ref("x"), make([]byte, 100)
			ctx := context.Background()
			if _, err := ref.Ask(ctx, payload); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if kind == "tell" {
					err = ref.Tell(ctx, payload)
				} else {
					_, err = ref.Ask(ctx, payload)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
