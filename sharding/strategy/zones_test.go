package strategy

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// inZones gives the regions of a state their zones, one letter each; a dot stands for none.
func inZones(s *State, zones string) *State {
	for i := range s.Regions {
		s.Regions[i].Zone = strings.Trim(zones[i:i+1], ".")
	}
	return s
}

// byZone returns the shards of the zones, in the order of their first regions.
func byZone(s *State) (names []string, shards []int) {
	for i := range s.Regions {
		r := &s.Regions[i]
		at := slices.Index(names, r.Zone)
		if at < 0 {
			at, names, shards = len(names), append(names, r.Zone), append(shards, 0)
		}
		shards[at] += len(r.Shards)
	}
	return names, shards
}

// homes returns the region of each shard.
func homes(s *State) map[ShardID]gossip.NodeID {
	out := map[ShardID]gossip.NodeID{}
	for i := range s.Regions {
		for _, shard := range s.Regions[i].Shards {
			out[shard] = s.Regions[i].Node
		}
	}
	return out
}

// settle carries out rounds until one moves nothing, and returns the number of moves. It fails
// if a shard moves a second time, or if that takes more rounds than it may.
func settle(t *testing.T, st Strategy, s *State, rounds int) (moved int) {
	t.Helper()
	seen := map[ShardID]bool{}
	for n := 0; ; n++ {
		was := homes(s)
		if round(st, s) == 0 {
			return len(seen)
		}
		if n == rounds {
			t.Fatalf("%+v: still moving after %d rounds: %v", st, rounds, sizes(s))
		}
		for shard, at := range homes(s) {
			if at != was[shard] && seen[shard] {
				t.Fatalf("%+v: shard %v moves a second time: %v", st, shard, sizes(s))
			}
			seen[shard] = seen[shard] || at != was[shard]
		}
		maps.DeleteFunc(seen, func(_ ShardID, moved bool) bool { return !moved })
	}
}

// checkFewMoves fails if rebalancing has moved more than the shards that regions had above what
// they have now. A tie between zones may cost a move more.
func checkFewMoves(t *testing.T, st Strategy, s *State, before []int, moved int) {
	t.Helper()
	surplus := 0
	for i, n := range sizes(s) {
		surplus += max(0, before[i]-n)
	}
	if names, _ := byZone(s); moved > surplus+len(names)-1 {
		t.Fatalf("%+v: %v ends at %v after %d moves, %d would do", st, before, sizes(s), moved, surplus)
	}
}

// wide has no limit that matters.
func wide(l LeastShards) LeastShards {
	l.AbsoluteLimit, l.RelativeLimit = 1<<20, 1
	return l
}

func TestZonesTables(t *testing.T) {
	for _, c := range []struct {
		what       string
		zones      string
		capacities []uint32
		before     []int
		after      []int
		moves      int
	}{
		{"nodes have alike, zones have not", "aabbbc", nil, []int{10, 10, 10, 10, 10, 10}, []int{10, 10, 6, 7, 7, 20}, 10},
		{"a zone of one, and one of two", "abb", nil, []int{0, 12, 0}, []int{6, 3, 3}, 9},
		{"a small zone gets twice its part", "abbbbb", nil, []int{0, 12, 12, 12, 12, 12}, []int{20, 8, 8, 8, 8, 8}, 20},
		{"three zones of one", "abc", nil, []int{9, 0, 0}, []int{3, 3, 3}, 6},
		{"within a zone", "aabb", nil, []int{8, 0, 4, 4}, []int{4, 4, 4, 4}, 4},
		{"no zones", "....", nil, []int{8, 0, 4, 4}, []int{4, 4, 4, 4}, 4},
		{"one zone", "aaaa", nil, []int{8, 0, 4, 4}, []int{4, 4, 4, 4}, 4},
		{"no zone is no zone of its own", "a..bb", nil, []int{0, 20, 20, 10, 10}, []int{18, 12, 12, 9, 9}, 18},
		{"the nodes of a zone by capacity", "aabb", []uint32{1, 3, 1, 1}, []int{16, 0, 0, 0}, []int{2, 6, 4, 4}, 14},
		{"a zone of little capacity gets twice its part", "aab", []uint32{4, 4, 1}, []int{9, 9, 0}, []int{7, 7, 4}, 4},
	} {
		var st Strategy = wide(LeastShards{SpreadZones: true})
		if c.capacities != nil {
			st = Weighted(wide(LeastShards{SpreadZones: true}))
		}
		s := inZones(weighted(c.capacities, c.before...), c.zones)
		if moves := settle(t, st, s, 1); !slices.Equal(sizes(s), c.after) || moves != c.moves {
			t.Errorf("%s: %v ends at %v with %d moves, want %v with %d", c.what, c.before, sizes(s), moves, c.after, c.moves)
		}
	}
}

