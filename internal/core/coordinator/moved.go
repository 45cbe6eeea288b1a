package coordinator

import (
	"math"

	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// movedLately returns a shard's latest moves for the strategy.
func (c *Core) movedLately(s *shard) strategy.Moved {
	if s.moves == 0 || c.now.Sub(s.movedAt) >= c.cfg.Calm {
		return strategy.Moved{}
	}
	return strategy.Moved{Times: int(s.moves), Since: s.since}
}

// noteMove counts the move of a shard from one home to another.
func (c *Core) noteMove(s *shard) {
	if c.movedLately(s).Times == 0 {
		s.moves, s.since = 0, c.view.Epoch
	}
	if s.moves < math.MaxUint8 {
		s.moves++
	}
	s.movedAt = c.now
}

// recall restores the counts from a record. The time of the last move is unknown: use now.
func (c *Core) recall(r protocol.Record) {
	s := &c.shards[r.Shard]
	s.moves, s.since, s.movedAt = r.Moves, r.Since, c.now
}
