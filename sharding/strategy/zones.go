package strategy

import (
	"cmp"
	"math"
	"slices"

	"github.com/peerage-go/peerage/gossip"
)

// zoneStretch is how many times its part a node may get because its zone is small.
const zoneStretch = 2

// zonePlan places shards by zone first, then by region within the zone. It is a state with the
// sums of its zones.
//
//	weight:    a zone's capacity; with SpreadZones, an equal part of all, but at most
//	           zoneStretch times its capacity
//	place:     in the zone where (shards + 1) / weight is least, on the region of that zone
//	           where (shards + 1) / weight is least
//	rebalance: from the zone with the greatest load to another while a/A > (b+1)/B, then
//	           between the regions of each zone by the same rule
//
// Every move lowers the greater of two zones' loads, or leaves the loads of zones as they are
// and lowers the greater of two regions' loads. So rebalancing ends, and moves nothing back.
//
// With RequesterZoneFactor, a zone has bounds in place of an equal load. A shard whose
// requester does not matter goes to the lightest region of all zones with room. Rebalance
// moves shards between zones only to bring them within their bounds, and within a zone only
// if they stay there: placeShard does not know where a shard that moves comes from, so a move to a
// region that is not the lightest of all zones would end in another zone.
type zonePlan struct {
	State
	// factor bounds a zone's shards against its part if shards go to the requester's zone. It
	// is up to 1 if they do not.
	factor   float64
	capacity func(*Region) int
	// zones are those of the regions that stay, the zone of the most senior region first. The
	// regions without a zone are one entry, which gets what they would get without zones.
	zones []zone
	index map[string]int
	// zoneAt and weights have the zone of each region and its part, of partWhole. The part is
	// 0 for a region that leaves.
	zoneAt, weights []int
}

// zone has the sums of the regions of a zone that stay.
type zone struct {
	name             string
	capacity, shards int
	// weight is the zone's part of all shards, of partWhole.
	weight int
}

const partWhole = 1 << 30

// looksAtZones reports whether the strategy places shards by zone.
func (l LeastShards) looksAtZones() bool { return l.SpreadZones || l.RequesterZoneFactor > 1 }

// zonePlan returns the plan of a state. It shares the list of regions.
func (l LeastShards) zonePlan(s *State, capacity func(*Region) int) *zonePlan {
	p := &zonePlan{State: *s, factor: l.RequesterZoneFactor, capacity: capacity, index: map[string]int{}}
	p.zoneAt, p.weights = make([]int, len(s.Regions)), make([]int, len(s.Regions))
	total := 0
	for i := range s.Regions {
		r := &s.Regions[i]
		if r.Leaving {
			continue
		}
		at, known := p.index[r.Zone]
		if !known {
			at = len(p.zones)
			p.index[r.Zone], p.zones = at, append(p.zones, zone{name: r.Zone})
		}
		z := &p.zones[at]
		z.capacity, z.shards = z.capacity+capacity(r), z.shards+len(r.Shards)
		p.zoneAt[i], total = at, total+capacity(r)
	}
	level := p.level()
	for i := range p.zones {
		z := &p.zones[i]
		part := float64(z.capacity)
		if l.SpreadZones && z.name != "" {
			part = min(zoneStretch*part, level)
		}
		z.weight = max(1, int(part/float64(total)*partWhole))
	}
	for i := range s.Regions {
		if r := &s.Regions[i]; !r.Leaving {
			p.weights[i] = p.partOf(r, &p.zones[p.zoneAt[i]])
		}
	}
	return p
}

// level returns what each zone with a name gets of the capacity of all of them, if its own
// capacity is large enough.
func (p *zonePlan) level() float64 {
	var capacities []int
	left := 0
	for _, z := range p.zones {
		if z.name != "" {
			capacities, left = append(capacities, z.capacity), left+z.capacity
		}
	}
	slices.Sort(capacities)
	level := 0.0
	for i, c := range capacities {
		if level = float64(left) / float64(len(capacities)-i); zoneStretch*float64(c) >= level {
			break
		}
		left -= zoneStretch * c
	}
	return level
}

// weightOf returns the part of a region, of partWhole. It is 0 for a region that leaves.
func (p *zonePlan) weightOf(r *Region) int {
	if r.Leaving {
		return 0
	}
	return p.partOf(r, &p.zones[p.index[r.Zone]])
}

func (p *zonePlan) partOf(r *Region, z *zone) int {
	return max(1, int(float64(z.weight)*float64(p.capacity(r))/float64(z.capacity)))
}

// compareLoads compares the loads of a shards at weight A and b shards at weight B.
func compareLoads(a, weightA, b, weightB int) int {
	return cmp.Compare(uint64(a)*uint64(weightB), uint64(b)*uint64(weightA))
}

