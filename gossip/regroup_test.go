package gossip

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/view"
	"github.com/peerage-go/peerage/internal/clock"
)

// internal/sim found both (seeds 1997 and 5537 at that time).

func standingIn(members ...view.Member) (*forming, *view.View) {
	cfg := Config{}.withDefaults()
	self := view.Node{ID: 1, Name: "a", Addr: "10.0.0.1:1"}
	f := newForming(self, &cfg, func() time.Time { return time.Unix(7, 0) })
	v := &view.View{Cluster: 9, Epoch: view.FirstEpoch(8), Members: members}
	return f, v
}

func TestLineagesOfEqualEpochsMeet(t *testing.T) {
	f, v := standingIn(view.Member{Node: view.Node{ID: 1}, Status: view.Up})
	now := clock.Instant(1)
	var a actions
	f.onView(now, v, &a)
	f.onLease(now, true)
	other := view.Node{ID: 2, Name: "b", Addr: "10.0.0.2:1"}
	f.onContact(now, other.ID, &contact{From: other, Cluster: 9, Epoch: v.Epoch, Live: true, Members: []view.Node{other}}, &a)
	if len(a.show) != 1 || a.show[0] != other.ID {
		t.Errorf("views shown to %v, want to %v", a.show, other.ID)
	}
}

func TestAJoinerOfALostClusterIsDrawnIn(t *testing.T) {
	f, v := standingIn(view.Member{Node: view.Node{ID: 5}, Status: view.Up}, view.Member{Node: view.Node{ID: 1}, Status: view.Joining})
	now := clock.Instant(1)
	var a actions
	f.onView(now, v, &a)
	other := view.Node{ID: 2, Name: "b", Addr: "10.0.0.2:1"}
	live := &contact{From: other, Cluster: 10, Epoch: view.FirstEpoch(9), Live: true, Members: []view.Node{other}}
	f.onContact(now, other.ID, live, &a)
	if a.over != "" {
		t.Fatalf("over at once: %s", a.over)
	}
	f.onContact(now.Add(time.Minute), other.ID, live, &a)
	if a.over == "" {
		t.Error("a joiner whose cluster is lost stays out of the live one for ever")
	}
}
