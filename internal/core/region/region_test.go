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

func TestRegisterBacksOff(t *testing.T) {
	b := newBench(t, &Floors{})
	var at []time.Duration
	start := b.now
	for len(at) < 6 {
		b.now = b.c.Deadline()
		b.step(Tick{})
		want[*protocol.Register](b)
		at = append(at, b.now.Sub(start)/time.Millisecond)
	}
	if !slices.Equal(at, []time.Duration{100, 300, 700, 1500, 2500, 3500}) {
		t.Errorf("registers after %v ms", at)
	}
	b.receive(&protocol.RegisterAck{Head: b.head()})
	if !b.c.Registered() || b.c.Deadline() != clock.Never {
		t.Errorf("registered %v, deadline %v", b.c.Registered(), b.c.Deadline())
	}
}

func TestProbesAreAnsweredAtOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.handOff(1, tok)
	h := b.head()
	h.Probe = true
	b.receive(&protocol.HandOff{Head: h, Shards: []protocol.HandOffOrder{{Shard: 1, Token: tok, Move: h.Stamp()}}})
	want[*protocol.Seen](b)
}

func TestDrainRefusesAndEnds(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.step(Drain{})
	want[*protocol.Drain](b)
	b.hostShard(2, b.token())
	refuse[StartShard](b)
	want[*protocol.Stopped](b)
	b.hostShard(1, tok)
	want[*protocol.ShardsHosted](b)
	b.tick(time.Second)
	want[*protocol.Drain](b)
	b.receive(&protocol.Drained{Head: b.head(), Left: 1})
	want[StopShard](b)
	refuse[Drained](b)
	b.step(ShardStopped{Shards: st(1, tok)})
	want[Drained](b)
	// A coordinator that takes office later must not place anything here.
	b.view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	want[*protocol.Drain](b)
}

func TestProxyNeverHosts(t *testing.T) {
	b := newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Shards: 8}, &Floors{})
	b.view(boss, self).step(LeaseChanged{Valid: true})
	b.hostShard(1, b.token())
	refuse[StartShard](b)
	want[*protocol.Stopped](b)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	if r := want[*protocol.CensusReport](b); r.Hosts || len(r.Claims) > 0 {
		t.Errorf("a proxy reports %+v", r)
	}
	b.step(Drain{})
	want[Drained](b)
}

func TestShardsOutOfRangeAreRefused(t *testing.T) {
	b := newBench(t, &Floors{})
	const far = 8
	tok := b.token()
	b.hostShard(far, tok).handOff(far, tok).homes(far, other, tok)
	b.receive(&protocol.Begin{Head: b.head(), Shards: st(far, tok)})
	b.receive(&protocol.StoppedAck{Head: b.head(), Shards: st(far, tok)})
	b.step(NeedHome{Shards: []protocol.ShardID{far}}).step(Misrouted{Shard: far})
	b.step(ShardStarted{Shards: st(far, tok)}).step(ShardStopped{Shards: st(far, tok)})
	b.step(MarkerAcked{From: other, Shards: st(far, tok)})
	if len(b.c.floors.token) > 0 {
		t.Errorf("floors of shards that do not exist: %v", b.c.floors.token)
	}
}

func ExampleCore() {
	c := New(Config{Self: 2, Type: "counter", Shards: 8, Hosts: true}, &Floors{})
	v := &gossip.View{Epoch: 1, Members: []gossip.Member{
		{Node: gossip.Node{ID: 1}, Status: gossip.Up}, {Node: gossip.Node{ID: 2}, Status: gossip.Up},
	}}
	var out Effects
	c.Step(1, ViewChanged{View: v}, &out)
	c.Step(2, LeaseChanged{Valid: true}, &out)
	c.Step(3, Received{From: 1, Msg: &protocol.HostShards{
		Head:   protocol.Head{Type: "counter", Term: 1, View: 1, Seq: 7},
		Shards: []protocol.HostOrder{{Shard: 5, Token: protocol.Token{Term: 1, Seq: 7}}},
	}}, &out)
	for _, e := range out.Do {
		switch e := e.(type) {
		case Send:
			fmt.Printf("send %s to %v\n", protocol.Name(e.Msg), e.To)
		case StartShard:
			fmt.Printf("start shard %v under %v\n", e.Shard, e.Token)
		}
	}
	// Output:
	// send Register to 0000000000000001
	// start shard 5 under 0.1/7
}
