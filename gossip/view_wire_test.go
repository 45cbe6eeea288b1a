package gossip

import "testing"

func TestWireVersionsOfAView(t *testing.T) {
	member := func(oldest, newest uint16) Member { return Member{Node: Node{WireOldest: oldest, WireNewest: newest}} }
	for name, c := range map[string]struct {
		view           *View
		oldest, newest uint16
	}{
		"no view":     {nil, 0, 0},
		"no members":  {&View{}, 0, 0},
		"one":         {&View{Members: []Member{member(3, 5)}}, 3, 5},
		"mixed":       {&View{Members: []Member{member(3, 5), member(4, 6), member(3, 4)}}, 4, 4},
		"not in step": {&View{Members: []Member{member(3, 4), member(5, 6)}}, 5, 4},
	} {
		if oldest, newest := c.view.WireVersions(); oldest != c.oldest || newest != c.newest {
			t.Errorf("%s: %d to %d", name, oldest, newest)
		}
	}
}
