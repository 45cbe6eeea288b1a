package region

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/sharding/protocol"
)

const (
	self  view.NodeID = 2
	boss  view.NodeID = 1
	other view.NodeID = 3
)

// bench steps one core and keeps what it did.
type bench struct {
	t     *testing.T
	c     *Core
	now   clock.Instant
	epoch view.Epoch
	seq   uint64
	did   []Effect
	trace []TraceEvent
}

func newBench(t *testing.T, floors *Floors) *bench {
	b := &bench{t: t, now: 1, epoch: view.FirstEpoch(1)}
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

func (b *bench) view(ids ...view.NodeID) *bench {
	b.epoch++
	v := &view.View{Epoch: b.epoch}
	for _, id := range ids {
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: id}, Status: view.Up})
	}
	return b.step(ViewChanged{View: v})
}

// head is that of the next thing the coordinator of the present view says.
func (b *bench) head() protocol.Head {
	b.seq++
	return protocol.Head{Type: "counter", Term: b.epoch, View: b.epoch, Seq: b.seq}
}

func (b *bench) token() protocol.Token {
	b.seq++
	return protocol.Token{Term: b.epoch, Seq: b.seq}
}

func (b *bench) hear(m protocol.Message) *bench {
	b.t.Helper()
	return b.step(Received{From: boss, Msg: m})
}

func (b *bench) hostShard(s protocol.ShardID, t protocol.Token) *bench {
	b.t.Helper()
	return b.hear(&protocol.HostShards{Head: b.head(), Shards: []protocol.HostOrder{{Shard: s, Token: t}}})
}

func (b *bench) handOff(s protocol.ShardID, t protocol.Token) *bench {
	b.t.Helper()
	h := b.head()
	return b.hear(&protocol.HandOff{Head: h, Within: time.Second, Shards: []protocol.HandOffOrder{{Shard: s, Token: t, Move: h.Stamp()}}})
}

func (b *bench) homes(s protocol.ShardID, n view.NodeID, t protocol.Token) *bench {
	b.t.Helper()
	return b.hear(&protocol.Homes{Head: b.head(), Homes: []protocol.Home{{Shard: s, Node: n, Token: t}}})
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
	b.hear(&protocol.HandOff{Head: late, Shards: []protocol.HandOffOrder{{Shard: 1, Token: tok, Move: late.Stamp()}}})
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
	// Only the coordinator of our term confirms: another may not have heard it.
	old := b.head()
	b.view(boss, self, other)
	b.hear(&protocol.CensusRequest{Head: b.head()})
	b.hear(&protocol.StoppedAck{Head: old, Shards: st(1, tok)})
	b.tick(time.Second)
	want[*protocol.Stopped](b)
	b.hear(&protocol.StoppedAck{Head: b.head(), Shards: st(1, tok)})
	b.tick(time.Second)
	refuse[*protocol.Stopped](b)
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
	b.hear(&protocol.CensusRequest{Head: b.head()})
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
	b.hear(&protocol.CensusRequest{Head: b.head()})
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
	b.hear(&protocol.HostShards{Head: h, Shards: []protocol.HostOrder{{Shard: 1, Token: h.Stamp()}}})
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

func TestBeginWaitsForTheMarker(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token())
	want[OpenRoute](b)
	move := b.token()
	begin := &protocol.Begin{Head: b.head(), Shards: st(1, move)}
	b.hear(begin)
	if c := want[CloseRoute](b); c.Marker == nil || c.Marker.Owner != other || c.Marker.Token != move {
		t.Errorf("closed with %+v", c.Marker)
	}
	refuse[*protocol.BeginAck](b)
	b.tick(time.Second)
	want[SendMarker](b)
	b.step(MarkerAcked{From: other, Shards: st(1, protocol.Token{Term: 1})})
	refuse[*protocol.BeginAck](b)
	b.step(MarkerAcked{From: other, Shards: st(1, move)})
	want[*protocol.BeginAck](b)
	b.hear(begin)
	want[*protocol.BeginAck](b)
	refuse[CloseRoute](b)
	b.tick(time.Second)
	refuse[SendMarker](b)
}

func TestBeginWithoutARouteIsAnsweredAtOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	b.hear(&protocol.Begin{Head: b.head(), Shards: st(1, b.token())})
	want[*protocol.BeginAck](b)
	refuse[CloseRoute](b)
}

func TestOwnersDeathAnswersTheMarker(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token())
	move := b.token()
	b.hear(&protocol.Begin{Head: b.head(), Shards: st(1, move)})
	b.view(boss, self)
	if m := want[*protocol.BeginAck](b); m.Shards[0].Token != move {
		t.Errorf("acknowledged %v", m.Shards)
	}
}

// Begin and Homes count by their stamps, in whatever order they come.
func TestBeginAndHomesInAnyOrder(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.token()
	b.homes(1, other, tok)
	before, move, after := b.head(), b.token(), b.head()
	publish := func(h protocol.Head) *protocol.Homes {
		return &protocol.Homes{Head: h, Homes: []protocol.Home{{Shard: 1, Node: other, Token: tok}}}
	}
	b.hear(&protocol.Begin{Head: before, Shards: st(1, move)})
	b.hear(publish(before))
	refuse[OpenRoute](b)
	b.hear(publish(after)) // the move was cancelled
	want[OpenRoute](b)
	b.hear(&protocol.Begin{Head: before, Shards: st(1, move)})
	refuse[CloseRoute](b)
	refuse[*protocol.BeginAck](b)
}

