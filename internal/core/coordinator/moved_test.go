package coordinator

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
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
