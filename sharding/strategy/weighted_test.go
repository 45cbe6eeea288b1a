package strategy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func weighted(capacities []uint32, n ...int) *State {
	s := sized(n...)
	for i, c := range capacities {
		s.Regions[i].Capacity = c
	}
	return s
}

func TestWeightedTables(t *testing.T) {
	for _, c := range []struct {
		capacities []uint32
		before     []int
		after      []int
	}{
		{[]uint32{1, 1, 2}, []int{100, 0, 0}, []int{25, 25, 50}},
		{[]uint32{100, 300}, []int{8, 0}, []int{2, 6}},
		{[]uint32{1, 9}, []int{1, 9}, []int{1, 9}},
		{[]uint32{1, 9}, []int{1, 0}, []int{0, 1}},
		{[]uint32{0, 0}, []int{3, 0}, []int{2, 1}},
	} {
		s := weighted(c.capacities, c.before...)
		rounds := 0
		for round(Weighted{RelativeLimit: 1}, s) > 0 && rounds < 50 {
			rounds++
		}
		if !slices.Equal(sizes(s), c.after) || rounds > 2 {
			t.Errorf("%v of capacities %v ends at %v after %d rounds, want %v", c.before, c.capacities, sizes(s), rounds, c.after)
		}
	}
}

// From every start, rebalancing ends with each region within one shard of its part, and
// each shard that a round moves starts on the region that the round chose.
func TestWeightedConverges(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		n := 1 + r.IntN(20)
		capacities, before := make([]uint32, n), make([]int, n)
		sum, total := 0, 0
		for i := range n {
			capacities[i], before[i] = 1+uint32(r.IntN(50)), r.IntN(100)
			sum, total = sum+int(capacities[i]), total+before[i]
		}
		s := weighted(capacities, before...)
		rounds := 0
		for round(Weighted{RelativeLimit: 1}, s) > 0 {
			if rounds++; rounds > 3 {
				t.Fatalf("%v of %v: still moving: %v", before, capacities, sizes(s))
			}
		}
		for i, k := range sizes(s) {
			if over := k*sum - total*int(capacities[i]); over > n*sum {
				t.Errorf("%v: region %d of capacity %d of %d has %d of %d shards", capacities, i, capacities[i], sum, k, total)
			}
		}
	}
}

func TestWeightedRespectsLimitVersionsAndTime(t *testing.T) {
	s := weighted([]uint32{1, 1, 8}, 40, 0, 0)
	if m := (Weighted{AbsoluteLimit: 3}).Rebalance(s); len(m) != 3 {
		t.Errorf("%d moves, the limit is 3", len(m))
	}
	s.Regions[1].AppVersion = "2"
	if got := (Weighted{}).Allocate(s, 0, 0); got != 2 {
		t.Errorf("goes to %v, 2 is the newest version", got)
	}
	s.Unsettled = "versions are mixed"
	if m := (Weighted{}).Rebalance(s); m != nil {
		t.Errorf("moves %v at a bad time", m)
	}
	s.Regions[1].Leaving, s.Regions[0].Leaving, s.Regions[2].Silent = true, true, true
	if got := (Weighted{}).Allocate(s, 0, 0); got != 0 {
		t.Errorf("goes to %v, and nobody can take it", got)
	}
}

func ExampleWeighted() {
	s := &State{Shards: 4, Regions: []Region{
		{Node: 1, Name: "small", Capacity: 1, Shards: []ShardID{0, 1, 2, 3}},
		{Node: 2, Name: "large", Capacity: 3},
	}}
	fmt.Println(Weighted{RelativeLimit: 1}.Rebalance(s))
	// Output: [0 1 2]
}
