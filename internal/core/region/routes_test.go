package region

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func TestBeginWaitsForTheMarker(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token())
	want[OpenRoute](b)
	move := b.token()
	begin := &protocol.Begin{Head: b.head(), Shards: st(1, move)}
	b.receive(begin)
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
	b.receive(begin)
	want[*protocol.BeginAck](b)
	refuse[CloseRoute](b)
	b.tick(time.Second)
	refuse[SendMarker](b)
}

func TestBeginWithoutARouteIsAnsweredAtOnce(t *testing.T) {
	b := newBench(t, &Floors{})
	b.receive(&protocol.Begin{Head: b.head(), Shards: st(1, b.token())})
	want[*protocol.BeginAck](b)
	refuse[CloseRoute](b)
}

func TestOwnersDeathAnswersTheMarker(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(1, other, b.token())
	move := b.token()
	b.receive(&protocol.Begin{Head: b.head(), Shards: st(1, move)})
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
	b.receive(&protocol.Begin{Head: before, Shards: st(1, move)})
	b.receive(publish(before))
	refuse[OpenRoute](b)
	b.receive(publish(after)) // the move was cancelled
	want[OpenRoute](b)
	b.receive(&protocol.Begin{Head: before, Shards: st(1, move)})
	refuse[CloseRoute](b)
	refuse[*protocol.BeginAck](b)
}

