package coordinator

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// The record carries the count of moves to a successor. After a time of calm, the next move
// is a first one again.
func TestMovesAreCountedAndForgotten(t *testing.T) {
	const calm = 10 * time.Minute
	var s shard
	s.noteMove(1, calm, 4)
	s.noteMove(1, calm, 6)
	r := s.allocationRecord(0)
	if r.Moves != 2 || r.Since != gossip.Epoch(4) {
		t.Fatalf("after two moves the record is %+v", r)
	}
	var next shard
	now := clock.Instant(1).Add(time.Hour)
	next.recallMoves(now, r)
	want := strategy.Moved{Times: 2, Since: r.Since}
	if got := next.movedLately(now, calm); got != want {
		t.Errorf("the successor has %+v, want %+v", got, want)
	}
	now = now.Add(calm)
	if got := next.movedLately(now, calm); got != (strategy.Moved{}) {
		t.Errorf("after a time of calm: %+v", got)
	}
	next.noteMove(now, calm, 9)
	if r := next.allocationRecord(0); r.Moves != 1 || r.Since != 9 {
		t.Errorf("after calm and a move the record is %+v", r)
	}
}

// TestAMoveIsLateForATime checks that a move counts until the shard has stayed where it is for the time of calm.
func TestAMoveIsLateForATime(t *testing.T) {
	const calm = 10 * time.Minute
	var s shard
	at := clock.Instant(1).Add(time.Hour)
	s.noteMove(at, calm, 4)
	for after, want := range map[time.Duration]int{0: 1, calm - 1: 1, calm: 0, calm + 1: 0} {
		if got := s.movedLately(at.Add(after), calm).Times; got != want {
			t.Errorf("%v after the move: %d moves, want %d", after, got, want)
		}
	}
}

// TestWhereAShardCounts checks that a shard counts at the new home of its move, and else at its home.
func TestWhereAShardCounts(t *testing.T) {
	for _, c := range []struct {
		s    shard
		want gossip.NodeID
	}{{shard{}, 0}, {shard{home: 2}, 2}, {shard{home: 2, move: &shardMove{}}, 2}, {shard{home: 2, move: &shardMove{target: 3}}, 3}} {
		if got := c.s.countedAt(); got != c.want {
			t.Errorf("%+v counts at %v, want %v", c.s, got, c.want)
		}
	}
	st := &strategy.State{Regions: []strategy.Region{{Node: 2, Shards: all(3)}, {Node: 3}}}
	snap := snapshot{st}
	snap.placed(1, 2, 3)
	snap.placed(5, 0, 9)
	if two, three := st.Regions[0].Shards, st.Regions[1].Shards; !slices.Equal(two, []protocol.ShardID{0, 2}) || !slices.Equal(three, []protocol.ShardID{1}) {
		t.Errorf("after a move of shard 1 from 2 to 3 these have %v and %v", two, three)
	}
}
