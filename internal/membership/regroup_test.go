package membership

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// internal/sim found both (seeds 1997 and 5537 at that time).

func standingIn(members ...gossip.Member) (*forming, *gossip.View) {
	cfg := Config{}.withDefaults()
	self := gossip.Node{ID: 1, Name: "a", Addr: "10.0.0.1:1"}
	f := newForming(self, &cfg, func() time.Time { return time.Unix(7, 0) })
	v := &gossip.View{Cluster: 9, Epoch: gossip.FirstEpoch(8), Members: members}
	return f, v
}

func TestLineagesOfEqualEpochsMeet(t *testing.T) {
	f, v := standingIn(gossip.Member{Node: gossip.Node{ID: 1}, Status: gossip.Up})
	now := clock.Instant(1)
	var a actions
	f.onView(now, v, &a)
	f.onLease(now, true)
	other := gossip.Node{ID: 2, Name: "b", Addr: "10.0.0.2:1"}
	f.onContact(now, other.ID, &contact{From: other, Cluster: 9, Epoch: v.Epoch, Live: true, Members: []gossip.Node{other}}, &a)
	if len(a.show) != 1 || a.show[0] != other.ID {
		t.Errorf("views shown to %v, want to %v", a.show, other.ID)
	}
}

func TestAJoinerOfALostClusterIsDrawnIn(t *testing.T) {
	f, v := standingIn(gossip.Member{Node: gossip.Node{ID: 5}, Status: gossip.Up}, gossip.Member{Node: gossip.Node{ID: 1}, Status: gossip.Joining})
	now := clock.Instant(1)
	var a actions
	f.onView(now, v, &a)
	other := gossip.Node{ID: 2, Name: "b", Addr: "10.0.0.2:1"}
	live := &contact{From: other, Cluster: 10, Epoch: gossip.FirstEpoch(9), Live: true, Members: []gossip.Node{other}}
	f.onContact(now, other.ID, live, &a)
	if a.over != "" {
		t.Fatalf("over at once: %s", a.over)
	}
	f.onContact(now.Add(time.Minute), other.ID, live, &a)
	if a.over == "" {
		t.Error("a joiner whose cluster is lost stays out of the live one for ever")
	}
}
