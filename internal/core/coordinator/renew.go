package coordinator

import (
	"github.com/peerage-go/peerage/internal/core/protocol"
	"github.com/peerage-go/peerage/sharding/strategy"
)

// When another cluster or lineage has ended in this one, it may have given out tokens
// above those of shards that live here. An external store that is fenced by those tokens
// would refuse the rightful owner. So the view gives the lowest generation that tokens may
// have (gossip.View.TokensFrom). Shards below it are moved to the home that they have: they
// stop in order, keep their states, and start under a token of this term.

// renew begins such moves. It runs after relieve: a leaving shard gets a new token anyway.
func (t *table) renew() {
	if t.renewed || t.view.TokensFrom == 0 || !t.canMove() || t.view.Yields() != nil {
		return
	}
	left := false
	var st *strategy.State
	for i := range t.shards {
		s := &t.shards[i]
		if s.home == 0 || s.token.Term.Generation() >= t.view.TokensFrom {
			continue
		}
		left = true
		if s.phase != hosted || t.members.leaving(s.home) {
			// A leaving shard is placed elsewhere, and so gets a new token.
			continue
		}
		if st == nil {
			st = t.chooser.places()
		}
		if st.Region(s.home) != nil {
			t.beginMove(protocol.ShardID(i), s.home)
		}
	}
	t.renewed = !left
}
