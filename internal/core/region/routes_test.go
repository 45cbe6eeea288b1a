package region

import (
	"slices"
	"testing"
	"time"

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