func TestHomesNeverGoBack(t *testing.T) {
	b := newBench(t, &Floors{})
	old := b.head()
	tok := b.token()
	b.homes(1, other, tok)
	b.receive(&protocol.Homes{Head: old, Homes: []protocol.Home{{Shard: 1, Node: boss, Token: old.Stamp()}}})
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

// Homes of one stamp are about one moment: of two for a shard, the later allocation counts.
func TestHomesOfOneStampCountByTheirTokens(t *testing.T) {
	b := newBench(t, &Floors{})
	lower, middle, higher := b.token(), b.token(), b.token()
	h := b.head()
	publish := func(n gossip.NodeID, tok protocol.Token) {
		b.receive(&protocol.Homes{Head: h, Homes: []protocol.Home{{Shard: 1, Node: n, Token: tok}}})
	}
	publish(other, middle)
	publish(boss, lower)
	refuse[OpenRoute](b)
	publish(boss, higher)
	if o := only[OpenRoute](b); o != (OpenRoute{Shard: 1, Home: boss, Token: higher}) {
		t.Errorf("opens %+v", o)
	}
	// The same again changes nothing; a later one does, whatever it names.
	publish(boss, higher)
	refuse[OpenRoute](b)
	b.homes(1, other, higher)
	only[OpenRoute](b)
	b.homes(1, other, b.token())
	only[OpenRoute](b)
}

// The route to a shard of this node opens when the shard runs, and closes when it has stopped.
// In between, only a move closes it, and Homes after that move open it again.
func TestTheOwnRouteFollowsTheShard(t *testing.T) {
	b := newBench(t, &Floors{})
	older, tok := b.head(), b.token()
	b.hostShard(1, tok)
	b.homes(1, self, tok)
	refuse[OpenRoute](b)
	b.step(ShardStarted{Shards: st(1, tok)})
	if o := only[OpenRoute](b); o != (OpenRoute{Shard: 1, Home: self, Token: tok}) {
		t.Errorf("opens %+v", o)
	}
	b.receive(&protocol.Homes{Head: older, Homes: []protocol.Home{{Shard: 1, Node: other, Token: b.token()}}})
	refuse[OpenRoute](b)
	b.begin(1, b.token())
	only[CloseRoute](b)
	b.homes(1, self, b.token())
	refuse[OpenRoute](b)
	b.homes(1, self, tok)
	only[OpenRoute](b)
	b.handOff(1, tok)
	b.begin(1, b.token())
	b.homes(1, self, tok)
	refuse[OpenRoute](b)
	b.step(ShardStopped{Shards: st(1, tok)})
	refuse[CloseRoute](b)
	if _, open := b.c.Route(1); open {
		t.Error("the route is open after the stop")
	}
	again := b.run(1)
	b.step(Abandoned{})
	if c := only[CloseRoute](b); c != (CloseRoute{Shard: 1}) {
		t.Errorf("closes %+v", c)
	}
	if home, open := b.c.Route(1); open || home.Token != again {
		t.Errorf("the route leads to %+v, open %v", home, open)
	}
}

// A shard that stops here may have moved already: the route to its next home stays open.
func TestAStopLeavesTheRouteToTheNextHome(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.run(1)
	b.homes(1, other, b.token())
	b.step(Abandoned{})
	refuse[CloseRoute](b)
	if home, open := b.c.Route(1); !open || home.Node != other {
		t.Errorf("after the stop of %v the route leads to %+v, open %v", tok, home, open)
	}
	if _, open := b.c.Route(8); open {
		t.Error("the route of a shard that does not exist is open")
	}
}

// A shard that starts here under an order from before a move has a closed route: its coordinator
// is moving it, and publishes its home after that.
func TestAStartFromBeforeAMoveOpensNoRoute(t *testing.T) {
	b := newBench(t, &Floors{})
	tok := b.token()
	b.hostShard(1, tok)
	b.begin(1, b.token())
	b.step(ShardStarted{Shards: st(1, tok)})
	refuse[OpenRoute](b)
	only[*protocol.ShardsHosted](b)
}

// A state that waits here is dropped when the shard lives elsewhere under a later token.
func TestAPublishedHomeEndsTheWaitOfAState(t *testing.T) {
	b := newBench(t, &Floors{})
	b.homes(2, other, b.token())
	refuse[DropState](b)
	held := b.token()
	b.step(StateHeld{Shard: 1, Token: held, From: other, Term: held.Term})
	b.homes(1, boss, b.token())
	if d := only[DropState](b); d != (DropState{Shard: 1, Token: held, From: other, Home: boss}) {
		t.Errorf("drops %+v", d)
	}
	b.homes(1, other, b.token())
	refuse[DropState](b)
}

// A home is asked for immediately, and again not before its time, whatever asks for it.
func TestHomesAreAskedForAtTheirPace(t *testing.T) {
	b := newBench(t, &Floors{})
	const retry = 100 * time.Millisecond
	b.acks(boss).need(1)
	only[*protocol.GetHome](b)
	b.now = b.now.Add(retry - 1)
	b.need(1)
	refuse[*protocol.GetHome](b)
	b.now++
	b.need(1)
	only[*protocol.GetHome](b)
	// At the tick, what was asked less than half an interval ago is left out.
	b = newBench(t, &Floors{})
	b.acks(boss).need(1)
	b.now = b.now.Add(resendWait / 2)
	b.need(2)
	b.now++
	b.need(3)
	b.now = b.c.Deadline()
	b.step(Tick{})
	if m := only[*protocol.GetHome](b); !slices.Equal(m.Shards, []protocol.ShardID{1, 2}) {
		t.Errorf("asks for %v", m.Shards)
	}
	// A new view has all that are wanted asked for, and only those.
	b.homes(2, other, b.token()).view(boss, self, other)
	if m := only[*protocol.GetHome](b); !slices.Equal(m.Shards, []protocol.ShardID{1, 3}) {
		t.Errorf("asks for %v in a new view", m.Shards)
	}
}

// A refusal closes the route over which the message went, and no other.
func TestOnlyTheRefusedRouteCloses(t *testing.T) {
	b := newBench(t, &Floors{})
	former, tok := b.token(), b.token()
	b.homes(1, other, tok)
	b.step(Misrouted{Shard: 1, Token: former})
	refuse[CloseRoute](b)
	b.step(Misrouted{Shard: 1, Token: tok})
	only[CloseRoute](b)
	b.step(Misrouted{Shard: 1, Token: tok})
	refuse[CloseRoute](b)
}

// A view closes the open routes to members that have left, and the next request need not wait.
func TestAViewClosesTheRoutesToTheDeparted(t *testing.T) {
	b := newBench(t, &Floors{})
	b.acks(boss)
	tok := b.token()
	b.need(2).homes(1, boss, b.token()).homes(2, other, tok).homes(3, other, b.token())
	b.step(Misrouted{Shard: 3, Token: b.c.routes.list.entryOf(3).token})
	b.view(boss, self)
	if c := only[CloseRoute](b); c != (CloseRoute{Shard: 2}) {
		t.Errorf("closes %+v", c)
	}
	b.need(2)
	only[*protocol.GetHome](b)
}
