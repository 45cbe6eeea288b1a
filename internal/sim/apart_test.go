package sim

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// TestClustersThatCanNeverYield checks that a cluster never yields to one that cannot show as many members
// as it had in an earlier contest.
func TestClustersThatCanNeverYield(t *testing.T) {
	view := func(cluster uint64, size int, members ...gossip.Status) *gossip.View {
		v := &gossip.View{Cluster: cluster, Standing: gossip.Standing{Size: size, Peak: 2, Birth: gossip.Epoch(cluster)}}
		for i, s := range members {
			v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(10*cluster) + gossip.NodeID(i)}, Status: s})
		}
		return v
	}
	const up, joining = gossip.Up, gossip.Joining
	for name, c := range map[string]struct {
		own, other *gossip.View
		want       bool
	}{
		"the other was larger":          {view(2, 2, up, up), view(1, 2, up), true},
		"a joiner confirms nothing":     {view(2, 2, up, up), view(1, 2, up, joining), true},
		"the other has as many":         {view(2, 2, up, up), view(1, 2, up, up), false},
		"one voter needs one":           {view(2, 2, up, joining), view(1, 2, up), false},
		"the other was never larger":    {view(2, 0, up, up), view(1, 1, up), false},
		"the own standing is higher":    {view(2, 3, up, up), view(1, 2, up), false},
		"the same cluster":              {view(1, 2, up, up), view(1, 2, up), false},
		"a node outside of any cluster": {nil, view(1, 2, up), false},
		"no other cluster":              {view(2, 2, up, up), nil, false},
	} {
		if got := cannotYield(c.own, c.other); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
