package coordinator

import (
	"github.com/peerage-go/peerage/sharding/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// When another cluster or lineage has ended in this one, it may have given out tokens
// above those of shards that live here. A store outside that is fenced by them would
// refuse the rightful owner. So the view says from which generation on tokens must be
// (view.View.TokensFrom), and shards below it are moved to the home that they have: they
// stop in order, keep their states, and start under a token of this term.

// renew begins such moves. It runs behind relieve: what leaves gets a new token anyway.
func (c *Core) renew() {
	if c.cfg.Mutant.Is("tokens are not renewed") {
		return
	}
	if c.renewed || c.view.TokensFrom == 0 || !c.canMove() || c.view.Yields() != nil {
		return
	}
	left := false
	var st *strategy.State
	for i := range c.shards {
		s := &c.shards[i]
		if s.home == 0 || s.token.Term.Generation() >= c.view.TokensFrom {
			continue
		}
		left = true
		if s.phase != hosted || c.leaving(s.home) {
			continue // what leaves is placed elsewhere, and gets a new token so
		}
		if st == nil {
			st = c.places()
		}
		if st.Region(s.home) != nil {
			c.beginMove(protocol.ShardID(i), s.home)
		}
	}
	c.renewed = !left
}
