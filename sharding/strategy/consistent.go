package strategy

import (
	"cmp"
	"math"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// ConsistentHashing gives each shard a fixed place on a ring of the regions' names. A join
// or a leave then moves about 1/n of the shards, and equal shard numbers of different types
// live together. Each region has VirtualNodes points on the ring. A shard belongs to the
// first point behind its own whose region has room.
//
// Room is bounded load (Mirrokni, Thorup, Zadimoghaddam 2016): no region gets more than
// ceil(LoadFactor * shards / regions). The whole ring is planned together, in the order of
// shard numbers. So the plan depends only on the set of names, not on the order in which
// shards were allocated.
//
// A shard that moved lately (see Moved) goes to the first point behind its own of a region
// that has joined since and has room, if there is one. It moves back to its place only if
// that move is the last, unless a region has more than twice its part, or none. So a
// rolling restart in which nodes keep their names moves no shard more than twice, and some
// shards stay beside their place until they have rested. New names make a new ring.
//
// It keeps the last plan: use one value per entity type. The zero value has the defaults.
type ConsistentHashing struct {
	// VirtualNodes is the number of points per region. More points spread shards better and
	// make a plan slower. Default: 100.
	VirtualNodes int
	// LoadFactor bounds a region's load against the mean: 1.25 lets a region have a
	// quarter more. Closer to 1 spreads better and moves more shards at a join.
	// Values below 1 count as 1. Default: 1.25.
	LoadFactor float64
	// Limit is the number of shards that one round may move. Default: 1000.
	Limit int

	names []string
	ring  []point
	homes []int
}

// Allocate returns the shard's place on the ring. For a shard that moved lately, it prefers
// regions that have joined since and have room.
func (h *ConsistentHashing) Allocate(s *State, shard ShardID, _ gossip.NodeID) gossip.NodeID {
	places := h.plan(s)
	if int(shard) >= len(h.homes) || len(places) == 0 {
		return 0
	}
	home := places[h.homes[shard]].Node
	fresh := s.fresh(shard, alike)
	if fresh == s || fresh.Region(home) != nil {
		return home
	}
	at := h.behind(shard)
	for i := range h.ring {
		if n := places[h.ring[(at+i)%len(h.ring)].place].Node; fresh.Region(n) != nil {
			return n
		}
	}
	return home
}

// Rebalance returns the shards that are not at their place, by region and number. It
// returns none while an earlier round runs, or while State.Unsettled is set. Of shards that
// moved lately, it returns only those whose move is the last, unless the balance is bad.
func (h *ConsistentHashing) Rebalance(s *State) []ShardID {
	if s.Moving > 0 || s.Unsettled != "" {
		return nil
	}
	places := h.plan(s)
	if len(places) == 0 {
		return nil
	}
	stay := slices.DeleteFunc(slices.Clone(s.Regions), func(r Region) bool { return r.Leaving })
	out := h.misplaced(s, places, false)
	if len(out) == 0 && lopsided(stay, alike) {
		out = h.misplaced(s, places, true)
	}
	return out
}

// misplaced returns the shards that a round moves; all ignores what moved lately.
func (h *ConsistentHashing) misplaced(s *State, places []*Region, all bool) []ShardID {
	limit := cmp.Or(h.Limit, 1000)
	regions := slices.Clone(s.Regions)
	slices.SortStableFunc(regions, func(a, b Region) int { return cmp.Compare(a.Name, b.Name) })
	var out []ShardID
	for _, r := range regions {
		for _, shard := range slices.Sorted(slices.Values(r.Shards)) {
			if int(shard) >= len(h.homes) || len(out) == limit {
				continue
			}
			home := places[h.homes[shard]]
			if home.Node != r.Node && (all || s.Moved[shard].last(home)) {
				out = append(out, shard)
			}
		}
	}
	return out
}

// plan returns the regions that may have shards, by name, and brings homes, which
// point into them, up to date.
func (h *ConsistentHashing) plan(s *State) []*Region {
	places := candidates(s)
	names := make([]string, len(places))
	for i, r := range places {
		names[i] = r.Name
	}
	if len(names) > 0 && (!slices.Equal(names, h.names) || len(h.homes) != s.Shards) {
		h.names = names
		h.assign(s.Shards)
	}
	return places
}

// candidates are the eligible regions of the newest version, by name. Of two with
// one name the more senior counts.
func candidates(s *State) []*Region {
	var out []*Region
	for i := range s.Regions {
		r := &s.Regions[i]
		if !r.Eligible() {
			continue
		}
		if len(out) > 0 {
			switch CompareVersions(r.AppVersion, out[0].AppVersion) {
			case -1:
				continue
			case 1:
				out = out[:0]
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b *Region) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(out, func(a, b *Region) bool { return a.Name == b.Name })
}

type point struct {
	at    uint64
	place int
}

// assign plans the ring of h.names anew.
func (h *ConsistentHashing) assign(shards int) {
	virtual := cmp.Or(h.VirtualNodes, 100)
	h.ring = make([]point, 0, virtual*len(h.names))
	for i, name := range h.names {
		for v := range virtual {
			h.ring = append(h.ring, point{hashPoint(name, uint64(v)), i})
		}
	}
	slices.SortFunc(h.ring, func(a, b point) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place)) })
	factor := max(1, cmp.Or(h.LoadFactor, 1.25))
	room := int(math.Ceil(factor * float64(shards) / float64(len(h.names))))
	load := make([]int, len(h.names))
	h.homes = make([]int, shards)
	for s := range h.homes {
		at := h.behind(ShardID(s))
		for load[h.ring[at%len(h.ring)].place] >= room {
			at++
		}
		h.homes[s] = h.ring[at%len(h.ring)].place
		load[h.homes[s]]++
	}
}

// behind returns the index of the first point behind a shard's own, which may be one
// round further.
func (h *ConsistentHashing) behind(shard ShardID) int {
	at, _ := slices.BinarySearchFunc(h.ring, hashPoint("", uint64(shard)), func(p point, t uint64) int { return cmp.Compare(p.at, t) })
	return at
}

// hashPoint is FNV-1a over the name and the number, with the finalizer of SplitMix64,
// without which short inputs lie close together. It never changes: all nodes of
// all releases must agree on the ring.
func hashPoint(name string, n uint64) uint64 {
	x := uint64(14695981039346656037)
	for i := range len(name) {
		x = (x ^ uint64(name[i])) * 1099511628211
	}
	for range 8 {
		x = (x ^ n&0xff) * 1099511628211
		n >>= 8
	}
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
