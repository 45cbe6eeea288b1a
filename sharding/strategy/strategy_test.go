package strategy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// sized returns a state with regions 1, 2, ... of these sizes; shards are
// numbered in the order of placement.
func sized(sizes ...int) *State {
	s := &State{}
	for i, n := range sizes {
		r := Region{Node: gossip.NodeID(i + 1), Name: fmt.Sprintf("n%02d", i+1)}
		for range n {
			r.Shards = append(r.Shards, ShardID(s.Shards))
			s.Shards++
		}
		s.Regions = append(s.Regions, r)
	}
	return s
}

func sizes(s *State) []int {
	var out []int
	for i := range s.Regions {
		out = append(out, len(s.Regions[i].Shards))
	}
	return out
}

// round carries one rebalance out as the coordinator does.
func round(st Strategy, s *State) int {
	moves := st.Rebalance(s)
	owner := make([]*Region, s.Shards)
	for i := range s.Regions {
		for _, shard := range s.Regions[i].Shards {
			owner[shard] = &s.Regions[i]
		}
	}
	for _, shard := range moves {
		r := owner[shard]
		at := slices.Index(r.Shards, shard)
		r.Shards = slices.Delete(r.Shards, at, at+1)
		r = s.Region(st.Allocate(s, shard, 0))
		r.Shards = append(r.Shards, shard)
	}
	return len(moves)
}

func spread(s *State) int {
	n := sizes(s)
	return slices.Max(n) - slices.Min(n)
}

// Scenario A6.
func TestLeastShardsTables(t *testing.T) {
	wide := LeastShards{RelativeLimit: 1}
	for _, c := range []struct {
		sizes  []int
		st     LeastShards
		first  []ShardID
		after  []int
		rounds int
	}{
		{[]int{1, 2, 0}, wide, []ShardID{1}, []int{1, 1, 1}, 1},
		{[]int{2, 0, 0}, wide, []ShardID{0}, []int{1, 1, 0}, 1},
		{[]int{1, 1, 0}, wide, nil, []int{1, 1, 0}, 0},
		{[]int{3, 0, 0}, wide, []ShardID{0, 1}, []int{1, 1, 1}, 1},
		{[]int{4, 4, 0}, wide, []ShardID{0, 4}, []int{3, 3, 2}, 1},
		{[]int{4, 4, 2}, wide, []ShardID{0}, []int{3, 4, 3}, 1},
		{[]int{5, 5, 0}, wide, []ShardID{0, 5}, []int{3, 4, 3}, 2},
		{[]int{50, 50, 0}, wide, nil, []int{33, 34, 33}, 2},
		{[]int{50, 50, 0}, LeastShards{AbsoluteLimit: 5, RelativeLimit: 1}, []ShardID{0, 1, 2, 3, 4}, []int{33, 34, 33}, 8},
		{[]int{50, 50, 0}, LeastShards{AbsoluteLimit: 100, RelativeLimit: 0.1}, nil, []int{33, 34, 33}, 5},
		{[]int{3, 0, 0}, LeastShards{RelativeLimit: 0.01}, []ShardID{0}, []int{1, 1, 1}, 2},
		{[]int{0, 0, 0}, wide, nil, []int{0, 0, 0}, 0},
		{nil, wide, nil, nil, 0},
	} {
		s := sized(c.sizes...)
		if first := c.st.Rebalance(s); c.first != nil && !slices.Equal(first, c.first) {
			t.Errorf("%v: first round moves %v, want %v", c.sizes, first, c.first)
		}
		rounds := 0
		for round(c.st, s) > 0 && rounds < 50 {
			rounds++
		}
		if !slices.Equal(sizes(s), c.after) || rounds != c.rounds {
			t.Errorf("%v: ends at %v after %d rounds, want %v after %d", c.sizes, sizes(s), rounds, c.after, c.rounds)
		}
	}
}

func TestLeastShardsConverges(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		n := make([]int, 1+r.IntN(100))
		for j := range n {
			// A few cases are as large as they may get.
			n[j] = r.IntN(1 + r.IntN(100*(1+i%10)))
		}
		s := sized(n...)
		total, surplus := s.Shards, 0
		for _, k := range n {
			surplus += max(0, k-total/len(n))
		}
		st := LeastShards{AbsoluteLimit: 1 << 20, RelativeLimit: 1}
		rounds, moved := 0, 0
		for {
			k := round(st, s)
			if k == 0 {
				break
			}
			if rounds, moved = rounds+1, moved+k; rounds > 3 {
				t.Fatalf("%v: still moving after %d rounds: %v", n, rounds, sizes(s))
			}
		}
		sum := 0
		for _, k := range sizes(s) {
			sum += k
		}
		if spread(s) > 1 || sum != total || moved > surplus {
			t.Fatalf("%v: ends at %v, %d of %d shards, %d moves of the %d above the average", n, sizes(s), sum, total, moved, surplus)
		}
	}
}

