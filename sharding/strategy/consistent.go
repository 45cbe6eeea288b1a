package strategy

import (
	"cmp"
	"math"
	"slices"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/sharding/protocol"
)

// ConsistentHashing gives each shard a fixed place on a ring of the regions'
// names, so that a join or a leave moves about 1/n of the shards, and equal shard
// numbers of different types live together. Each region has VirtualNodes points on
// the ring; a shard goes to the first point behind its own whose region has room.
//
// Room is bounded load (Mirrokni, Thorup, Zadimoghaddam 2016): no region gets more
// than ceil(LoadFactor * shards / regions). The whole ring is planned at once, in
// the order of shard numbers, so the plan depends on the set of names alone, and
// not on the order in which shards happened to be allocated.
//
// It keeps the last plan: use one value per entity type. The zero value has the
// defaults.
type ConsistentHashing struct {
	// VirtualNodes is the number of points per region. More spread better and make a
	// plan slower. Default: 100.
	VirtualNodes int
	// LoadFactor bounds a region's load against the mean: 1.25 lets a region have a
	// quarter more. Closer to 1 spreads better and moves more shards at a join.
	// Values below 1 count as 1. Default: 1.25.
	LoadFactor float64
	// Limit is the number of shards that one round may move. Default: 1000.
	Limit int

	names []string
	homes []int
}

// Allocate returns the shard's place on the ring.
func (h *ConsistentHashing) Allocate(s *State, shard protocol.ShardID, _ view.NodeID) view.NodeID {
	places := h.plan(s)
	if int(shard) >= len(h.homes) || len(places) == 0 {
		return 0
	}
	return places[h.homes[shard]].Node
}

// Rebalance returns the shards that are not at their place, by region and number;
// none while an earlier round runs or the time is not good.
func (h *ConsistentHashing) Rebalance(s *State) []protocol.ShardID {
	if s.Moving > 0 || s.Unsettled != "" {
		return nil
	}
	places := h.plan(s)
	if len(places) == 0 {
		return nil
	}
	limit := cmp.Or(h.Limit, 1000)
	regions := slices.Clone(s.Regions)
	slices.SortStableFunc(regions, func(a, b Region) int { return cmp.Compare(a.Name, b.Name) })
	var out []protocol.ShardID
	for _, r := range regions {
		for _, shard := range slices.Sorted(slices.Values(r.Shards)) {
			if int(shard) < len(h.homes) && places[h.homes[shard]].Node != r.Node && len(out) < limit {
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
		h.names, h.homes = names, h.assign(names, s.Shards)
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

func (h *ConsistentHashing) assign(names []string, shards int) []int {
	virtual := cmp.Or(h.VirtualNodes, 100)
	ring := make([]point, 0, virtual*len(names))
	for i, name := range names {
		for v := range virtual {
			ring = append(ring, point{hash(name, uint64(v)), i})
		}
	}
	slices.SortFunc(ring, func(a, b point) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.place, b.place)) })
	factor := max(1, cmp.Or(h.LoadFactor, 1.25))
	room := int(math.Ceil(factor * float64(shards) / float64(len(names))))
	load, homes := make([]int, len(names)), make([]int, shards)
	for s := range homes {
		at, _ := slices.BinarySearchFunc(ring, hash("", uint64(s)), func(p point, t uint64) int { return cmp.Compare(p.at, t) })
		for load[ring[at%len(ring)].place] >= room {
			at++
		}
		homes[s] = ring[at%len(ring)].place
		load[homes[s]]++
	}
	return homes
}

// hash is FNV-1a over the name and the number, with the finalizer of SplitMix64,
// without which short inputs lie close together. It never changes: all nodes of
// all releases must agree on the ring.
func hash(name string, n uint64) uint64 {
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
