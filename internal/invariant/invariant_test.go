package invariant

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/protocol"
)

func viewOf(epoch gossip.Epoch, ids ...gossip.NodeID) *gossip.View {
	v := &gossip.View{Cluster: 1, Epoch: epoch}
	for _, id := range ids {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	return v
}

func want(t *testing.T, v *Violation, id string) {
	t.Helper()
	switch {
	case v == nil && id != "":
		t.Errorf("no violation, want %s", id)
	case v != nil && v.ID != id:
		t.Errorf("got %v, want %q", v, id)
	}
}

func TestMembership(t *testing.T) {
	m := NewMembership()
	want(t, m.Published(1, 1, viewOf(5, 1, 2, 3)), "")
	want(t, m.Published(1, 2, viewOf(5, 1, 2, 3)), "")
	want(t, m.Published(2, 2, viewOf(4, 1, 2)), "S6") // back in time
	want(t, m.Published(2, 3, viewOf(5, 1, 3)), "S6") // another view of the epoch
	want(t, m.Leased(3, 1, 100, true), "")
	want(t, m.Leased(3, 2, 100, true), "S6") // a second leader
	want(t, m.Leased(3, 2, 100, false), "")
	want(t, m.Published(50, 1, viewOf(6, 1, 3)), "S6") // 2 is out and holds a lease
	want(t, m.Published(101, 3, viewOf(7, 1, 3)), "")  // it has ended
	m.Gone(1)
	if m.Valid(50, 1) || m.Member(1) {
		t.Error("a process that has gone holds a lease")
	}
}

func TestPlainQuorum(t *testing.T) {
	v := viewOf(1, 1, 2, 3, 4)
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 5}, Status: gossip.Joining})
	for _, c := range []struct {
		ids  []gossip.NodeID
		want bool
	}{
		{[]gossip.NodeID{1, 2}, true}, {[]gossip.NodeID{2, 3}, false}, {[]gossip.NodeID{2, 3, 4}, true},
		{[]gossip.NodeID{2, 3, 5}, false}, {[]gossip.NodeID{1}, false},
	} {
		has := map[gossip.NodeID]bool{}
		for _, id := range c.ids {
			has[id] = true
		}
		if got := PlainQuorum(v, func(id gossip.NodeID) bool { return has[id] }); got != c.want {
			t.Errorf("%v: %v", c.ids, got)
		}
	}
}

func token(seq uint64) protocol.Token { return protocol.Token{Term: 1, Seq: seq} }

func TestHosting(t *testing.T) {
	m := NewMembership()
	want(t, m.Published(0, 1, viewOf(5, 1, 2)), "")
	want(t, m.Published(0, 2, viewOf(5, 1, 2)), "")
	want(t, m.Leased(0, 1, time.Second, false), "")
	want(t, m.Leased(0, 2, time.Second, false), "")
	h := NewHosting(m)
	want(t, h.Started(1, 1, 7, token(3), 0), "")
	want(t, h.Acts(2, 1, 7, token(3)), "")
	want(t, h.Acts(2, 2, 7, token(3)), "S1")             // it does not live there
	want(t, h.Acts(2*time.Second, 1, 7, token(3)), "S1") // without a lease
	want(t, h.Started(3, 2, 7, token(3), 0), "S7")       // one token, two owners
	want(t, h.Started(3, 2, 7, token(2), 0), "S7")       // a token that does not grow
	want(t, h.Started(3, 2, 7, token(4), 0), "S11")      // 1 has not stopped
	h.Stopped(1, 7)
	want(t, h.Started(4, 2, 7, token(5), 0), "")
	if live := h.Live(7); len(live) != 1 || live[0] != 2 {
		t.Errorf("live at %v", live)
	}
}

// TestAClusterFormedBesideALoneMember: nodes form a new cluster while a member of their
// former one, which they cannot reach, holds instances without a lease. Only a lease makes
// the two doubles.
func TestAClusterFormedBesideALoneMember(t *testing.T) {
	m := NewMembership()
	want(t, m.Published(0, 1, viewOf(5, 1, 2)), "")
	want(t, m.Leased(0, 1, time.Second, false), "")
	h := NewHosting(m)
	h.Apart(func(uint64) int { return 1 }, 0)
	want(t, h.Started(1, 1, 7, token(3), 0), "")
	formed := viewOf(50, 3, 4)
	formed.Cluster++
	want(t, m.Published(time.Minute, 3, formed), "")
	want(t, m.Published(time.Minute, 4, formed), "")
	want(t, h.Started(time.Minute, 3, 7, token(4), 0), "")
	want(t, h.Started(time.Minute, 4, 7, token(5), 0), "S11") // 3 has not stopped
	want(t, m.Leased(time.Minute, 3, time.Hour, false), "")
	want(t, m.Leased(time.Minute, 1, time.Hour, false), "")
	want(t, h.Resumed(time.Minute, 1), "S1")
}

