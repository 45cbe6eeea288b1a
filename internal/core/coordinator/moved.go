package coordinator

import (
	"math"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// movedLately returns the shard's latest moves for the strategy: none if it has stayed where
// it is for the time calm.
func (s *shard) movedLately(now clock.Instant, calm time.Duration) strategy.Moved {
	if s.moves == 0 || now.Sub(s.movedAt) >= calm {
		return strategy.Moved{}
	}
	return strategy.Moved{Times: int(s.moves), Since: s.since}
}

// noteMove counts the move of the shard from one home to another, in the view of an epoch.
func (s *shard) noteMove(now clock.Instant, calm time.Duration, epoch gossip.Epoch) {
	if s.movedLately(now, calm).Times == 0 {
		s.moves, s.since = 0, epoch
	}
	if s.moves < math.MaxUint8 {
		s.moves++
	}
	s.movedAt = now
}

// recallMoves restores the counts from a record. The time of the last move is unknown: use
// now.
func (s *shard) recallMoves(now clock.Instant, r protocol.Record) {
	s.moves, s.since, s.movedAt = r.Moves, r.Since, now
}
