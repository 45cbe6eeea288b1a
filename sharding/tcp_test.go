package sharding

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/delivery/frames"
	"github.com/peerage-go/peerage/internal/placement"
	"github.com/peerage-go/peerage/internal/transport"
)

// tcpPair is a home and an asker over real connections on the loopback
// interface, both in this process. Its entities reply with the result of answer.
func tcpPair[T any](b testing.TB, answer func(T) T) *Region[T, T] {
	store := &memStore{}
	ty := Type[T, T]{
		Name: "raw", Role: "host", Limits: Limits{Mailbox: 1 << 20, PayloadBytes: 3 << 20},
		New: func(string) Entity[T, T] {
			return Func(func(_ *Context, p T) (T, error) { return answer(p), nil })
		},
	}
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
	var trs []*transport.TCP
	var regs []*Registry
	var last *Region[T, T]
	for i, roles := range [][]string{{"host"}, nil} {
		id := gossip.NodeID(i + 1)
		tr, err := transport.NewTCP(transport.TCPConfig{
			Config: transport.Config{ID: id, Name: fmt.Sprint("n", i), Cluster: "bench"}, Listen: "127.0.0.1:0",
		})
		if err != nil {
			b.Fatal(err)
		}
		v.Members = append(v.Members, gossip.Member{
			Node: gossip.Node{ID: id, Name: fmt.Sprint("n", i), Addr: tr.Self().Addr, Roles: roles}, Joined: v.Epoch, Status: gossip.Up,
		})
		reg := &Registry{}
		if last, err = Register(reg, ty); err != nil {
			b.Fatal(err)
		}
		trs, regs = append(trs, tr), append(regs, reg)
	}
	for i, tr := range trs {
		var s *service
		var ready sync.WaitGroup
		ready.Add(1)
		tr.HandleBlocks(transport.KindEntity, func(from gossip.NodeID, f *transport.Frames) { ready.Wait(); s.HandleEntities(from, f) })
		tr.HandleFlows(transport.KindEntity, frames.ClassifyFrame)
		tr.Handle(transport.KindCoordinator, func(from gossip.NodeID, p []byte) { ready.Wait(); s.HandleCoordinator(from, p) })
		if err := tr.Start(); err != nil {
			b.Fatal(err)
		}
		for _, o := range trs {
			tr.Learn(o.Self())
		}
		var err error
		s, err = regs[i].startService(placement.Config{
			Self: v.Members[i].Node, Links: tr, LeaseValid: func() bool { return true },
			Clock: clock.Runtime(), Store: func(string) placement.Store { return store },
		}, nil)
		if err != nil {
			b.Fatal(err)
		}
		ready.Done()
		s.LeaseChanged(true)
		s.ViewChanged(v)
		b.Cleanup(func() {
			_ = s.Close(context.Background())
			_ = tr.Close()
		})
	}
	return last
}

// firstByte returns the first byte of a message.
func firstByte(p []byte) []byte { return p[:1] }

// BenchmarkTCPAsk asks entities of another node over the loopback interface.
func BenchmarkTCPAsk(b *testing.B) {
	for _, callers := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			w := newTellWorld(b)
			w.run(b, callers, func(ctx context.Context, i int) error {
				_, err := w.refs[i].Ask(ctx, w.body)
				return err
			})
		})
	}
}

// BenchmarkTCPTell tells entities of another node over the loopback interface,
// and waits until all is handled.
func BenchmarkTCPTell(b *testing.B) {
	for _, senders := range []int{1, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			w := newTellWorld(b)
			w.run(b, senders, func(ctx context.Context, i int) error { return w.refs[i].Tell(ctx, w.body) })
		})
	}
}

// BenchmarkTCPAskBesideLarge asks an entity of another node, 100 bytes each time, while
// 3 MB asks go to other entities there, as bytes or as a list of texts that are decoded.
func BenchmarkTCPAskBesideLarge(b *testing.B) {
	b.Run("codec=raw", func(b *testing.B) {
		region := tcpPair(b, firstByte)
		askBesideLarge(b, region, make([]byte, 100), make([]byte, 3<<20-64))
	})
	b.Run("codec=msgpack", func(b *testing.B) {
		region := tcpPair(b, func(p []string) []string { return p[:1] })
		askBesideLarge(b, region, make([]string, 100), slices.Repeat([]string{"some text of 29 bytes or more"}, 100_000))
	})
}

func askBesideLarge[T any](b *testing.B, region *Region[T, T], payload, body T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	small := region.Ref("small")
	if _, err := small.Ask(ctx, payload); err != nil {
		b.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var large atomic.Int64
	for i := range 2 {
		all.Go(func() {
			ref := region.Ref(fmt.Sprint("large", i))
			for ctx.Err() == nil {
				if _, err := ref.Ask(ctx, body); err == nil {
					large.Add(1)
				}
			}
		})
	}
	var took []time.Duration
	for b.Loop() {
		since := time.Now()
		if _, err := small.Ask(ctx, payload); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(since))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	b.ReportMetric(float64(large.Load())*3/b.Elapsed().Seconds(), "large-MB/s")
}
