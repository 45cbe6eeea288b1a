package sharding

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// tcpPair is a home and an asker over real connections on the loopback
// interface, both in this process.
func tcpPair(b testing.TB) *Region[[]byte, []byte] {
	store := &memStore{}
	ty := Type[[]byte, []byte]{
		Name: "raw", Role: "host", Limits: Limits{Mailbox: 1 << 20},
		New: func(string) Entity[[]byte, []byte] {
			return Func(func(_ *Context, p []byte) ([]byte, error) { return p[:1], nil })
		},
	}
	v := &view.View{Cluster: 1, Epoch: view.FirstEpoch(1)}
	var trs []*transport.TCP
	var regs []*Registry
	var last *Region[[]byte, []byte]
	for i, roles := range [][]string{{"host"}, nil} {
		id := view.NodeID(i + 1)
		tr, err := transport.NewTCP(transport.TCPConfig{
			Config: transport.Config{ID: id, Name: fmt.Sprint("n", i), Cluster: "bench"}, Listen: "127.0.0.1:0",
		})
		if err != nil {
			b.Fatal(err)
		}
		v.Members = append(v.Members, view.Member{
			Node: view.Node{ID: id, Name: fmt.Sprint("n", i), Addr: tr.Self().Addr, Roles: roles}, Joined: v.Epoch, Status: view.Up,
		})
		reg := &Registry{}
		if last, err = Register(reg, ty); err != nil {
			b.Fatal(err)
		}
		trs, regs = append(trs, tr), append(regs, reg)
	}
	for i, tr := range trs {
		var s *Sharding
		var ready sync.WaitGroup
		ready.Add(1)
		tr.HandleBlocks(transport.KindEntity, func(from view.NodeID, f *transport.Frames) { ready.Wait(); s.HandleEntities(from, f) })
		tr.Handle(transport.KindCoordinator, func(from view.NodeID, p []byte) { ready.Wait(); s.HandleCoordinator(from, p) })
		if err := tr.Start(); err != nil {
			b.Fatal(err)
		}
		for _, o := range trs {
			tr.Learn(o.Self())
		}
		var err error
		s, err = Start(Config{
			Registry: regs[i], Self: v.Members[i].Node, Links: tr, LeaseValid: func() bool { return true },
			Clock: clock.Runtime(), Store: func(string) Store { return store },
		})
		if err != nil {
			b.Fatal(err)
		}
		ready.Done()
		s.ViewChanged(v)
		b.Cleanup(func() {
			_ = s.Close(context.Background())
			_ = tr.Close()
		})
	}
	return last
}

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
