package strategy

import (
	"github.com/peerage-go/peerage/gossip/view"
)

// Senior puts every shard on the most senior region, and the next one is its
// heir: what must exist once, and seldom move, belongs there. A region that leaves
// hands over to its heir; one that becomes the most senior because it registered
// late is handed what the others hold. What moved lately does not matter: a rolling
// restart that begins with the most senior node moves all once per node, and one that
// takes it last moves all once. The zero Senior is ready. It is immutable.
type Senior struct{}

// Allocate returns the most senior region that may be given shards, zero if there
// is none.
func (Senior) Allocate(s *State, _ ShardID, _ view.NodeID) view.NodeID {
	for i := range s.Regions {
		if s.Regions[i].Eligible() {
			return s.Regions[i].Node
		}
	}
	return 0
}

// Rebalance returns the shards of all regions but the most senior. It does not wait
// for members that join, since they are the least senior; it does not move to or
// from a silent region, whose end, if it comes, moves the shards anyway.
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
