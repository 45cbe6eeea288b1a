package replication

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/replicator"
)

// TestNewcomerNeedsEveryVoter: the voters of a newcomer's first view may still
// keep sets of views before it, which it knows nothing of; so a majority of them
// is not enough to have caught up.
func TestNewcomerNeedsEveryVoter(t *testing.T) {
	c := New(Config{Self: 4})
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6}
	for id, status := range []gossip.Status{gossip.Up, gossip.Up, gossip.Up, gossip.Joining} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id + 1)}, Status: status})
	}
	var fx Effects
	now := clock.Instant(1)
	c.Step(now, ViewChanged{View: v}, &fx)
	for id := gossip.NodeID(1); id <= 3; id++ {
		if c.members.hasCaughtUp() {
			t.Fatalf("caught up after %d of 3 voters", id-1)
		}
		c.Step(now, Received{From: id, Msg: &Status{Epoch: v.Epoch, Root: c.Digest()}}, &fx)
	}
	if !c.members.hasCaughtUp() {
		t.Error("not caught up with all voters")
	}
}

// TestNewcomerFollowsWhoHasCaughtUp: one replica that has caught up is enough.
func TestNewcomerFollowsWhoHasCaughtUp(t *testing.T) {
	c := New(Config{Self: 3})
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6}
	for id, status := range []gossip.Status{gossip.Up, gossip.Up, gossip.Joining} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id + 1)}, Status: status})
	}
	var fx Effects
	c.Step(1, ViewChanged{View: v}, &fx)
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: c.Digest()}}, &fx)
	if !c.members.hasCaughtUp() {
		t.Error("not caught up with one that has")
	}
}

// peerThatCatchesUpLater: a newcomer exchanges states with 2, which has not caught up. Then
// 2 receives a value from 1 and reports that it has caught up. The exchange did not hold
// that value, so the report counts only from the next exchange on.
func peerThatCatchesUpLater(_ *testing.T) string {
	c := New(Config{Self: 4})
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6}
	for id := gossip.NodeID(1); id <= 4; id++ {
		v.Members = append(v.Members, member(id, gossip.Up))
	}
	var fx Effects
	c.Step(1, ViewChanged{View: v}, &fx)
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: v.Epoch, Root: c.Digest()}}, &fx)
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: 99, Keys: 1}}, &fx)
	if c.members.caughtUp == v.Epoch {
		return "caught up by a report after the exchange"
	}
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: c.Digest()}}, &fx)
	if c.members.caughtUp != v.Epoch {
		return "not caught up by the exchange after the report"
	}
	return ""
}

// TestSettledWithoutItIsNotCaughtUp: that the voters have caught up ends a newcomer's
// kept sets, and says nothing about what it holds itself.
func TestSettledWithoutItIsNotCaughtUp(t *testing.T) {
	c := New(Config{Self: 4})
	v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6}
	for id, status := range []gossip.Status{gossip.Up, gossip.Up, gossip.Up, gossip.Joining} {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(id + 1)}, Status: status})
	}
	var fx Effects
	c.Step(1, ViewChanged{View: v}, &fx)
	for id := gossip.NodeID(1); id <= 3; id++ {
		c.Step(1, Received{From: id, Msg: &Status{Epoch: v.Epoch, CaughtUp: v.Epoch, Root: 99, Keys: 7}}, &fx)
	}
	if len(c.members.former) > 0 || c.members.caughtUp == v.Epoch {
		t.Fatalf("kept sets %v, caught up with %v: it holds nothing", c.members.former, c.members.caughtUp)
	}
	// A view with the same voters changes nothing about that.
	next := *v
	next.Epoch++
	c.Step(1, ViewChanged{View: &next}, &fx)
	if c.members.caughtUp == next.Epoch {
		t.Fatal("caught up by a new view")
	}
	c.Step(1, Received{From: 2, Msg: &Status{Epoch: next.Epoch, CaughtUp: next.Epoch, Root: c.Digest()}}, &fx)
	if c.members.caughtUp != next.Epoch {
		t.Error("not caught up with one that has")
	}
}

// TestNewcomerOfManyVoters: a newcomer catches up with any number of voters, and
// with no fewer than all, when none of them has caught up itself.
func TestNewcomerOfManyVoters(t *testing.T) {
	for _, n := range []gossip.NodeID{15, 16, 17, 40, 200} {
		c := New(Config{Self: n + 1})
		v := &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1) + 6, Members: []gossip.Member{member(n+1, gossip.Joining)}}
		for id := gossip.NodeID(1); id <= n; id++ {
			v.Members = append(v.Members, member(id, gossip.Up))
		}
		var fx Effects
		c.Step(1, ViewChanged{View: v}, &fx)
		for id := gossip.NodeID(1); id <= n; id++ {
			if c.members.caughtUp == v.Epoch {
				t.Fatalf("caught up after %d of %d voters", id-1, n)
			}
			c.Step(1, Received{From: id, Msg: &Status{Epoch: v.Epoch, Root: c.Digest()}}, &fx)
			c.checkInvariants()
		}
		if c.members.caughtUp != v.Epoch {
			t.Errorf("not caught up with all of %d voters", n)
		}
	}
}

