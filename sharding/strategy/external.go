package strategy

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// External places shards where the application wants them: State.Wanted, which
// Registry.Place sets. A shard without a wanted node, or whose wanted node is absent, goes
// to the node that asked for it first, or else to the most suitable one. When its wanted
// node appears, it moves there in the next round.
//
// The application decides when a move is due. So External ignores State.Unsettled, and
// considers earlier moves only for shards without a wanted node. A rolling restart moves a
// shard off its node and back, twice at most if each node is back before the next one
// leaves; the same holds for shards without a wanted node. The zero External has the
// defaults. It is immutable.
type External struct {
	// Limit is the number of shards that one round may move. Default: 1000.
	Limit int
}

// Allocate returns the wanted region, or else the requester.
func (e External) Allocate(s *State, shard ShardID, requester gossip.NodeID) gossip.NodeID {
	if r := s.wanted(shard); r != nil {
		return r.Node
	}
	fresh := s.fresh(shard, alike)
	if r := fresh.Region(requester); r != nil && r.Eligible() {
		return requester
	}
	return MostSuitable(fresh)
}

// Rebalance returns the shards that are not where they are wanted, by number.
func (e External) Rebalance(s *State) []ShardID {
	var out []ShardID
	for i := range s.Regions {
		for _, shard := range s.Regions[i].Shards {
			if r := s.wanted(shard); r != nil && r != &s.Regions[i] {
				out = append(out, shard)
			}
		}
	}
	slices.Sort(out)
	return out[:min(len(out), cmp.Or(e.Limit, 1000))]
}

// wanted returns the region where the application wants a shard. It is nil if the application
// has named none, or if that region can take none. Of two regions of one name the more senior
// counts.
func (s *State) wanted(shard ShardID) *Region {
	name, said := s.Wanted[shard]
	if !said {
		return nil
	}
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Name == name && r.Eligible() {
			return r
		}
	}
	return nil
}