// drawn returns a random state and a strategy that looks at zones. Of its zones, some have many
// nodes, and some nodes may have none.
func drawn(r *rand.Rand) (Strategy, *State) {
	n := 1 + r.IntN(24)
	sizes, capacities, zones := make([]int, n), make([]uint32, n), make([]byte, n)
	names := ".abcdefgh"[r.IntN(2):][:2+r.IntN(6)]
	for i := range n {
		sizes[i], capacities[i] = r.IntN(1+r.IntN(200)), 1+uint32(r.IntN(1+r.IntN(40)))
		zones[i] = names[r.IntN(1+r.IntN(len(names)))]
	}
	s := inZones(weighted(capacities, sizes...), string(zones))
	s.Shards += r.IntN(1 + s.Shards)
	l := LeastShards{SpreadZones: r.IntN(3) > 0}
	if !l.SpreadZones || r.IntN(2) == 0 {
		l.RequesterZoneFactor = []float64{1.01, 1.1, 1.25, 1.5, 2, 10}[r.IntN(6)]
	}
	if r.IntN(2) == 0 {
		return Weighted(wide(l)), s
	}
	return wide(l), s
}

// rulesOf returns what a strategy is set to, and whether it looks at capacities.
func rulesOf(st Strategy) (LeastShards, func(*Region) int) {
	if w, weighs := st.(Weighted); weighs {
		return LeastShards(w), carries
	}
	return st.(LeastShards), alike
}

// checkSpread fails unless no move of one shard is due: between zones, or within a zone.
func checkSpread(t *testing.T, st Strategy, s *State) {
	t.Helper()
	l, capacity := rulesOf(st)
	p := l.zonePlan(s, capacity)
	for i := range p.zones {
		for j := range p.zones {
			a, b := &p.zones[i], &p.zones[j]
			if _, high := p.bounds(a); compareLoads(a.shards, a.weight, b.shards+1, b.weight) > 0 && (l.RequesterZoneFactor <= 1 || a.shards > high) {
				t.Fatalf("%+v: zone %q has %d shards at weight %d, zone %q %d at %d", st, a.name, a.shards, a.weight, b.name, b.shards, b.weight)
			}
		}
	}
	if l.RequesterZoneFactor > 1 && p.tooFewLeft(0) {
		t.Fatalf("%+v: a zone has less than its part divided by the factor: %v of %d", st, p.zones, s.Shards)
	}
	for at := range p.zones {
		// With a factor, a shard stays in its zone only if the lightest region is there.
		if l.RequesterZoneFactor > 1 && !p.hasLightest(at) {
			continue
		}
		for i := range s.Regions {
			for j := range s.Regions {
				a, b := &s.Regions[i], &s.Regions[j]
				if p.zoneAt[i] == at && p.zoneAt[j] == at && len(a.Shards)*capacity(b) > (len(b.Shards)+1)*capacity(a) {
					t.Fatalf("%+v: in zone %q, %d shards at capacity %d and %d at %d", st, a.Zone, len(a.Shards), capacity(a), len(b.Shards), capacity(b))
				}
			}
		}
	}
}

// hasLightest reports whether a shard of a zone would stay there if it moved: the zone has the
// lightest region of all zones with room.
func (p *zonePlan) hasLightest(at int) bool {
	homes := p.lightestByZone(&p.State)
	for other, home := range homes {
		if other != at && p.hasRoom(&p.zones[other]) && p.compareAdded(home, homes[at]) <= 0 {
			return false
		}
	}
	return true
}

// From every start, rebalancing ends in one round with zones and nodes that have their parts.
// Each shard moves once at most, and the moves are as few as can be.
func TestZonesConverge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		st, s := drawn(r)
		before := sizes(s)
		moved := settle(t, st, s, 1)
		checkSpread(t, st, s)
		checkFewMoves(t, st, s, before, moved)
	}
}

// A limit makes more rounds, and not more moves.
func TestZonesRespectTheLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 60 {
		st, s := drawn(r)
		l, _ := rulesOf(st)
		l.AbsoluteLimit = 1 + r.IntN(20)
		if st = l; r.IntN(2) == 0 {
			st = Weighted(l)
		}
		if first := st.Rebalance(s); len(first) > l.AbsoluteLimit {
			t.Fatalf("%d moves in a round, the limit is %d", len(first), l.AbsoluteLimit)
		}
		before := sizes(s)
		moved := settle(t, st, s, s.Shards)
		checkSpread(t, st, s)
		checkFewMoves(t, st, s, before, moved)
	}
}