// bounds returns the fewest and the most shards of a zone that RequesterZoneFactor allows, of
// all shards of the type, in use or not.
func (p *zonePlan) bounds(z *zone) (low, high int) {
	whole := 0
	for i := range p.zones {
		whole += p.zones[i].weight
	}
	part := float64(p.Shards) * float64(z.weight) / float64(whole)
	return int(part / p.factor), int(math.Ceil(part * p.factor))
}

// tooFewLeft reports whether the shards without a home no longer suffice to bring each zone to
// its lower bound, after more of them have been placed in another zone.
func (p *zonePlan) tooFewLeft(more int) bool {
	left, missing := p.Shards-more, 0
	for i := range p.zones {
		z := &p.zones[i]
		low, _ := p.bounds(z)
		left, missing = left-z.shards, missing+max(0, low-z.shards)
	}
	return missing > left
}

// hasRoom reports whether a shard may be placed in a zone because its requester is there.
func (p *zonePlan) hasRoom(z *zone) bool {
	low, high := p.bounds(z)
	return z.shards < low || z.shards < high && !p.tooFewLeft(1)
}

// placeShard returns the region for a shard, -1 if none is eligible. requester is the zone of the
// node that asked for the shard, "" if it does not matter.
func (p *zonePlan) placeShard(shard ShardID, requester string) int {
	homes := p.lightestByZone(p.fresh(shard, p.weightOf))
	if p.factor > 1 {
		if at, known := p.index[requester]; known && requester != "" && homes[at] >= 0 && p.hasRoom(&p.zones[at]) {
			return homes[at]
		}
		if home := p.lightestWithRoom(homes); home >= 0 {
			return home
		}
	}
	best := -1
	for at := range homes {
		if homes[at] >= 0 && (best < 0 || p.compareHomes(homes, at, best) < 0) {
			best = at
		}
	}
	if best < 0 {
		return -1
	}
	return homes[best]
}

// lightestWithRoom returns the region where a shard adds least, in any zone that has room.
// So a shard that moves within its zone stays there if the zone has the lightest region.
func (p *zonePlan) lightestWithRoom(homes []int) int {
	best := -1
	for at, home := range homes {
		if home >= 0 && p.hasRoom(&p.zones[at]) && (best < 0 || p.compareAdded(home, best) < 0) {
			best = home
		}
	}
	return best
}

// lightestByZone returns the region of each zone where a shard adds least, among the eligible
// regions of the newest version in s, which has some of the plan's regions in the same order.
// It is -1 for a zone that has none.
func (p *zonePlan) lightestByZone(s *State) []int {
	newest := ""
	for i := range s.Regions {
		if r := &s.Regions[i]; r.Eligible() && CompareVersions(r.AppVersion, newest) > 0 {
			newest = r.AppVersion
		}
	}
	homes := slices.Repeat([]int{-1}, len(p.zones))
	left := s.Regions
	for i := range p.Regions {
		r := &p.Regions[i]
		if len(left) == 0 || left[0].Node != r.Node {
			continue
		}
		left = left[1:]
		if !r.Eligible() || CompareVersions(r.AppVersion, newest) != 0 {
			continue
		}
		if best := &homes[p.zoneAt[i]]; *best < 0 || p.compareAdded(i, *best) < 0 {
			*best = i
		}
	}
	return homes
}

// compareAdded compares the loads of two regions with one shard more.
func (p *zonePlan) compareAdded(a, b int) int {
	return compareLoads(len(p.Regions[a].Shards)+1, p.weights[a], len(p.Regions[b].Shards)+1, p.weights[b])
}

// compareHomes compares two zones for one shard more. Of zones with equal loads the one with
// the greater weight is first: then no move raises the lesser of two loads. Of equal zones it
// is the one with the lighter region.
func (p *zonePlan) compareHomes(homes []int, a, b int) int {
	x, y := &p.zones[a], &p.zones[b]
	return cmp.Or(compareLoads(x.shards+1, x.weight, y.shards+1, y.weight),
		cmp.Compare(y.weight, x.weight), p.compareAdded(homes[a], homes[b]))
}

// allocateByZone returns the region for a shard, zero if none is eligible.
func (l LeastShards) allocateByZone(s *State, shard ShardID, requester gossip.NodeID, capacity func(*Region) int) gossip.NodeID {
	zone := s.RequesterZone
	if r := s.Region(requester); r != nil {
		zone = r.Zone
	}
	at := l.zonePlan(s, capacity).placeShard(shard, zone)
	if at < 0 {
		return 0
	}
	return s.Regions[at].Node
}

