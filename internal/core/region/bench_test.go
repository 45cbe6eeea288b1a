package region

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

const (
	self  gossip.NodeID = 2
	boss  gossip.NodeID = 1
	other gossip.NodeID = 3
)

// bench steps one core and keeps what it did.
type bench struct {
	t     *testing.T
	c     *Core
	now   clock.Instant
	epoch gossip.Epoch
	seq   uint64
	did   []Effect
	trace []TraceEvent
}

func newBench(t *testing.T, floors *Floors) *bench {
	b := &bench{t: t, now: 1, epoch: gossip.FirstEpoch(1)}
	b.c = New(Config{Self: self, Type: "counter", Shards: 8, Hosts: true}, floors)
	b.view(boss, self, other)
	b.step(LeaseChanged{Valid: true})
	return b
}

func (b *bench) step(ev Event) *bench {
	b.t.Helper()
	var out Effects
	b.c.Step(b.now, ev, &out)
	b.did, b.trace = out.Do, out.Trace
	if err := b.c.Check(); err != nil {
		b.t.Fatalf("after %+v: %v", ev, err)
	}
	return b
}

func (b *bench) view(ids ...gossip.NodeID) *bench {
	b.epoch++
	v := &gossip.View{Epoch: b.epoch}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	return b.step(ViewChanged{View: v})
}

// head is that of the next thing the coordinator of the present view says.
func (b *bench) head() protocol.Head {
	b.seq++
	return protocol.Head{Type: "counter", Term: b.epoch, View: b.epoch, Seq: b.seq}
}

// headOf is that of a coordinator whose term began in an earlier view, or in this one.
func (b *bench) headOf(term gossip.Epoch) protocol.Head {
	h := b.head()
	h.Term = term
	return h
}

// sendsTo counts what the last step sent to a node.
func (b *bench) sendsTo(n gossip.NodeID) (sent int) {
	for _, e := range b.did {
		if s, is := e.(Send); is && s.To == n {
			sent++
		}
	}
	return sent
}

func (b *bench) token() protocol.Token {
	b.seq++
	return protocol.Token{Term: b.epoch, Seq: b.seq}
}

func (b *bench) receive(m protocol.Message) *bench {
	b.t.Helper()
	return b.step(Received{From: boss, Msg: m})
}

func (b *bench) hostShard(s protocol.ShardID, t protocol.Token) *bench {
	b.t.Helper()
	return b.receive(&protocol.HostShards{Head: b.head(), Shards: []protocol.HostOrder{{Shard: s, Token: t}}})
}

func (b *bench) handOff(s protocol.ShardID, t protocol.Token) *bench {
	b.t.Helper()
	h := b.head()
	return b.receive(&protocol.HandOff{Head: h, Within: time.Second, Shards: []protocol.HandOffOrder{{Shard: s, Token: t, Move: h.Stamp()}}})
}

func (b *bench) homes(s protocol.ShardID, n gossip.NodeID, t protocol.Token) *bench {
	b.t.Helper()
	return b.receive(&protocol.Homes{Head: b.head(), Homes: []protocol.Home{{Shard: s, Node: n, Token: t}}})
}

func st(s protocol.ShardID, t protocol.Token) []protocol.ShardToken {
	return []protocol.ShardToken{{Shard: s, Token: t}}
}

func (b *bench) run(s protocol.ShardID) protocol.Token {
	b.t.Helper()
	t := b.token()
	b.hostShard(s, t).step(ShardStarted{Shards: st(s, t)})
	return t
}

// find returns the first effect or message of type T.
func find[T any](b *bench) (found T, ok bool) {
	for _, e := range b.did {
		if x, is := any(e).(T); is {
			return x, true
		}
		if s, is := e.(Send); is {
			if x, is := any(s.Msg).(T); is {
				return x, true
			}
		}
	}
	return found, false
}

func want[T any](b *bench) T {
	b.t.Helper()
	x, ok := find[T](b)
	if !ok {
		b.t.Fatalf("no %T in %s", x, b.show())
	}
	return x
}

func refuse[T any](b *bench) {
	b.t.Helper()
	if x, ok := find[T](b); ok {
		b.t.Fatalf("%T %+v in %s", x, x, b.show())
	}
}

func (b *bench) show() string {
	out := ""
	for _, e := range b.did {
		if s, ok := e.(Send); ok {
			out += fmt.Sprintf("\n  to %v: %s %+v", s.To, protocol.Name(s.Msg), s.Msg)
		} else {
			out += fmt.Sprintf("\n  %T %+v", e, e)
		}
	}
	return out
}

func (b *bench) tick(d time.Duration) *bench {
	b.t.Helper()
	b.now = b.now.Add(d)
	return b.step(Tick{})
}

func (b *bench) traced(kind string) bool {
	return slices.ContainsFunc(b.trace, func(t TraceEvent) bool { return t.Kind == kind })
}