// allocate places all shards that have no home. asker names the node that asks for a shard.
func allocate(st Strategy, s *State, asker func(ShardID) gossip.NodeID) {
	at := homes(s)
	for shard := range ShardID(s.Shards) {
		if at[shard] == 0 {
			r := s.Region(st.Allocate(s, shard, asker(shard)))
			r.Shards = append(r.Shards, shard)
		}
	}
}

// empty takes all shards off the regions.
func empty(s *State) {
	for i := range s.Regions {
		s.Regions[i].Shards = nil
	}
}

// Shards that were placed one by one, whoever asked for them, stay where they are.
func TestZonesPlaceForGood(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 150 {
		st, s := drawn(r)
		empty(s)
		asks := 1 + r.IntN(len(s.Regions))
		allocate(st, s, func(ShardID) gossip.NodeID { return gossip.NodeID(r.IntN(asks)) })
		if moved := settle(t, st, s, 0); moved > 0 {
			t.Fatalf("%+v: %d of %d shards move", st, moved, s.Shards)
		}
		checkSpread(t, st, s)
	}
}

// If each zone asks for its part, all shards live in the zone that asked for them, in whatever
// order it does. If one zone asks for all, it gets its part and what the factor allows.
func TestShardsLiveInTheZoneThatAsks(t *testing.T) {
	for _, l := range []LeastShards{{RequesterZoneFactor: 1.2}, {RequesterZoneFactor: 1.2, SpreadZones: true}} {
		for name, order := range map[string]func(ShardID) gossip.NodeID{
			"in turn":          func(shard ShardID) gossip.NodeID { return gossip.NodeID(1 + shard%3) },
			"one by one":       func(shard ShardID) gossip.NodeID { return gossip.NodeID(1 + shard/100) },
			"one asks for all": func(shard ShardID) gossip.NodeID { return 1 },
		} {
			s := inZones(sized(make([]int, 9)...), "abcabcabc")
			s.Shards = 300
			allocate(l, s, order)
			local := 0
			for shard, at := range homes(s) {
				if s.Region(at).Zone == s.Region(order(shard)).Zone {
					local++
				}
			}
			want := 300
			if name == "one asks for all" {
				want = 120
			}
			if local != want || len(l.Rebalance(s)) > 0 {
				t.Errorf("%+v, %s: %d of 300 shards live in the zone that asks, want %d: %v", l, name, local, want, sizes(s))
			}
		}
	}
}

// A requester that hosts no shards has the zone that State names.
func TestTheZoneOfARequesterThatHostsNothing(t *testing.T) {
	s := inZones(sized(0, 0, 0), "ab.")
	s.Shards = 30
	l := LeastShards{RequesterZoneFactor: 1.5}
	for zone, want := range map[string]gossip.NodeID{"a": 1, "b": 2, "c": 1, "": 1} {
		if s.RequesterZone = zone; l.Allocate(s, 0, 99) != want {
			t.Errorf("asked for from zone %q, the shard goes to %v, want %v", zone, l.Allocate(s, 0, 99), want)
		}
	}
	if got := l.Allocate(s, 0, 2); got != 2 {
		t.Errorf("asked for by 2, the shard goes to %v", got)
	}
	if got := (LeastShards{SpreadZones: true}).Allocate(s, 0, 2); got != 1 {
		t.Errorf("without a factor, the shard goes to %v, which asked", got)
	}
}

// The loss of a zone moves its shards alone, evenly to the other zones. Its return moves only
// what it gets, and only to it.
func TestAZoneIsLostAndReturns(t *testing.T) {
	for _, l := range []LeastShards{{SpreadZones: true}, {SpreadZones: true, RequesterZoneFactor: 1.2}, {RequesterZoneFactor: 1.2}} {
		for _, st := range []Strategy{wide(l), Weighted(wide(l))} {
			s := inZones(weighted([]uint32{1, 2, 3, 2, 1, 3, 3, 3}, make([]int, 8)...), "abcbacac")
			s.Shards = 600
			allocate(st, s, func(shard ShardID) gossip.NodeID { return gossip.NodeID(1 + shard%8) })
			_, had := byZone(s)
			before, all := homes(s), s.Regions
			s.Regions = slices.DeleteFunc(slices.Clone(all), func(r Region) bool { return r.Zone == "b" })
			allocate(st, s, func(ShardID) gossip.NodeID { return 0 })
			for shard, at := range homes(s) {
				if was := before[shard]; was != at && was != 2 && was != 4 {
					t.Fatalf("%+v: zone b is lost, and shard %v of %v moves to %v", st, shard, was, at)
				}
			}
			if moved := settle(t, st, s, 0); moved > 0 {
				t.Errorf("%+v: %d shards move after the loss", st, moved)
			}
			checkSpread(t, st, s)
			lost := homes(s)
			s.Regions = append(s.Regions, Region{Node: 12, Name: "n02", Zone: "b", Capacity: 2, Joined: 9}, Region{Node: 14, Name: "n04", Zone: "b", Capacity: 2, Joined: 9})
			moved := settle(t, st, s, 1)
			checkSpread(t, st, s)
			names, has := byZone(s)
			back := has[slices.Index(names, "b")]
			for shard, at := range homes(s) {
				if lost[shard] != at && at != 12 && at != 14 {
					t.Errorf("%+v: zone b returns, and shard %v moves from %v to %v", st, shard, lost[shard], at)
				}
			}
			if part := had[1]; moved != back || l.RequesterZoneFactor == 0 && back != part || float64(back) < float64(part)/1.5 {
				t.Errorf("%+v: zone b had %d shards, and has %d after %d moves", st, part, back, moved)
			}
		}
	}
}

