package invariant

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

// takenOver returns a view that an emergency takeover opens behind base.
func takenOver(base *gossip.View, by gossip.NodeID, ids ...gossip.NodeID) *gossip.View {
	v := viewOf(gossip.TakeoverEpoch(base.Epoch.Generation()+1), ids...)
	v.Forks = append(append(v.Forks, base.Forks...), gossip.Fork{From: base.Epoch, To: v.Epoch, Kept: len(ids), By: by})
	return v
}

// parted returns the facts of a cluster of four that wrong evidence has parted into two
// lineages of equal epochs, with leases for all.
func parted(t *testing.T) (m *Membership, base, left, right *gossip.View) {
	t.Helper()
	m = NewMembership()
	m.ExpectLineages(time.Second)
	base = viewOf(5, 1, 2, 3, 4)
	left, right = takenOver(base, 1, 1, 2), takenOver(base, 3, 3, 4)
	for id := gossip.NodeID(1); id <= 4; id++ {
		want(t, m.Published(0, id, base), "")
		want(t, m.Leased(0, id, time.Hour, id == 1), "")
	}
	for id, v := range map[gossip.NodeID]*gossip.View{1: left, 2: left, 3: right, 4: right} {
		want(t, m.Published(1, id, v), "")
	}
	return m, base, left, right
}

func TestEachLineageHasOneViewPerEpoch(t *testing.T) {
	m, base, left, _ := parted(t)
	other := takenOver(base, 1, 1, 2)
	other.Members = other.Members[:1]
	want(t, m.Published(2, 5, other), "S6")
	want(t, m.Published(2, 1, base), "S6")
	want(t, m.Leased(2, 3, time.Hour, true), "") // two leaders, in two lineages
	if m.Lineage(1) != m.Lineage(2) || m.Lineage(1) == m.Lineage(3) || m.LineageOf(left) != m.Lineage(1) {
		t.Error("lineages are confused")
	}
	if !m.MemberBeside(1, 2) || m.MemberBeside(1, 3) {
		t.Error("a node is a member of the lineage of another")
	}
}

func TestALeaseEndsSoonAfterARemoval(t *testing.T) {
	m, _, left, _ := parted(t)
	next := viewOf(left.Epoch+1, 1)
	next.Forks = left.Forks
	want(t, m.Leased(2, 2, 1500*time.Millisecond, false), "")
	want(t, m.Published(time.Second, 1, next), "")
	want(t, m.Leased(time.Second, 2, 2*time.Second, false), "")
	want(t, m.Leased(1100*time.Millisecond, 2, 2*time.Second+1, false), "S6")
	// The clock stood still for ten seconds, of which the removal knew nothing.
	outlives, b := m.Thawed(11*time.Second, time.Second, 2, 12*time.Second)
	want(t, b, "")
	if !outlives || !m.Valid(11*time.Second, 2) {
		t.Error("the lease does not outlive the removal")
	}
	want(t, m.Leased(11*time.Second, 2, 12*time.Second+1, false), "S6")
}

func TestMembersOfALineageDoNotActTogether(t *testing.T) {
	m, _, left, _ := parted(t)
	h := NewHosting(m)
	want(t, h.Started(2, 1, 7, token(3), 0), "")
	want(t, h.Started(2, 3, 7, token(3), 0), "") // as the other lineage's coordinator decides
	want(t, h.Acts(2, 1, 7, token(3)), "")
	want(t, h.Acts(2, 3, 7, token(3)), "")
	want(t, h.Started(3, 2, 7, token(3), 0), "S7")  // one token, two owners
	want(t, h.Started(3, 2, 7, token(2), 0), "S7")  // a token that does not grow
	want(t, h.Started(3, 2, 7, token(4), 0), "S11") // 1 has not stopped
	if !h.WasStarted(7, token(3)) || h.WasStarted(7, token(9)) {
		t.Error("a token was started, or was not")
	}
	h.Stopped(1, 7)
	want(t, h.Started(3, 2, 7, token(5), 0), "")
	// 2 is removed with a lease: that it acts beside the next home is documented.
	next := viewOf(left.Epoch+1, 1)
	next.Forks = left.Forks
	want(t, m.Leased(3, 2, time.Second, false), "")
	want(t, m.Published(4, 1, next), "")
	want(t, h.Started(4, 1, 7, token(6), 0), "")
	want(t, h.Acts(5, 2, 7, token(5)), "")
	want(t, h.Acts(2*time.Second, 2, 7, token(5)), "S1") // without a lease it must not
	h.shards[protocol.ShardID(7)].live = append(h.shards[7].live, instance{1, token(1)})
	want(t, h.Acts(5, 1, 7, token(6)), "S1") // twice at one member
}

func TestMessagesRunOnceInAllLineages(t *testing.T) {
	m := NewMessages()
	m.ExpectLineages()
	want(t, m.Processed(1, 1, 9, 0, 1), "")
	want(t, m.Processed(2, 1, 9, 0, 4), "")
	want(t, m.Processed(3, 2, 9, 0, 3), "") // late, at the home of another lineage
	want(t, m.Processed(3, 2, 9, 0, 4), "S2")
	want(t, m.Processed(3, 2, 9, 0, 1), "S2")
	want(t, m.Processed(4, 1, 9, 0, 2), "S3")
}

func TestStatesOfLineagesAreKnown(t *testing.T) {
	s := NewStates()
	s.ExpectLineages()
	first := s.Handled(3, 0, 1)
	s.Handled(3, first, 2)
	_, b := s.Started(1, 3, first)
	want(t, b, "")
	_, b = s.Started(1, 3, first+1)
	want(t, b, "G9")
}

// TestReadsOfALineage: a read must have the words of its lineage and of the views before it, and
// none of the other lineage.
func TestReadsOfALineage(t *testing.T) {
	_, base, left, right := parted(t)
	var d Durable
	d.Acked("base", base, []gossip.NodeID{1, 2, 3})
	d.Acked("left", left, []gossip.NodeID{1, 2})
	none, all := func(string) bool { return false }, func(gossip.NodeID) bool { return true }
	want(t, d.ReadIn(1, 1, right, none, all), "S4")
	base.Epoch++
	d = Durable{}
	d.Acked("late", base, []gossip.NodeID{1, 2, 3}) // in a view after the one that parted
	d.Acked("left", left, []gossip.NodeID{1, 2})
	want(t, d.ReadIn(1, 2, right, none, all), "")
	want(t, d.ReadIn(1, 2, left, none, all), "S4")
	want(t, d.ReadIn(1, 2, left, none, func(id gossip.NodeID) bool { return id > 2 }), "") // all lost
}
