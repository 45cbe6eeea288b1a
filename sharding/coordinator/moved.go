package coordinator

import (
	"math"

	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// movedLately returns what the strategy should know of a shard's latest moves.
func (c *Core) movedLately(s *shard) strategy.Moved {
	if s.moves == 0 || c.now.Sub(s.movedAt) >= c.cfg.Calm {
		return strategy.Moved{}
	}
	return strategy.Moved{Times: int(s.moves), Since: s.since}
}

// noteMove counts that a shard which had a home gets another.
func (c *Core) noteMove(s *shard) {
	if c.movedLately(s).Times == 0 {
		s.moves, s.since = 0, c.view.Epoch
	}
	if s.moves < math.MaxUint8 {
		s.moves++
	}
	s.movedAt = c.now
}

// recall takes a record's count over. When the last move was nobody says: as if now.
func (c *Core) recall(r protocol.Record) {
	s := &c.shards[r.Shard]
	s.moves, s.since, s.movedAt = r.Moves, r.Since, c.now
}
