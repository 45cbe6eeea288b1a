package sharding

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"
)

// BenchmarkTCPReliable shows what Reliable costs: messages to entities of another node
// over the loopback interface, by plain Tell and through one Reliable, in both cases
// until all are handled (and, of Reliable, confirmed). x-tell is the ratio to Tell in
// the same run.
func BenchmarkTCPReliable(b *testing.B) {
	for _, senders := range []int{1, 64} {
		tell := 0.0
		b.Run(fmt.Sprintf("senders=%d/tell", senders), func(b *testing.B) {
			w := newTellWorld(b)
			tell = w.run(b, senders, func(ctx context.Context, i int) error { return w.refs[i].Tell(ctx, w.body) })
		})
		b.Run(fmt.Sprintf("senders=%d/reliable", senders), func(b *testing.B) {
			w := newTellWorld(b)
			s, err := w.region.Reliable(ReliableConfig[[]byte]{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			w.flush = s.Flush
			took := w.run(b, senders, func(ctx context.Context, i int) error { return s.Send(ctx, w.ids[i], w.body) })
			if tell > 0 {
				b.ReportMetric(took/tell, "x-tell")
			}
		})
	}
}

// tellWorld is a node that sends to entities of another one.
type tellWorld struct {
	region *Region[[]byte, []byte]
	ids    []string
	refs   []Ref[[]byte, []byte]
	body   []byte
	// flush waits for the confirmations.
	flush func(context.Context) error
}

func newTellWorld(b *testing.B) *tellWorld {
	w := &tellWorld{region: tcpPair(b, firstByte), body: make([]byte, 100), flush: func(context.Context) error { return nil }}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for i := range 256 {
		w.ids = append(w.ids, fmt.Sprint("entity-", i))
		w.refs = append(w.refs, w.region.Ref(w.ids[i]))
		if _, err := w.refs[i].Ask(ctx, w.body, Retry()); err != nil {
			b.Fatal(err)
		}
	}
	return w
}

// run lets senders send b.N messages together, and returns the nanoseconds of each.
func (w *tellWorld) run(b *testing.B, senders int, send func(ctx context.Context, i int) error) float64 {
	ctx := context.Background()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for c := range senders {
		wg.Go(func() {
			for i := c; i < b.N; i += senders {
				if err := send(ctx, i%len(w.ids)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := w.flush(ctx); err != nil {
		b.Error(err)
	}
	// What is asked behind the last message is answered when that was handled.
	for _, ref := range w.refs {
		if _, err := ref.Ask(ctx, w.body); err != nil {
			b.Error(err)
		}
	}
	return float64(b.Elapsed().Nanoseconds()) / float64(b.N)
}
