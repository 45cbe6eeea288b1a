package strategy

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// Moved counts the recent moves of a shard, planned or after the end of a home, without a
// time of calm between them. The zero Moved is a shard at rest.
type Moved struct {
	// Times is the number of these moves.
	Times int
	// Since is the epoch of the view in which the first of these moves was made.
	Since gossip.Epoch
}

// A rolling restart moves every shard off its node once. A second move is due if
// the new home is restarted later, and that should be the last one. A region that
// joined after the first move was restarted already, and will not be again: so a
// shard that moved before goes there (fresh), and the balance is kept by shards
// that moved least (restless). This needs no notion of a restart, nor a clock that
// two coordinators agree about.

// movesMax is how often a shard moves before it is left in peace for a while.
const movesMax = 2

// last reports whether an optional move to this region is the last one, as far as that can
// be predicted: it is the first move, or the second, to a region that has joined since.
func (m Moved) last(to *Region) bool {
	return m.Times == 0 || m.Times < movesMax && to.Joined > m.Since
}

// fresh returns what Allocate should choose from for a shard: if it moved lately,
// the eligible regions of the newest version that joined since, unless they have
// no room or there are none; then, and for other shards, all.
func (s *State) fresh(shard ShardID, capacity func(*Region) int) *State {
	moved := s.Moved[shard]
	if moved.Times == 0 {
		return s
	}
	newest, shards, carry := "", 0, 0
	for i := range s.Regions {
		r := &s.Regions[i]
		shards += len(r.Shards)
		if !r.Eligible() {
			continue
		}
		carry += capacity(r)
		if CompareVersions(r.AppVersion, newest) > 0 {
			newest = r.AppVersion
		}
	}
	out := State{}
	for i := range s.Regions {
		r := &s.Regions[i]
		// Room is twice a region's part: a node that joins alone must not get all.
		room := len(r.Shards)*carry < 2*(shards+1)*capacity(r)
		if r.Eligible() && room && r.Joined > moved.Since && CompareVersions(r.AppVersion, newest) == 0 {
			out.Regions = append(out.Regions, *r)
		}
	}
	if len(out.Regions) == 0 {
		return s
	}
	return &out
}

// restless returns regions with the shards that a rebalance may move: those that moved
// least first, and among them the longest placed. Unless all may move, it leaves out shards
// that moved twice, and shards that moved once if no region has joined since: their next
// move would not be the last.
func (s *State) restless(regions []Region, all bool) (movable [][]ShardID) {
	movable = make([][]ShardID, len(regions))
	var youngest gossip.Epoch
	for i := range regions {
		if regions[i].Eligible() {
			youngest = max(youngest, regions[i].Joined)
		}
	}
	for i := range regions {
		if len(s.Moved) == 0 {
			movable[i] = regions[i].Shards
			continue
		}
		for _, shard := range regions[i].Shards {
			if m := s.Moved[shard]; all || m.Times == 0 || m.Times < movesMax && youngest > m.Since {
				movable[i] = append(movable[i], shard)
			}
		}
		slices.SortStableFunc(movable[i], func(a, b ShardID) int {
			return cmp.Compare(s.Moved[a].Times, s.Moved[b].Times)
		})
	}
	return movable
}

// lopsided reports whether balance is worth more than peace: a region has over
// twice its part, or none of a part of two or more.
func lopsided(regions []Region, capacity func(*Region) int) bool {
	shards, carry := 0, 0
	for i := range regions {
		shards, carry = shards+len(regions[i].Shards), carry+capacity(&regions[i])
	}
	return slices.ContainsFunc(regions, func(r Region) bool {
		has, part := len(r.Shards)*carry, shards*capacity(&r)
		return has > 2*part || r.Eligible() && has == 0 && part >= 2*carry
	})
}

// alike is the capacity of regions for strategies that make no difference.
func alike(*Region) int { return 1 }

// carries is the capacity that a region declares.
func carries(r *Region) int { return int(max(r.Capacity, 1)) }
