package activation

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"
)

type nothing struct{}

func (nothing) Handle(*Context, int) (int, error) { return 0, nil }

type sink struct{ ch chan struct{} }

func (s sink) Reply(ReplyTo, int, error) { s.ch <- struct{}{} }
func (s sink) Cancelled(ReplyTo) bool    { return false }

func benchHost(b testing.TB, mailbox int, change ...func(*Config[*Context, int, int])) (*Host[*Context, int, int], *Counters, sink) {
	c := &Counters{}
	s := sink{make(chan struct{}, 1)}
	cfg := Config[*Context, int, int]{
		Context: plainContext,
		Type:    "t", Node: 1, Shards: 256, Mailbox: mailbox, Alive: func() bool { return true }, Replies: s, Counters: c,
		Epoch: time.Now(), Logger: slog.New(slog.DiscardHandler),
		New: func(string) Entity[*Context, int, int] { return nothing{} },
	}
	for _, f := range change {
		f(&cfg)
	}
	h := NewHost(cfg)
	for i := range 256 {
		if _, err := h.StartShard(ShardID(i), Token{Term: 1}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.Cleanup(func() { _ = h.Close(context.Background()) })
	return h, c, s
}

func BenchmarkTell(b *testing.B) {
	for _, entities := range []int{1, 1000} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			h, c, _ := benchHost(b, 1000)
			tellAll(b, h, c, entities)
		})
	}
}

func tellAll(b *testing.B, h *Host[*Context, int, int], c *Counters, entities int) {
	ids := make([]string, entities)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%d", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := h.Shard(ShardID(i % entities % 256))
		for offer(s, ids[i%entities], Message[int]{Req: i}) != nil {
			runtime.Gosched()
		}
		i++
	}
	for c.Handled.Load() < uint64(i) {
		runtime.Gosched()
	}
}

func BenchmarkAsk(b *testing.B) {
	h, _, s := benchHost(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := offer(h.Shard(0), "a", Message[int]{Reply: ReplyTo{Node: 1, Call: 1}}); err != nil {
			b.Fatal(err)
		}
		<-s.ch
	}
}

// TestIdleEntityIsSmall holds what an entity at rest costs beyond the application's own object, and
// that its memory is given back when it has ended.
func TestIdleEntityIsSmall(t *testing.T) {
	const n, perEntityMax, leftMax = 200_000, 120, 24
	h, c, _ := benchHost(t, 10)
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("entity-%08d", i)
	}
	before := memory()
	for i, id := range ids {
		if err := offer(h.Shard(ShardID(i%256)), id, Message[int]{Req: 1}); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 {
			runtime.Gosched()
		}
	}
	for c.Handled.Load() < n {
		runtime.Gosched()
	}
	per := float64(memory()-before) / n
	t.Logf("%.0f bytes of heap and stacks per idle entity", per)
	if per > perEntityMax {
		t.Errorf("%.0f bytes per idle entity, at most %d", per, perEntityMax)
	}
	for i := range h.shards {
		h.Shard(ShardID(i)).endIdle(2 * sweepsPerTimeout)
	}
	left := (float64(memory()) - float64(before)) / n
	t.Logf("%.1f bytes stay of each that has ended", left)
	if left > leftMax {
		t.Errorf("%.1f bytes stay of each entity that has ended, at most %d", left, leftMax)
	}
	runtime.KeepAlive(ids)
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