// A joiner of 20 voters that receive nothing from each other since one of them is gone: so
// none of them can catch up by itself. The joiner, which all of them reach, does; and
// then they can, with its help.
func TestJoinerOfManyUnsettledVoters(t *testing.T) {
	const n = 20
	w := newWorld(t, 1, n, nil)
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	w.settle(5 * time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a <= n && b <= n }
	w.crash(n)
	w.setView(w.next(remove(n)))
	w.run(time.Second)
	w.start(n + 1)
	w.setView(w.next(add(gossip.Joining, n+1)))
	for _, id := range w.order {
		if c := w.nodes[id].core; c.members.caughtUp == c.members.epoch {
			t.Fatalf("node %v has caught up: not the situation that this test is about", id)
		}
	}
	w.run(3 * time.Second)
	for _, id := range w.order {
		if c := w.nodes[id].core; c.members.caughtUp != c.members.epoch {
			t.Errorf("node %v never caught up, vector %v, former %v", id, c.stream.seenVector(), c.members.former)
		}
	}
	if r := w.reply(n+1, w.read(n+1, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Errorf("%v %v", r.Values, r.Err)
	}
}

// Views that change faster than anybody catches up drop no set that is kept: what was
// confirmed before the first of them is still waited for after the last.
func TestManyViewsInARowDropNoKeptSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 3, nil)
	w.cut = func(a, b gossip.NodeID) bool { return a == 3 || b == 3 }
	if r := w.reply(1, w.update(1, majority, replicator.Fence{}, addTo(1, "k", "e"))); r.Err != nil {
		t.Fatal(r.Err)
	}
	// Node 3 sees many voters come, and receives from all of them, but not from 1 and 2.
	w.cut = func(a, b gossip.NodeID) bool { return (a <= 2) != (b <= 2) }
	for id := gossip.NodeID(4); id < 4+2*formerMax; id++ {
		w.start(id)
		w.setView(w.next(add(gossip.Up, id)))
		w.run(time.Millisecond)
	}
	w.run(time.Second)
	for _, id := range w.order {
		w.nodes[id].core.checkInvariants()
	}
	if r := w.reply(3, w.read(3, majority, replicator.Fence{}, "k")); r.Err == nil {
		t.Fatalf("a majority read without an answer of a replica that may have the write returned %v", elements(r.Values[0]))
	}
	w.cut = nil
	if r := w.reply(3, w.read(3, majority, replicator.Fence{}, "k")); r.Err != nil || len(elements(r.Values[0])) != 1 {
		t.Errorf("%v %v", r.Values, r.Err)
	}
	w.run(3 * time.Second)
	if !w.nodes[3].core.Stats().Settled {
		t.Error("never settled")
	}
}

// TestLostTellsWhenConfirmedValuesMayBeGone checks that a view in which a majority of the voters of a
// view before is absent, which had not settled, is noted: what they confirmed may have left with them.
func TestLostTellsWhenConfirmedValuesMayBeGone(t *testing.T) {
	for _, c := range []struct {
		views [][]gossip.NodeID
		lost  int // the number of the view, 0 for none
	}{
		{[][]gossip.NodeID{ids(1, 2, 3)}, 0},
		{[][]gossip.NodeID{ids(1, 2)}, 1},
		{[][]gossip.NodeID{ids(1, 2, 3), ids(1, 2)}, 2},
		{[][]gossip.NodeID{ids(1, 2, 3, 4, 5, 6), ids(1, 2, 3, 6), ids(1, 6)}, 3},
		{[][]gossip.NodeID{ids(1, 2), ids(1, 2, 6)}, 2},
	} {
		s := newSingle(t, 5, nil)
		first := s.members.epoch
		for i, members := range c.views {
			v := &gossip.View{Cluster: 1, Epoch: first + gossip.Epoch(i) + 1}
			for _, id := range members {
				v.Members = append(v.Members, member(id, gossip.Up))
			}
			s.do(ViewChanged{View: v})
		}
		want := gossip.Epoch(0)
		if c.lost > 0 {
			want = first + gossip.Epoch(c.lost)
		}
		if got := s.Lost(); got != want {
			t.Errorf("views %v: lost at %v, want %v", c.views, got, want)
		}
	}
}

// TestANewcomerInheritsWhatWasLost checks that a replica learns from a peer's Status, and from its answer
// to a read, before which view values may be gone, and never forgets a later view.
func TestANewcomerInheritsWhatWasLost(t *testing.T) {
	for name, m := range map[string]Message{"Status": &Status{Lost: 7}, "answer": &ReadResult{Lost: 7}} {
		for had, want := range map[gossip.Epoch]gossip.Epoch{0: 7, 6: 7, 9: 9} {
			s := newSingle(t, 2, nil)
			s.members.lost = had
			if s.receive(2, m); s.Lost() != want {
				t.Errorf("%s: lost at %v after %v, want %v", name, s.Lost(), had, want)
			}
		}
	}
	s := newSingle(t, 2, nil)
	s.members.lost = 7
	if got := sentTo[*ReadResult](s.receive(2, &ReadRequest{ID: 1}), 2); len(got) != 1 || got[0].Lost != 7 {
		t.Errorf("answers %+v", got)
	}
	ahead := &Status{Epoch: s.members.epoch, Floor: s.barrier.floor + 1, Reply: true}
	if got := sentTo[*Status](s.receive(2, ahead), 2); len(got) == 0 || slices.ContainsFunc(got, func(m *Status) bool { return m.Lost != 7 }) {
		t.Errorf("sends %+v", got)
	}
}
