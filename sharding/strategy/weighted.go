package strategy

import (
	"cmp"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// Weighted gives each region shards in proportion to the capacity of its node: of 100
// shards, regions of capacities 1, 1 and 2 get 25, 25 and 50.
//
//	place:     where (shards + 1) / capacity is least
//	rebalance: from the region with the greatest shards / capacity, the shard that moved least
//	           and was placed longest ago first, while that region would still have the greater
//	           load after the move: a/A > (b+1)/B
//
// So it terminates: every move lowers the greater of two loads. Loads are compared as
// products of integers, without rounding. Versions and leaving regions count as in
// LeastShards, and so do shards that moved twice lately. The zero Weighted has the
// defaults. It is immutable.
type Weighted struct {
	// AbsoluteLimit is the maximum number of shards that one round moves. Default: 1000.
	AbsoluteLimit int
	// RelativeLimit is the maximum fraction of all shards that one round moves. Default: 0.1.
	RelativeLimit float64
	// SpreadZones is that of LeastShards, with the capacities of nodes in place of their number.
	SpreadZones bool
	// RequesterZoneFactor is that of LeastShards.
	RequesterZoneFactor float64
}

// Allocate returns the region whose load, relative to its capacity, is least with one shard
// more. For a shard that moved lately, it prefers regions that have joined since and have
// room.
func (w Weighted) Allocate(s *State, shard ShardID, requester gossip.NodeID) gossip.NodeID {
	if l := LeastShards(w); l.looksAtZones() {
		return l.allocateByZone(s, shard, requester, carries)
	}
	if r := lightest(s.fresh(shard, carries)); r != nil {
		return r.Node
	}
	return 0
}

// Rebalance returns the shards of one round. It returns none while an earlier round runs,
// or while State.Unsettled is set.
func (w Weighted) Rebalance(s *State) []ShardID {
	if s.Moving > 0 || s.Unsettled != "" {
		return nil
	}
	if l := LeastShards(w); l.looksAtZones() {
		return l.rebalanceZones(s, carries)
	}
	regions := slices.DeleteFunc(slices.Clone(s.Regions), func(r Region) bool { return r.Leaving })
	out := w.round(State{Regions: slices.Clone(regions)}, s.restless(regions, false))
	if len(out) == 0 && lopsided(regions, carries) {
		out = w.round(State{Regions: regions}, s.restless(regions, true))
	}
	return out
}

// round is one round, with the shards of each region that may be moved. It changes
// the plan.
func (w Weighted) round(plan State, movable [][]ShardID) []ShardID {
	total := 0
	for i := range plan.Regions {
		total += len(plan.Regions[i].Shards)
	}
	limit := LeastShards(w).limit(total)
	var out []ShardID
	for len(out) < limit {
		from, to := heaviest(&plan), lightest(&plan)
		if from == nil || to == nil || load(from, 0, to) <= load(to, 1, from) {
			break
		}
		at := slices.IndexFunc(plan.Regions, func(r Region) bool { return r.Node == from.Node })
		if len(movable[at]) == 0 {
			break
		}
		shard := movable[at][0]
		out, movable[at] = append(out, shard), movable[at][1:]
		from.Shards = from.Shards[1:] // what counts is how many are left
		to.Shards = append(to.Shards[:len(to.Shards):len(to.Shards)], shard)
	}
	return out
}

// load is what r has, and more, in a measure that can be compared with o's.
func load(r *Region, more int, o *Region) uint64 {
	return uint64(len(r.Shards)+more) * uint64(max(o.Capacity, 1))
}

// lightest returns where a shard adds least, among the regions of the newest
// version; the more senior of equals.
func lightest(s *State) *Region {
	var best *Region
	for i := range s.Regions {
		r := &s.Regions[i]
		if !r.Eligible() {
			continue
		}
		if best == nil || cmp.Or(CompareVersions(best.AppVersion, r.AppVersion), cmp.Compare(load(r, 1, best), load(best, 1, r))) < 0 {
			best = r
		}
	}
	return best
}

// heaviest returns the staying region with the greatest load that has a shard.
func heaviest(s *State) *Region {
	var worst *Region
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Leaving || len(r.Shards) == 0 {
			continue
		}
		if worst == nil || load(r, 0, worst) > load(worst, 0, r) {
			worst = r
		}
	}
	return worst
}