// Scenario A9.
func TestNothingMovesAtABadTime(t *testing.T) {
	for _, st := range []Strategy{LeastShards{}, LeastShards{SpreadZones: true}, Weighted{}, Weighted{SpreadZones: true}, &ConsistentHashing{}} {
		s := sized(9, 0, 0)
		s.Unsettled = "a member is joining"
		if m := st.Rebalance(s); m != nil {
			t.Errorf("%T moves %v while a member joins", st, m)
		}
		s.Unsettled, s.Moving = "", 1
		if m := st.Rebalance(s); m != nil {
			t.Errorf("%T moves %v while a round runs", st, m)
		}
		s.Moving = 0
		if len(st.Rebalance(s)) == 0 {
			t.Errorf("%T moves nothing at a good time either", st)
		}
	}
}

func TestSuitability(t *testing.T) {
	s := sized(5, 1, 2, 3)
	s.Regions[1].Leaving = true
	s.Regions[0].AppVersion, s.Regions[2].AppVersion, s.Regions[3].AppVersion = "1.10.0", "1.9.0", "1.10.0"
	if got := MostSuitable(s); got != 4 {
		t.Errorf("most suitable is %v, want 4: it stays, is new, and has few", got)
	}
	s.Regions[3].Silent = true
	if got := MostSuitable(s); got != 1 {
		t.Errorf("most suitable is %v, want 1: 4 is silent", got)
	}
	for i := range s.Regions {
		s.Regions[i].Leaving = true
	}
	if got := MostSuitable(s); got != 0 {
		t.Errorf("most suitable is %v among regions that all leave", got)
	}
}

// A region that leaves is no place: it must not make the others shift shards.
func TestLeavingRegionsAreNoPlaces(t *testing.T) {
	s := sized(4, 4, 0)
	s.Regions[2].Leaving = true
	if m := (LeastShards{}).Rebalance(s); len(m) > 0 {
		t.Errorf("moves %v towards a region that leaves", m)
	}
}

func TestCompareVersions(t *testing.T) {
	order := []string{"", "0", "0.9", "1", "1.0", "1.2", "1.2.1", "1.10", "2-a", "2-b", "10", "v1"}
	for i, a := range order {
		for j, b := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			if got := CompareVersions(a, b); got != want {
				t.Errorf("CompareVersions(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	if CompareVersions("1.02", "1.2") != 0 {
		t.Error("leading zeros count")
	}
}

// Scenario A7.
func TestConsistentHashingMovesLittle(t *testing.T) {
	const shards, n = 1000, 10
	homes := func(names int, skip int) map[ShardID]gossip.NodeID {
		h := &ConsistentHashing{}
		s := &State{Shards: shards}
		for i := range names {
			if i != skip {
				s.Regions = append(s.Regions, Region{Node: gossip.NodeID(i + 1), Name: fmt.Sprintf("node-%d", i)})
			}
		}
		out, load := map[ShardID]gossip.NodeID{}, map[gossip.NodeID]int{}
		for i := range ShardID(shards) {
			out[i] = h.Allocate(s, i, 0)
			load[out[i]]++
		}
		for node, k := range load {
			if k > shards*5/4/len(s.Regions)+1 {
				t.Errorf("%v has %d of %d shards, %d regions", node, k, shards, len(s.Regions))
			}
		}
		return out
	}
	before := homes(n, -1)
	for _, c := range []struct {
		what  string
		after map[ShardID]gossip.NodeID
		ideal int
	}{
		{"a join", homes(n+1, -1), shards / (n + 1)},
		{"a leave", homes(n, 3), shards / n},
	} {
		moved := 0
		for i, h := range before {
			if c.after[i] != h {
				moved++
			}
		}
		t.Logf("%s moves %d shards, the ideal is %d", c.what, moved, c.ideal)
		if moved < c.ideal/2 || moved > 2*c.ideal {
			t.Errorf("%s moves %d shards, about %d would do", c.what, moved, c.ideal)
		}
	}
}

func TestConsistentHashingRespectsItsLimit(t *testing.T) {
	h := &ConsistentHashing{Limit: 7}
	s := sized(100, 0, 0)
	rounds, moved := 0, 0
	for n := round(h, s); n > 0; n = round(h, s) {
		if rounds, moved = rounds+1, moved+n; n > h.Limit || rounds > 100 {
			t.Fatalf("round %d moves %d, the limit is %d", rounds, n, h.Limit)
		}
	}
	if most := 100 - len(s.Regions[0].Shards); moved != most || rounds != (most+h.Limit-1)/h.Limit || slices.Max(sizes(s)) > 42 {
		t.Errorf("%v after %d rounds with %d moves", sizes(s), rounds, moved)
	}
}

func TestConsistentHashingWithoutPlaces(t *testing.T) {
	h := &ConsistentHashing{}
	s := sized(3)
	s.Regions[0].Leaving = true
	if n := h.Allocate(s, 0, 0); n != 0 {
		t.Errorf("allocates to %v, which leaves", n)
	}
	if m := h.Rebalance(s); m != nil {
		t.Errorf("moves %v to nowhere", m)
	}
}

func ExampleLeastShards() {
	s := sized(5, 5, 0)
	fmt.Println((LeastShards{RelativeLimit: 0.5}).Rebalance(s))
	// Output: [0 5]
}