func TestHomesNeverGoBack(t *testing.T) {
	b := newBench(t, &Floors{})
	old := b.head()
	tok := b.token()
	b.homes(1, other, tok)
	b.hear(&protocol.Homes{Head: old, Homes: []protocol.Home{{Shard: 1, Node: boss, Token: old.Stamp()}}})
	refuse[OpenRoute](b)
	b.homes(1, 99, b.token()) // outside the view
	refuse[OpenRoute](b)
	b.homes(1, self, b.token()) // not running here
	refuse[OpenRoute](b)
}

// A record that was served on taking office may be wrong: what the census found is
// published later and wins, although its token is lower.
func TestTheCensusOverridesTheRecord(t *testing.T) {
	b := newBench(t, &Floors{})
	truth, record := b.token(), b.token()
	b.homes(1, other, record)
	b.homes(1, boss, truth)
	if o := want[OpenRoute](b); o.Home != boss || o.Token != truth {
		t.Errorf("opened %+v", o)
	}
}

func TestRouteClosesWhenItsHomeLeaves(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token())
	b.view(boss, self)
	if c := want[CloseRoute](b); c.Marker != nil {
		t.Errorf("a marker for the dead: %+v", c.Marker)
	}
	b.step(NeedHome{Shards: []protocol.ShardID{1}})
	want[*protocol.GetHome](b)
}

func TestHomesAreAskedForUntilTheyCome(t *testing.T) {
	b := newBench(t, &Floors{})
	b.step(NeedHome{Shards: []protocol.ShardID{1, 3}})
	if m := want[*protocol.GetHome](b); !slices.Equal(m.Shards, []protocol.ShardID{1, 3}) || !m.Hosts {
		t.Errorf("asked %+v", m)
	}
	b.homes(1, other, b.token())
	b.tick(time.Second)
	if m := want[*protocol.GetHome](b); !slices.Equal(m.Shards, []protocol.ShardID{3}) {
		t.Errorf("asked again for %v", m.Shards)
	}
	b.homes(3, other, b.token())
	b.tick(time.Second)
	refuse[*protocol.GetHome](b)
}

// A home that refuses what it is sent, again and again, makes no storm.
func TestMisroutingIsNoStorm(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.token()
	asked := 0
	for range 100 {
		b.homes(1, other, tok).step(Misrouted{Shard: 1, Token: tok})
		want[CloseRoute](b)
		b.step(NeedHome{Shards: []protocol.ShardID{1}})
		if _, ok := find[*protocol.GetHome](b); ok {
			asked++
		}
		b.now = b.now.Add(time.Millisecond)
	}
	if asked != 1 {
		t.Errorf("asked %d times within 100 ms", asked)
	}
}

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
	b.hear(&protocol.RegisterAck{Head: b.head()})
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
	b.hear(&protocol.HandOff{Head: h, Shards: []protocol.HandOffOrder{{Shard: 1, Token: tok, Move: h.Stamp()}}})
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
	b.hear(&protocol.Drained{Head: b.head(), Left: 1})
	want[StopShard](b)
	refuse[Drained](b)
	b.step(ShardStopped{Shards: st(1, tok)})
	want[Drained](b)
	// A coordinator that takes office later must not place anything here.
	b.view(boss, self, other)
	b.hear(&protocol.CensusRequest{Head: b.head()})
	want[*protocol.Drain](b)
}

func TestProxyNeverHosts(t *testing.T) {
	b := newBench(t, &Floors{})
	b.c = New(Config{Self: self, Type: "counter", Shards: 8}, &Floors{})
	b.view(boss, self).step(LeaseChanged{Valid: true})
	b.hostShard(1, b.token())
	refuse[StartShard](b)
	want[*protocol.Stopped](b)
	b.hear(&protocol.CensusRequest{Head: b.head()})
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
	b.hear(&protocol.Begin{Head: b.head(), Shards: st(far, tok)})
	b.hear(&protocol.StoppedAck{Head: b.head(), Shards: st(far, tok)})
	b.step(NeedHome{Shards: []protocol.ShardID{far}}).step(Misrouted{Shard: far})
	b.step(ShardStarted{Shards: st(far, tok)}).step(ShardStopped{Shards: st(far, tok)})
	b.step(MarkerAcked{From: other, Shards: st(far, tok)})
	if len(b.c.floors.token) > 0 {
		t.Errorf("floors of shards that do not exist: %v", b.c.floors.token)
	}
}

func ExampleCore() {
	c := New(Config{Self: 2, Type: "counter", Shards: 8, Hosts: true}, &Floors{})
	v := &view.View{Epoch: 1, Members: []view.Member{
		{Node: view.Node{ID: 1}, Status: view.Up}, {Node: view.Node{ID: 2}, Status: view.Up},
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