// TestAContestEndsWithTheViewsThatRecordIt: cluster 1 meets cluster 2, which yields by a view
// that its node 4 never learns of. The contest is open while 1 records it or 2 yields, and is
// open no longer once 4 has taken over from the view before the contest.
func TestAContestEndsWithTheViewsThatRecordIt(t *testing.T) {
	m := NewMembership()
	publish := func(at time.Duration, by gossip.NodeID, v *gossip.View, cluster uint64, contests ...gossip.Contest) {
		v.Cluster, v.Foreign = cluster, contests
		want(t, m.Published(at, by, v), "")
	}
	open := func(at time.Duration, should bool) {
		t.Helper()
		if since, is := m.InContest(2, 1); is != should || is && since != time.Second {
			t.Errorf("after %v: open %v since %v, want %v since a second", at, is, since, should)
		}
	}
	publish(0, 1, viewOf(5, 1, 2), 1)
	publish(0, 4, viewOf(3, 3, 4), 2)
	open(0, false)
	publish(time.Second, 1, viewOf(6, 1, 2), 1, gossip.Contest{Cluster: 2, Verdict: gossip.VerdictStands})
	open(time.Second, true)
	publish(2*time.Second, 3, viewOf(4, 3, 4), 2, gossip.Contest{Cluster: 1, Verdict: gossip.VerdictYields})
	publish(3*time.Second, 1, viewOf(7, 1, 2), 1)
	open(3*time.Second, true)
	publish(4*time.Second, 4, viewOf(50, 4), 2)
	open(4*time.Second, false)
}

// TestTokensOfAClusterThatWasLeft: a node of cluster 2 joins cluster 1. If 2 has yielded, all its
// tokens bind 1; if it lives on, those of the generations that the node met do.
func TestTokensOfAClusterThatWasLeft(t *testing.T) {
	low, high := protocol.Token{Term: gossip.FirstEpoch(10)}, protocol.Token{Term: gossip.FirstEpoch(30)}
	for _, yields := range []bool{false, true} {
		m := NewMembership()
		h := NewHosting(m)
		h.Apart(func(cluster uint64) int { return int(cluster) }, 0)
		other := viewOf(gossip.FirstEpoch(30), 2)
		other.Cluster = 2
		if yields {
			other.Foreign = []gossip.Contest{{Cluster: 1, Verdict: gossip.VerdictYields}}
		}
		want(t, m.Published(0, 2, other), "")
		want(t, h.Started(0, 2, 7, low, 0), "")
		want(t, h.Started(0, 2, 8, high, 0), "")
		own := viewOf(gossip.FirstEpoch(20), 1)
		want(t, m.Published(0, 1, own), "")
		h.Absorbed(own, 2, 10)
		want(t, h.Started(0, 1, 7, protocol.Token{Term: gossip.FirstEpoch(9)}, own.Epoch), "S7")
		want(t, h.Started(0, 1, 8, protocol.Token{Term: gossip.FirstEpoch(20)}, own.Epoch), map[bool]string{true: "S7"}[yields])
	}
}

func TestTwoThatActAtOnce(t *testing.T) {
	m := NewMembership()
	// Node 1 was left out wrongly and still holds a lease: S6 forbids that, and S1
	// detects it too.
	m.Published(0, 1, viewOf(5, 1, 2))
	m.Leased(0, 1, time.Second, false)
	h := NewHosting(m)
	want(t, h.Started(1, 1, 7, token(1), 0), "")
	m.Published(2, 2, viewOf(6, 2))
	m.Leased(2, 2, time.Second, false)
	want(t, h.Started(3, 2, 7, token(2), 0), "S1")
}

func TestMessages(t *testing.T) {
	m := NewMessages()
	want(t, m.Processed(1, 1, 9, 0, 1), "")
	want(t, m.Processed(2, 1, 9, 0, 4), "") // gaps are possible
	want(t, m.Processed(3, 2, 9, 0, 4), "S2")
	want(t, m.Processed(4, 2, 9, 0, 3), "S3")
	want(t, m.Processed(5, 2, 9, 1, 1), "") // another entity
}

func TestDurable(t *testing.T) {
	var d Durable
	d.Acked("x", nil, []gossip.NodeID{1, 2, 3})
	begun := d.Begin()
	d.Acked("later", nil, []gossip.NodeID{1, 2, 3})
	none := func(string) bool { return false }
	lost := func(ids ...gossip.NodeID) func(gossip.NodeID) bool {
		return func(id gossip.NodeID) bool {
			for _, l := range ids {
				if l == id {
					return false
				}
			}
			return true
		}
	}
	want(t, d.Read(1, begun, func(w string) bool { return w == "x" }, lost()), "")
	want(t, d.Read(1, begun, none, lost(1)), "S4")
	want(t, d.Read(1, begun, none, lost(1, 2)), "") // more than a majority covers
	want(t, d.Read(1, 0, none, lost()), "")         // it began before
}

// A durable word may be missing if a majority of its voters have set their files aside with it.
func TestDurableWordsThatWereSetAside(t *testing.T) {
	for voters, majority := range map[gossip.NodeID]gossip.NodeID{1: 1, 2: 2, 3: 2, 4: 3, 5: 3} {
		var d Durable
		var ids []gossip.NodeID
		for id := gossip.NodeID(1); id <= voters; id++ {
			ids = append(ids, id)
		}
		d.Acked("x", nil, ids)
		for n := range voters + 1 {
			missing := ""
			if n < majority {
				missing = "S4"
			}
			aside := func(id gossip.NodeID, word string) bool { return id <= n && word == "x" }
			want(t, d.Missing(1, func(string) bool { return false }, aside), missing)
			want(t, d.Missing(1, func(string) bool { return true }, aside), "")
		}
	}
}
