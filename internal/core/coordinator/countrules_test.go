package coordinator

import (
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// TestMembersThatAreUpAreCounted checks that only members that are up count for the minimum of all.
func TestMembersThatAreUpAreCounted(t *testing.T) {
	view := &gossip.View{}
	for _, s := range []gossip.Status{gossip.Up, gossip.Joining, gossip.Up, gossip.Leaving, gossip.Up} {
		view.Members = append(view.Members, gossip.Member{Status: s})
	}
	ch := chooser{env: &env{view: view}}
	if n := ch.membersUp(); n != 3 {
		t.Errorf("%d members are up, want 3", n)
	}
}