// Shards that moved twice lately stay, unless a region has more than twice its part or none;
// and rebalancing ends, though shards that moved once have fewer places than others.
func TestZonesLeaveInPeaceWhatMoved(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	spared := 0
	for range 150 {
		st, s := drawn(r)
		s.Moved = map[ShardID]Moved{}
		for i := range s.Regions {
			s.Regions[i].Joined = gossip.Epoch(r.IntN(9))
			for _, shard := range s.Regions[i].Shards {
				if times := r.IntN(4); times > 0 {
					s.Moved[shard] = Moved{Times: times, Since: gossip.Epoch(r.IntN(9))}
				}
			}
		}
		l, capacity := rulesOf(st)
		for n := 0; ; n++ {
			uneven := lopsided(s.Regions, l.zonePlan(s, capacity).weightOf)
			was := homes(s)
			if round(st, s) == 0 {
				break
			}
			if n == 5 {
				t.Fatalf("%+v: still moving after %d rounds: %v", st, n, sizes(s))
			}
			for shard, at := range homes(s) {
				m := s.Moved[shard]
				if at == was[shard] {
					if m.Times >= movesMax {
						spared++
					}
					continue
				}
				if m.Times >= movesMax && !uneven {
					t.Fatalf("%+v: shard %v moved %d times lately, and moves: %v", st, shard, m.Times, sizes(s))
				}
				s.Moved[shard] = Moved{Times: m.Times + 1, Since: m.Since}
			}
		}
	}
	if spared == 0 {
		t.Error("no round had a shard to leave in peace")
	}
}

// Only regions of the newest version that are there and stay get shards, whatever their zone.
func TestZonesRespectVersionsAndDrains(t *testing.T) {
	for _, l := range []LeastShards{{SpreadZones: true}, {RequesterZoneFactor: 1.5}} {
		s := inZones(sized(0, 7, 7, 6), "abbc")
		for _, c := range []struct {
			what string
			edit func()
			want gossip.NodeID
		}{
			{"the empty zone", func() {}, 1},
			{"the empty zone is silent", func() { s.Regions[0].Silent = true }, 4},
			{"the empty zone leaves", func() { s.Regions[0].Silent, s.Regions[0].Leaving = false, true }, 4},
			{"one is of a newer version", func() { s.Regions[2].AppVersion = "2" }, 3},
			{"the newer version leaves", func() { s.Regions[2].Leaving = true }, 4},
			{"all leave", func() { s.Regions[1].Leaving, s.Regions[3].Leaving = true, true }, 0},
		} {
			c.edit()
			for _, st := range []Strategy{l, Weighted(l)} {
				if got := st.Allocate(s, 0, 0); got != c.want {
					t.Errorf("%+v: %s: the shard goes to %v, want %v", st, c.what, got, c.want)
				}
			}
		}
		if moves := l.Rebalance(s); len(moves) > 0 {
			t.Errorf("%+v: all leave, and %v move", l, moves)
		}
	}
}

// Zones of one and of two nodes get half of the shards each; and a shard that is asked for in
// zone b lives there.
func ExampleLeastShards_zones() {
	s := &State{Shards: 12, Regions: []Region{
		{Node: 1, Name: "a1", Zone: "a", Shards: []ShardID{0, 1, 2, 3}},
		{Node: 2, Name: "b1", Zone: "b", Shards: []ShardID{4, 5, 6, 7}},
		{Node: 3, Name: "b2", Zone: "b", Shards: []ShardID{8, 9, 10, 11}},
	}}
	fmt.Println(LeastShards{}.Rebalance(s), LeastShards{SpreadZones: true, RelativeLimit: 1}.Rebalance(s))
	// A node of zone b asks for a new shard.
	s.Shards++
	fmt.Println(LeastShards{RequesterZoneFactor: 1.5}.Allocate(s, 12, 3))
	// Output:
	// [] [4 8]
	// 0000000000000002
}
