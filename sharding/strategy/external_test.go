package strategy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// Scenario A8: a move, a target that is no member, a target that appears later.
func TestExternalFollowsTheApplication(t *testing.T) {
	s := sized(3, 1)
	s.Wanted = map[ShardID]string{0: "n02", 1: "n03", 3: "n02"}
	if moves := (External{}).Rebalance(s); !slices.Equal(moves, []ShardID{0}) {
		t.Errorf("moves %v, want shard 0 to n02; n03 is no member", moves)
	}
	for _, c := range []struct {
		shard     ShardID
		requester uint64
		want      uint64
		why       string
	}{
		{0, 1, 2, "it is wanted there"},
		{1, 1, 1, "its target is no member, 1 asks"},
		{2, 1, 1, "nobody placed it, 1 asks"},
		{2, 0, 2, "nobody asks, 2 has fewest"},
		{2, 9, 2, "the asker is no region, 2 has fewest"},
	} {
		if got := (External{}).Allocate(s, c.shard, gossip.NodeID(c.requester)); got != gossip.NodeID(c.want) {
			t.Errorf("shard %v goes to %v, want %v: %s", c.shard, got, c.want, c.why)
		}
	}
	s.Regions = append(s.Regions, Region{Node: 3, Name: "n03"})
	if round(External{}, s); !slices.Equal(sizes(s), []int{1, 2, 1}) {
		t.Errorf("n03 is here, and the sizes are %v", sizes(s))
	}
	if moves := (External{}).Rebalance(s); len(moves) > 0 {
		t.Errorf("all is in place, and %v move", moves)
	}
	s.Regions[2].Leaving = true
	if got := (External{}).Allocate(s, 1, 0); got == 3 {
		t.Error("goes to a region that leaves")
	}
}

func TestExternalRespectsItsLimit(t *testing.T) {
	s := sized(9, 0)
	s.Wanted = map[ShardID]string{}
	for i := range ShardID(9) {
		s.Wanted[i] = "n02"
	}
	rounds := 0
	for n := round(External{Limit: 4}, s); n > 0; n = round(External{Limit: 4}, s) {
		if rounds++; n > 4 {
			t.Errorf("%d moves in one round", n)
		}
	}
	if rounds != 3 || len(s.Regions[1].Shards) != 9 {
		t.Errorf("%v after %d rounds", sizes(s), rounds)
	}
}

func ExampleExternal() {
	s := sized(2, 2)
	s.Wanted = map[ShardID]string{1: "n02"}
	fmt.Println(External{}.Rebalance(s), External{}.Allocate(s, 1, 0))
	// Output: [1] 0000000000000002
}
