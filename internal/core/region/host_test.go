package region

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func TestHostStartsOnceAndConfirmsThen(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.token()
	b.hostShard(1, tok)
	if s := want[StartShard](b); s.Token != tok {
		t.Errorf("started under %v", s.Token)
	}
	refuse[*protocol.ShardsHosted](b)
	b.hostShard(1, tok)
	refuse[StartShard](b)
	refuse[*protocol.ShardsHosted](b)
	b.step(ShardStarted{Shards: st(1, tok)})
	want[*protocol.ShardsHosted](b)
	if o := want[OpenRoute](b); o.Home != self || o.Token != tok {
		t.Errorf("the own route is %+v", o)
	}
	b.hostShard(1, tok)
	if m := want[*protocol.ShardsHosted](b); m.Seq != b.seq {
		t.Errorf("the answer echoes %d, want %d", m.Seq, b.seq)
	}
}

// A18: the order for the next allocation overtakes the stop of the last.
func TestStartWaitsForTheStop(t *testing.T) {
	b := newBench(t, &Floors{})
	first := b.run(1)
	b.handOff(1, first)
	want[StopShard](b)
	second := b.token()
	b.hostShard(1, second)
	refuse[StartShard](b)
	refuse[*protocol.ShardsHosted](b)
	b.step(ShardStopped{Shards: st(1, first)})
	if s := want[StartShard](b); s.Token != second {
		t.Errorf("started under %v, want %v", s.Token, second)
	}
	if m := want[*protocol.Stopped](b); m.Shards[0].Token != first {
		t.Errorf("stopped %v, want %v", m.Shards, first)
	}
}

// A56: whoever does not host the shard promises too, and keeps the promise.
func TestHandOffOvertakesHostShards(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.token()
	b.handOff(1, tok)
	if m := want[*protocol.Stopped](b); m.Shards[0].Token != tok {
		t.Errorf("stopped %v, want %v", m.Shards, tok)
	}
	b.hostShard(1, tok)
	refuse[StartShard](b)
	want[*protocol.Stopped](b)
	if !b.traced(TraceStaleToken) {
		t.Error("the refusal is not traced")
	}
	// While it stops, too: the waiting start is dropped with the promise.
	first := b.run(2)
	b.handOff(2, first)
	next := b.token()
	b.hostShard(2, next).handOff(2, next)
	b.step(ShardStopped{Shards: st(2, first)})
	refuse[StartShard](b)
	if m := want[*protocol.Stopped](b); m.Shards[0].Token != next {
		t.Errorf("stopped %v, want %v", m.Shards, next)
	}
}

// A HandOff from before the coordinator's question comes after the answer.
func TestOvertakenHandOffIsVoid(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	late := b.head()
	b.hostShard(1, tok)
	want[*protocol.ShardsHosted](b)
	b.receive(&protocol.HandOff{Head: late, Shards: []protocol.HandOffOrder{{Shard: 1, Token: tok, Move: late.Stamp()}}})
	refuse[StopShard](b)
	refuse[*protocol.Stopped](b)
}

func TestStoppedIsRepeatedUntilConfirmed(t *testing.T) {
	f := &Floors{}
	b := newBench(t, f)
	tok := b.run(1)
	b.handOff(1, tok).step(ShardStopped{Shards: st(1, tok)})
	want[*protocol.Stopped](b)
	for range 3 {
		b.tick(time.Second)
		want[*protocol.Stopped](b)
	}
	// Only the coordinator of our term confirms: another may not have received the report.
	old := b.head()
	b.view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	b.receive(&protocol.StoppedAck{Head: old, Shards: st(1, tok)})
	b.tick(time.Second)
	want[*protocol.Stopped](b)
	b.receive(&protocol.StoppedAck{Head: b.head(), Shards: st(1, tok)})
	b.tick(time.Second)
	refuse[*protocol.Stopped](b)
}

// A census learns how far each shard has started or stopped: one that starts takes no message yet.
func TestTheCensusReportsHowFarAShardIs(t *testing.T) {
	b := newBench(t, &Floors{})
	starts := b.token()
	b.hostShard(1, starts)
	runs, stops := b.run(2), b.run(3)
	b.receive(&protocol.HandOff{Head: b.head(), Shards: []protocol.HandOffOrder{{Shard: 3, Token: stops, Move: b.token(), To: other}}})
	b.receive(&protocol.CensusRequest{Head: b.head()})
	report := []protocol.Claim{{Shard: 1, Token: starts, State: protocol.ClaimStarting},
		{Shard: 2, Token: runs, State: protocol.ClaimHosted}, {Shard: 3, Token: stops, State: protocol.ClaimStopping, To: other}}
	if r := want[*protocol.CensusReport](b); !slices.Equal(r.Claims, report) {
		t.Errorf("reports %+v, want %+v", r.Claims, report)
	}
}

func TestFloorsOutliveTheRegion(t *testing.T) {
	f := &Floors{}
	b := newBench(t, f)
	tok := b.run(1)
	again := newBench(t, f)
	again.epoch, again.seq = b.epoch, b.seq
	again.hostShard(1, tok)
	refuse[StartShard](again)
	again.tick(time.Second)
	if m := want[*protocol.Stopped](again); m.Shards[0].Token != tok {
		t.Errorf("stopped %v, want %v", m.Shards, tok)
	}
}