// rebalanceZones returns the shards of one round.
func (l LeastShards) rebalanceZones(s *State, capacity func(*Region) int) []ShardID {
	stay := slices.DeleteFunc(slices.Clone(s.Regions), func(r Region) bool { return r.Leaving })
	p := l.zonePlan(s, capacity)
	p.Regions = slices.Clone(s.Regions)
	placed := 0
	for i := range p.zones {
		placed += p.zones[i].shards
	}
	out := p.round(s.restless(s.Regions, false), l.limit(placed))
	if len(out) == 0 && lopsided(stay, p.weightOf) {
		out = p.round(s.restless(s.Regions, true), l.limit(placed))
	}
	return out
}

// round is one round, with the shards of each region that may be moved. It changes the plan.
func (p *zonePlan) round(movable [][]ShardID, limit int) (out []ShardID) {
	for len(out) < limit {
		shard, found := p.moveBetweenZones(movable)
		if !found {
			shard, found = p.moveWithinZone(movable)
		}
		if !found {
			break
		}
		out = append(out, shard)
	}
	return out
}

// moveBetweenZones moves a shard off the zone with the greatest load that should lose one.
func (p *zonePlan) moveBetweenZones(movable [][]ShardID) (ShardID, bool) {
	order := make([]int, len(p.zones))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := &p.zones[a], &p.zones[b]
		return compareLoads(y.shards, y.weight, x.shards, x.weight)
	})
	for _, at := range order {
		if !p.shouldLose(&p.zones[at]) {
			continue
		}
		for _, i := range p.heaviestFirst(at, -1) {
			if shard, moved := p.move(i, movable, true); moved {
				return shard, true
			}
		}
	}
	return 0, false
}

// shouldLose reports whether a zone has shards that another zone should have.
func (p *zonePlan) shouldLose(z *zone) bool {
	if p.factor <= 1 {
		return p.outweighs(z)
	}
	low, high := p.bounds(z)
	return z.shards > high || z.shards > low && p.tooFewLeft(0)
}

// outweighs reports whether a zone has a greater load than another one with a shard more.
func (p *zonePlan) outweighs(z *zone) bool {
	return slices.ContainsFunc(p.zones, func(o zone) bool {
		return compareLoads(z.shards, z.weight, o.shards+1, o.weight) > 0
	})
}

// moveWithinZone moves a shard off a region that has more than another one of its zone.
func (p *zonePlan) moveWithinZone(movable [][]ShardID) (ShardID, bool) {
	for at, to := range p.lightestByZone(&p.State) {
		if to < 0 {
			continue
		}
		for _, i := range p.heaviestFirst(at, to) {
			if shard, moved := p.move(i, movable, false); moved {
				return shard, true
			}
		}
	}
	return 0, false
}

// heaviestFirst returns the regions of a zone that stay and have shards, by their loads; with
// than, only those with a greater load than that region has with one shard more.
func (p *zonePlan) heaviestFirst(zone, than int) (out []int) {
	for i := range p.Regions {
		if n := len(p.Regions[i].Shards); p.weights[i] > 0 && p.zoneAt[i] == zone && n > 0 &&
			(than < 0 || compareLoads(n, p.weights[i], len(p.Regions[than].Shards)+1, p.weights[than]) > 0) {
			out = append(out, i)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return compareLoads(len(p.Regions[b].Shards), p.weights[b], len(p.Regions[a].Shards), p.weights[a])
	})
	return out
}

// move moves the next shard of a region to where placeShard puts it, as the coordinator will. It
// reports false, and changes nothing, if that is no gain: a shard that moved lately has fewer
// places, and between reports whether the zone should lose shards.
func (p *zonePlan) move(from int, movable [][]ShardID, between bool) (ShardID, bool) {
	if len(movable[from]) == 0 {
		return 0, false
	}
	r, z := &p.Regions[from], &p.zones[p.zoneAt[from]]
	shard, was := movable[from][0], r.Shards
	r.Shards = r.Shards[1:] // what counts is how many are left
	z.shards--
	at := p.placeShard(shard, "")
	if at < 0 || at == from || !p.gains(from, at, between) {
		r.Shards = was
		z.shards++
		return 0, false
	}
	movable[from] = movable[from][1:]
	to := &p.Regions[at]
	to.Shards = append(to.Shards[:len(to.Shards):len(to.Shards)], shard)
	p.zones[p.zoneAt[at]].shards++
	return shard, true
}

// gains reports whether a shard that was taken off a region should go to another one.
func (p *zonePlan) gains(from, to int, between bool) bool {
	x, y := &p.zones[p.zoneAt[from]], &p.zones[p.zoneAt[to]]
	switch {
	case x == y:
		return p.compareAdded(from, to) > 0
	case p.factor > 1:
		return between && p.hasRoom(y)
	}
	return cmp.Or(compareLoads(x.shards+1, x.weight, y.shards+1, y.weight),
		cmp.Compare(y.weight, x.weight), p.compareAdded(from, to)) > 0
}
