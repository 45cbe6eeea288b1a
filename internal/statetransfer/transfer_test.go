package statetransfer

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/activation"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/mover"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/internal/core/region"
	"github.com/peerage-go/peerage/internal/transport"
)

var (
	older = protocol.Token{Term: 1, Seq: 2}
	newer = protocol.Token{Term: 2, Seq: 1}
)

// resendAfter is the interval of the core in which a transfer to a node that is no member ends.
const resendAfter = 500 * time.Millisecond

// pair are the transfers of nodes 1 and 2, connected. lose drops the next frames of node 1.
type pair struct {
	nodes [3]*Transfers
	lose  int
	// frameMax bounds a frame.
	frameMax int
	held     []region.StateHeld
}

// end is one node's side of a pair.
type end struct {
	*pair
	self gossip.NodeID
}

func (e end) Send(to gossip.NodeID, _ transport.Class, _ transport.Kind, frame []byte) error {
	switch {
	case len(frame) > e.frameMax:
		return transport.ErrFrameTooLarge
	case e.self == 1 && e.lose > 0:
		e.lose--
		return nil
	}
	return e.nodes[to].HandleFrame(e.self, frame)
}

func (end) WaitRoom(context.Context, gossip.NodeID, transport.Class) error { return nil }
func (end) Open(gossip.NodeID, transport.Class) bool                       { return true }

func newPair(ctx context.Context) *pair {
	p := &pair{frameMax: 1000}
	for _, id := range []gossip.NodeID{1, 2} {
		e := end{p, id}
		p.nodes[id] = New(Config{
			Self: id, Clock: clock.Runtime(), Links: e, Log: slog.New(slog.DiscardHandler), Ctx: ctx,
			SendAck:   func(to gossip.NodeID, frame []byte) { _ = p.nodes[to].HandleFrame(id, frame) },
			StateHeld: func(_ string, ev region.StateHeld) { p.held = append(p.held, ev) },
		})
	}
	return p
}

// States arrive although frames are lost. A state that is too large is counted as lost, and
// the remaining ones arrive.
func TestStatesReachTheNewHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t.Context())
		p.lose = 2
		var from, to Counters
		member := func(gossip.NodeID) bool { return true }
		old, fresh := p.nodes[1].Type("t", &from, member), p.nodes[2].Type("t", &to, member)
		st := activation.Stopped{Shard: 3, Token: older, States: map[string][]byte{"a": []byte("1"), "b": []byte("2"), "c": make([]byte, 2000)}}
		old.Send(region.StopShard{To: 2, Term: 9, Within: time.Minute}, st)
		// The new home reports them before the old one.
		if len(p.held) != 2 || p.held[0] != (region.StateHeld{Shard: 3, Token: older, From: 1, Term: 9}) || p.held[1] != p.held[0] {
			t.Errorf("held: %+v", p.held)
		}
		if got := fresh.Take(region.StartShard{Shard: 3, Token: newer, From: 1, Ended: older}); len(got) != 2 || string(got["b"]) != "2" {
			t.Errorf("takes %v", got)
		}
		if from.Out.Load() != 2 || from.Lost.Load() != 1 || to.In.Load() != 2 {
			t.Errorf("%d sent, %d lost, %d taken", from.Out.Load(), from.Lost.Load(), to.In.Load())
		}
	})
}

// A transfer to a node that has left ends before its time, and the old home holds the states
// until it drops them as lost.
func TestStatesForARemovedNodeAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t.Context())
		p.lose = 100
		var c Counters
		old := p.nodes[1].Type("t", &c, func(gossip.NodeID) bool { return false })
		st := activation.Stopped{Shard: 3, Token: older, States: map[string][]byte{"a": []byte("1")}}
		begin := time.Now()
		old.Send(region.StopShard{To: 2, Term: 9, Within: time.Minute}, st)
		if len(p.held) != 1 || p.held[0] != (region.StateHeld{Shard: 3, Token: older, From: 1, Term: 9}) {
			t.Errorf("held: %+v", p.held)
		}
		if took := time.Since(begin); c.Out.Load() != 0 || took != resendAfter {
			t.Errorf("%d arrived, after %v", c.Out.Load(), took)
		}
		if got := old.Held(3, older); len(got) != 1 {
			t.Errorf("holds %v", got)
		}
		old.Drop(region.DropState{Shard: 3, Token: older, From: 1, Home: 2})
		if c.Lost.Load() != 1 || old.Held(3, older) != nil {
			t.Errorf("%d lost, holds %v", c.Lost.Load(), old.Held(3, older))
		}
	})
}

// The former home of states that arrived reports them even if it has no room to keep them: they
// wait at their new home only.
func TestStatesWithoutRoomAreReportedAtTheirNewHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t.Context())
		p.nodes[1].core = mover.New(mover.Config{Self: 1, HeldBytesMax: 1})
		var c Counters
		old := p.nodes[1].Type("t", &c, func(gossip.NodeID) bool { return true })
		st := activation.Stopped{Shard: 3, Token: older, States: map[string][]byte{"a": []byte("1")}}
		old.Send(region.StopShard{To: 2, Term: 9, Within: time.Minute}, st)
		want := []region.StateHeld{{Shard: 3, Token: older, From: 1, Term: 9}, {Shard: 3, Token: older, From: 1, Term: 9, At: 2}}
		if !slices.Equal(p.held, want) || c.Out.Load() != 1 || c.Lost.Load() != 0 {
			t.Errorf("held %+v, want %+v; %d arrived, %d lost", p.held, want, c.Out.Load(), c.Lost.Load())
		}

		p.held, p.lose = nil, 100
		old = p.nodes[1].Type("t", &c, func(gossip.NodeID) bool { return false })
		old.Send(region.StopShard{To: 2, Term: 9, Within: time.Minute}, st)
		if len(p.held) != 0 || c.Lost.Load() != 1 {
			t.Errorf("states that are nowhere: held %+v, %d lost", p.held, c.Lost.Load())
		}
	})
}

// BenchmarkSend moves the states of one shard to another node, without a network.
func BenchmarkSend(b *testing.B) {
	for _, size := range []struct{ states, bytes int }{{1, 100}, {1000, 100}, {1000, 4 << 10}, {16, 1 << 20}} {
		b.Run(fmt.Sprintf("%dx%d", size.states, size.bytes), func(b *testing.B) {
			p := newPair(b.Context())
			p.frameMax = 8 << 20
			var c Counters
			member := func(gossip.NodeID) bool { return true }
			old, fresh := p.nodes[1].Type("t", &c, member), p.nodes[2].Type("t", &c, member)
			states := map[string][]byte{}
			for i := range size.states {
				states[fmt.Sprint("entity-", i)] = make([]byte, size.bytes)
			}
			b.SetBytes(int64(size.states * size.bytes))
			b.ReportAllocs()
			for b.Loop() {
				old.Send(region.StopShard{To: 2, Within: time.Minute}, activation.Stopped{Shard: 3, Token: older, States: states})
				if got := fresh.Take(region.StartShard{Shard: 3, Token: newer, From: 1, Ended: older}); len(got) != size.states {
					b.Fatalf("%d states arrived", len(got))
				}
				p.held = p.held[:0]
			}
		})
	}
}