func TestOrdersOfLowerTermsAreRefused(t *testing.T) {
	b := newBench(t, &Floors{})
	old := b.head()
	b.view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	want[*protocol.CensusReport](b)
	for _, m := range []protocol.Message{
		&protocol.HostShards{Head: old, Shards: []protocol.HostOrder{{Shard: 1, Token: old.Stamp()}}},
		&protocol.HandOff{Head: old}, &protocol.Begin{Head: old}, &protocol.CensusRequest{Head: old},
	} {
		b.step(Received{From: other, Msg: m})
		if r := want[*protocol.Refused](b); r.Term != b.epoch {
			t.Errorf("%s: refused with term %v", protocol.Name(m), r.Term)
		}
		if len(b.did) != 1 || !b.traced(TraceStaleTerm) {
			t.Errorf("%s of a lower term does %s", protocol.Name(m), b.show())
		}
	}
}

// A start that an old coordinator ordered, and that waits for a stop, is dropped
// when the census of a new one has been answered: it was not reported.
func TestCensusEndsWaitingStarts(t *testing.T) {
	b := newBench(t, &Floors{})
	first := b.run(1)
	b.handOff(1, first)
	b.hostShard(1, b.token())
	b.view(boss, self, other)
	b.receive(&protocol.CensusRequest{Head: b.head()})
	wantClaims := []protocol.Claim{{Shard: 1, Token: first, State: protocol.ClaimStopping}}
	if r := want[*protocol.CensusReport](b); !reflect.DeepEqual(r.Claims, wantClaims) {
		t.Errorf("claims %v, want %v", r.Claims, wantClaims)
	}
	b.step(ShardStopped{Shards: st(1, first)})
	refuse[StartShard](b)
}

func TestOrdersWaitForTheView(t *testing.T) {
	b := newBench(t, &Floors{})
	h := b.head()
	h.View, h.Term = h.View+1, h.Term+1
	b.receive(&protocol.HostShards{Head: h, Shards: []protocol.HostOrder{{Shard: 1, Token: h.Stamp()}}})
	refuse[StartShard](b)
	b.view(boss, self, other)
	want[StartShard](b)
}

func TestOrdersFromOutsideTheViewAreRefused(t *testing.T) {
	b := newBench(t, &Floors{})
	h := b.head()
	b.step(Received{From: 99, Msg: &protocol.HostShards{Head: h, Shards: []protocol.HostOrder{{Shard: 1, Token: h.Stamp()}}}})
	if len(b.did) > 0 || !b.traced(TraceNotMember) {
		t.Errorf("an outsider's order does %s", b.show())
	}
}

// Without a lease nothing starts and no stop handler runs; with it, what came
// meanwhile happens.
func TestOrdersWaitForTheLease(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.step(LeaseChanged{})
	b.hostShard(2, b.token()).handOff(1, tok)
	refuse[StopShard](b)
	b.step(LeaseChanged{Valid: true})
	want[StartShard](b)
	want[StopShard](b)
}

func TestHeldOrdersAreBounded(t *testing.T) {
	b := newBench(t, &Floors{})
	b.step(LeaseChanged{})
	for range heldMax + 10 {
		b.hostShard(1, b.token())
	}
	if len(b.c.held) != heldMax || !b.traced(TraceHeldOver) {
		t.Errorf("%d held", len(b.c.held))
	}
}

func TestAbandonedShardsAreReportedAndNeverStartAgain(t *testing.T) {
	b := newBench(t, &Floors{})
	one, two := b.run(1), b.token()
	b.hostShard(2, two)
	b.step(Abandoned{})
	if _, ok := b.did[0].(AbandonAll); !ok {
		t.Errorf("the first thing is %T", b.did[0])
	}
	refuse[StopShard](b)
	if m := want[*protocol.Stopped](b); !reflect.DeepEqual(m.Shards, append(st(1, one), st(2, two)...)) {
		t.Errorf("stopped %v", m.Shards)
	}
	b.step(ShardStarted{Shards: st(2, two)})
	refuse[*protocol.ShardsHosted](b)
	b.hostShard(1, one)
	refuse[StartShard](b)
}

// Once the region's view sets a lowest generation of tokens, an order under an older token that
// was on its way starts nothing. Shards that run already are confirmed, until the coordinator
// renews their tokens.
func TestTokensBelowTheViewsBoundStartNothing(t *testing.T) {
	b := newBench(t, &Floors{})
	running, late := b.run(1), b.token()
	former := b.epoch
	b.epoch = gossip.FirstEpoch(5)
	v := &gossip.View{Epoch: b.epoch, TokensFrom: 5}
	for _, id := range []gossip.NodeID{boss, self, other} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	b.step(ViewChanged{View: v})
	order := func(s protocol.ShardID, tok protocol.Token) {
		b.receive(&protocol.HostShards{Head: b.headOf(former), Shards: []protocol.HostOrder{{Shard: s, Token: tok}}})
	}
	order(2, late)
	refuse[StartShard](b)
	if s := want[*protocol.Stopped](b); !slices.Equal(s.Shards, st(2, late)) || !b.traced(TraceStaleToken) {
		t.Errorf("answered %v", s.Shards)
	}
	order(1, running)
	want[*protocol.ShardsHosted](b)
	fresh := b.token()
	b.hostShard(2, fresh)
	if s := want[StartShard](b); s.Token != fresh {
		t.Errorf("started under %v", s.Token)
	}
}
