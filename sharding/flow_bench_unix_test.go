//go:build unix

package sharding

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/delivery/frames"
)

// BenchmarkReceive brings blocks of requests, as a connection's reader does, to many
// entities, and waits until they are handled. It reports the processor time of a message:
// with -cpu 1 that is steady even where others want the processors.
func BenchmarkReceive(b *testing.B) {
	for _, entities := range []int{16, 1000} {
		b.Run(fmt.Sprintf("entities=%d", entities), func(b *testing.B) {
			r, n, handled := tallied(b)
			var all [][]byte
			for i := range 4000 {
				f := r.Ref(fmt.Sprintf("entity-%d", i*31%entities))
				frame := append(frames.AppendRequest(nil, "raw", f.Shard(), f.ID(), 0, nil), make([]byte, 100)...)
				frames.Stamp(frame, r.typed.HostedUnder(f.Shard()), 1)
				all = append(all, frame)
			}
			b.ReportAllocs()
			at, want, cpu := 0, handled.Load(), processor()
			for b.Loop() {
				const block = 400
				n.s.HandleEntities(9, &many{all[at : at+block]})
				at = (at + block) % len(all)
				for want += block; handled.Load() < want; {
					runtime.Gosched()
				}
			}
			b.ReportMetric(float64(processor()-cpu)/float64(b.N)/400, "ns/msg")
		})
	}
}

// many is a block of frames.
type many struct{ frames [][]byte }

func (m *many) Next() ([]byte, bool) {
	if len(m.frames) == 0 {
		return nil, false
	}
	f := m.frames[0]
	m.frames = m.frames[1:]
	return f, true
}

// tallied starts a cluster of one with entities that count their messages, and with a
// lease on a real clock.
func tallied(b *testing.B) (*Region[[]byte, []byte], *node, *atomic.Uint64) {
	c := newCluster(b)
	n := c.add("n1")
	handled := new(atomic.Uint64)
	boot := clock.Boot()
	n.valid = func() bool { return boot.Now() > 0 }
	r, err := Register(n.reg, Type[[]byte, []byte]{
		Name: "raw", Limits: Limits{Mailbox: 1 << 20},
		New: func(string) Entity[[]byte, []byte] {
			return Func(func(_ *Context, p []byte) ([]byte, error) { handled.Add(1); return p[:1], nil })
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	n.start()
	c.install(n)
	for i := range 1000 {
		if _, err := r.Ask(context.Background(), fmt.Sprintf("entity-%d", i), []byte{0}); err != nil {
			b.Fatal(err)
		}
	}
	return r, n, handled
}

// processor returns the processor time of this process.
func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
