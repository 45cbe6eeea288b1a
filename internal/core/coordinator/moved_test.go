package coordinator

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// The count of moves stands in the record, a successor takes it over, and calm ends
// it: the next move is a first one again.
func TestMovesAreCountedAndForgotten(t *testing.T) {
	c := New(Config{Self: 1, Shards: 1})
	c.view, c.now = &gossip.View{Epoch: 4}, 1
	c.shards = make([]shard, 1)
	s := &c.shards[0]
	c.noteMove(s)
	c.view = &gossip.View{Epoch: 6}
	c.noteMove(s)
	r := c.recordOf(0)
	if r.Moves != 2 || r.Since != gossip.Epoch(4) {
		t.Fatalf("after two moves the record is %+v", r)
	}
	next := New(Config{Self: 2, Shards: 1})
	next.now, next.shards = c.now.Add(time.Hour), make([]shard, 1)
	next.recall(r)
	want := strategy.Moved{Times: 2, Since: r.Since}
	if got := next.movedLately(&next.shards[0]); got != want {
		t.Errorf("the successor knows %+v, want %+v", got, want)
	}
	next.now = next.now.Add(10 * time.Minute)
	if got := next.movedLately(&next.shards[0]); got != (strategy.Moved{}) {
		t.Errorf("after a time of calm: %+v", got)
	}
	next.view = &gossip.View{Epoch: 9}
	next.noteMove(&next.shards[0])
	if r := next.recordOf(protocol.ShardID(0)); r.Moves != 1 || r.Since != next.view.Epoch {
		t.Errorf("after calm and a move the record is %+v", r)
	}
}
