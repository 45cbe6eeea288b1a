package strategy

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// LeastShards places a new shard on the region with the fewest shards. It moves shards from
// the fullest regions to the emptiest, in rounds:
//
//	S shards on R regions: optimal = ceil(S/R)
//	limit = max(1, min(floor(RelativeLimit * S), AbsoluteLimit))
//	phase 1: from every region above optimal, its excess, the longest placed first
//	phase 2, if phase 1 finds nothing: below = sum of max(0, optimal-1-size);
//	         one shard of every region with size >= optimal, at most below
//
// Both phases move at most limit shards; most imbalances end within two rounds. Of a
// region's shards, those that moved least move first. Shards that moved twice lately stay,
// unless a region has more than twice its part, or none (see Moved).
//
// It follows Pekko's LeastShardAllocationStrategy with limits, except that regions that
// leave do not count as places: otherwise a place that gets no shards would make the other
// regions move shards for as long as it exists.
//
// With SpreadZones or RequesterZoneFactor, it places and moves shards as Weighted does, with
// all capacities alike.
//
// The zero LeastShards has the defaults. It is immutable.
type LeastShards struct {
	// AbsoluteLimit is the maximum number of shards that one round moves. A higher limit
	// ends an imbalance sooner and disturbs more entities at a time. Default: 1000.
	AbsoluteLimit int
	// RelativeLimit is the maximum fraction of all shards that one round moves. With 256
	// shards, 0.1 allows 25: three rounds when a fifth node joins. Default: 0.1.
	RelativeLimit float64
	// SpreadZones gives each zone (peerage.Config.Zone) the same number of shards, and divides
	// them among the nodes of the zone. So the loss of one of three zones stops a third of the
	// shards, however many nodes it has. A node gets at most twice the part that it would have
	// without zones: a zone with less than half the mean capacity of a zone gets less. Nodes without
	// a zone get the part that they would have without zones. Default: false, each node gets
	// the same.
	SpreadZones bool
	// RequesterZoneFactor is how many times its part of all the type's shards a zone may have so that
	// shards live in the zone of the node that asked for them first: 1.25 lets a zone have a
	// quarter more, as long as each other zone can still have its part divided by this factor.
	// A shard that moves goes to the zone with the least load. Values up to 1 turn it off.
	// Default: 0, the zone that asks does not matter.
	RequesterZoneFactor float64
}

// Allocate returns the most suitable region. For a shard that moved lately, it prefers
// regions that have joined since and have room.
func (l LeastShards) Allocate(s *State, shard ShardID, requester gossip.NodeID) gossip.NodeID {
	if l.looksAtZones() {
		return l.allocateByZone(s, shard, requester, alike)
	}
	return MostSuitable(s.fresh(shard, alike))
}

// Rebalance returns the shards of one round. It returns none while an earlier round runs,
// or while State.Unsettled is set.
func (l LeastShards) Rebalance(s *State) []ShardID {
	if s.Moving > 0 || s.Unsettled != "" {
		return nil
	}
	if l.looksAtZones() {
		return l.rebalanceZones(s, alike)
	}
	regions := slices.DeleteFunc(slices.Clone(s.Regions), func(r Region) bool { return r.Leaving })
	slices.SortStableFunc(regions, func(a, b Region) int { return Suitability(&a, &b) })
	total := 0
	for i := range regions {
		total += len(regions[i].Shards)
	}
	if total == 0 {
		return nil
	}
	optimal := (total + len(regions) - 1) / len(regions)
	limit := l.limit(total)
	out := evenOut(regions, s.restless(regions, false), optimal, limit)
	if len(out) == 0 && lopsided(regions, alike) {
		out = evenOut(regions, s.restless(regions, true), optimal, limit)
	}
	return out
}

func (l LeastShards) limit(total int) int {
	absolute, relative := cmp.Or(l.AbsoluteLimit, 1000), cmp.Or(l.RelativeLimit, 0.1)
	return max(1, min(int(relative*float64(total)), absolute))
}

// evenOut is one round, with the shards of each region that may be moved.
func evenOut(regions []Region, movable [][]ShardID, optimal, limit int) []ShardID {
	if over := aboveOptimal(regions, movable, optimal); len(over) > 0 {
		return over[:min(len(over), limit)]
	}
	return towardsEmptiest(regions, movable, optimal, limit)
}

func aboveOptimal(regions []Region, movable [][]ShardID, optimal int) []ShardID {
	var out []ShardID
	for i := range regions {
		if n := len(regions[i].Shards); n > optimal {
			out = append(out, movable[i][:min(len(movable[i]), n-optimal)]...)
		}
	}
	return out
}

func towardsEmptiest(regions []Region, movable [][]ShardID, optimal, limit int) []ShardID {
	below := 0
	var out []ShardID
	for i := range regions {
		n := len(regions[i].Shards)
		below += max(0, optimal-1-n)
		if n >= optimal && len(movable[i]) > 0 {
			out = append(out, movable[i][0])
		}
	}
	return out[:min(len(out), below, limit)]
}

// Suitability orders regions as places for a shard, the best first: regions that stay
// before regions that leave, then the newest version, then the fewest shards.
func Suitability(a, b *Region) int {
	switch {
	case a.Leaving != b.Leaving && a.Leaving:
		return 1
	case a.Leaving != b.Leaving:
		return -1
	}
	if c := CompareVersions(b.AppVersion, a.AppVersion); c != 0 {
		return c
	}
	return cmp.Compare(len(a.Shards), len(b.Shards))
}

// MostSuitable returns the eligible region that is first by Suitability, zero if none is
// eligible. Of equal regions, it returns the more senior one.
func MostSuitable(s *State) gossip.NodeID {
	var best *Region
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Eligible() && (best == nil || Suitability(r, best) < 0) {
			best = r
		}
	}
	if best == nil {
		return 0
	}
	return best.Node
}
