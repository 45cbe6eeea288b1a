package strategy

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func TestSeniorKeepsToTheMostSenior(t *testing.T) {
	region := func(id int, shards ...ShardID) Region {
		return Region{Node: gossip.NodeID(id), Shards: shards}
	}
	silent := func(r Region) Region { r.Silent = true; return r }
	leaving := func(r Region) Region { r.Leaving = true; return r }
	for name, c := range map[string]struct {
		regions []Region
		home    int
		move    []ShardID
	}{
		"all in place":      {[]Region{region(1, 0, 1), region(2)}, 1, nil},
		"registered late":   {[]Region{region(1), region(2, 0, 1), region(3, 2)}, 1, []ShardID{0, 1, 2}},
		"the senior leaves": {[]Region{leaving(region(1, 0)), region(2), region(3, 1)}, 2, []ShardID{1}},
		"the senior is silent: nothing moves, new ones go to the heir": {[]Region{silent(region(1, 0)), region(2, 1)}, 2, nil},
		"not from a silent one": {[]Region{region(1), silent(region(2, 0)), region(3, 1)}, 1, []ShardID{1}},
		"nobody":                {nil, 0, nil},
	} {
		s := &State{Regions: c.regions, Shards: 3, Unsettled: "members join"}
		if got := (Senior{}).Allocate(s, 0, 0); got != gossip.NodeID(c.home) {
			t.Errorf("%s: allocated to %v, want %d", name, got, c.home)
		}
		if got := (Senior{}).Rebalance(s); !slices.Equal(got, c.move) {
			t.Errorf("%s: moves %v, want %v", name, got, c.move)
		}
	}
}
