package placement

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func TestGreetingsAreDueOncePerMember(t *testing.T) {
	var g greetings
	// Node 1 has the role.
	for _, c := range []struct {
		view *gossip.View
		want []gossip.NodeID
	}{
		{viewOf(1, 1, 2, 3), []gossip.NodeID{2, 3}},
		{viewOf(1, 1, 2, 3), nil},
		{viewOf(2, 1, 3, 4), []gossip.NodeID{4}},
		{viewOf(3, 1), nil},
		{viewOf(4, 1, 3), []gossip.NodeID{3}},
	} {
		if got := g.dueIn(c.view, "back"); !slices.Equal(got, c.want) {
			t.Errorf("view %v: due %v, want %v", c.view.Epoch, got, c.want)
		}
	}
}
