package core

import (
	"testing"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// TestNewcomerNeedsEveryVoter: the voters of a newcomer's first view may still
// keep sets of views before it, which it knows nothing of; so a majority of them
// is not enough to have caught up.
func TestNewcomerNeedsEveryVoter(t *testing.T) {
	c := New(Config{Self: 4})
	v := &view.View{Cluster: 1, Epoch: view.FirstEpoch(1) + 6}
	for id, status := range []view.Status{view.Up, view.Up, view.Up, view.Joining} {
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: view.NodeID(id + 1)}, Status: status})
	}
	var fx Effects
	now := clock.Instant(1)
	c.Step(now, ViewChanged{View: v}, &fx)
	for id := view.NodeID(1); id <= 3; id++ {
		if c.hasCaughtUp() {
			t.Fatalf("caught up after %d of 3 voters", id-1)
		}
		c.Step(now, Received{From: id, Msg: &Status{Epoch: v.Epoch, Root: c.Digest()}}, &fx)
	}
	if !c.hasCaughtUp() {
		t.Error("not caught up with all voters")
	}
}

// TestNewcomerFollowsWhoHasCaughtUp: one replica that has caught up is enough.
func TestNewcomerFollowsWhoHasCaughtUp(t *testing.T) {
	c := New(Config{Self: 3})
	v := &view.View{Cluster: 1, Epoch: view.FirstEpoch(1) + 6}
	for id, status := range []view.Status{view.Up, view.Up, view.Joining} {
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: view.NodeID(id + 1)}, Status: status})
	}
	var fx Effects
	c.Step(1, ViewChanged{View: v}, &fx)
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: c.Digest()}}, &fx)
	if !c.hasCaughtUp() {
		t.Error("not caught up with one that has")
	}
}
