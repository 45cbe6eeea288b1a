package strategy

import (
	"github.com/peerage-go/peerage/gossip"
)

// Senior places every shard on the most senior region; the next one in seniority is its
// successor. Use it for entities that must exist once and should seldom move. A region that
// leaves hands over to its successor. A region that becomes the most senior because it
// registered late receives the shards of the other regions.
//
// Recent moves do not matter: a rolling restart that begins with the most senior node moves
// all shards once per node; one that takes it last moves all of them once. The zero Senior
// is ready. It is immutable.
type Senior struct{}

// Allocate returns the most senior eligible region, zero if there is none.
func (Senior) Allocate(s *State, _ ShardID, _ gossip.NodeID) gossip.NodeID {
	for i := range s.Regions {
		if s.Regions[i].Eligible() {
			return s.Regions[i].Node
		}
	}
	return 0
}

// Rebalance returns the shards of all regions but the most senior. It does not wait for
// joining members, which are the least senior. It moves nothing to or from a silent region,
// whose end, if it comes, moves the shards anyway.
func (Senior) Rebalance(s *State) []ShardID {
	var shards []ShardID
	senior := true
	for i := range s.Regions {
		r := &s.Regions[i]
		switch {
		case r.Leaving:
		case senior && r.Silent:
			return nil
		case senior:
			senior = false
		case !r.Silent:
			shards = append(shards, r.Shards...)
		}
	}
	return shards[:min(len(shards), seniorRound)]
}

// seniorRound is how many shards one round moves at most.
const seniorRound = 1000
