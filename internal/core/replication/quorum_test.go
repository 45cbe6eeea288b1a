package replication

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/replicator"
)

func TestMajoritiesOfOneViewMeet(t *testing.T) {
	for n := 1; n <= 100; n++ {
		if need := replicator.Majority(0, 0).Need(n); 2*need <= n {
			t.Errorf("two sets of %d of %d need not meet", need, n)
		}
		if caught := settledBy(n); caught+majorityOf(n) <= n {
			t.Errorf("with %d of %d caught up, a majority may have none of them", caught, n)
		}
	}
}

func ids(n ...gossip.NodeID) []gossip.NodeID { return n }

func among(list ...gossip.NodeID) func(gossip.NodeID) bool {
	return func(id gossip.NodeID) bool { return slices.Contains(list, id) }
}

func sets(list ...[]gossip.NodeID) (out []kept) {
	for _, s := range list {
		out = append(out, kept{members: s})
	}
	return out
}

func TestJointQuorums(t *testing.T) {
	for _, c := range []struct {
		name    string
		voters  []gossip.NodeID
		former  []kept
		present []gossip.NodeID
		have    []gossip.NodeID
		met     bool
	}{
		{"a majority", ids(1, 2, 3), nil, ids(1, 2, 3), ids(1, 2), true},
		{"no majority", ids(1, 2, 3), nil, ids(1, 2, 3), ids(1), false},
		{"newcomers alone do not speak for the former view", ids(1, 2, 3, 4, 5), sets(ids(1, 2, 3)), ids(1, 2, 3, 4, 5), ids(3, 4, 5), false},
		{"newcomers with a former majority", ids(1, 2, 3, 4, 5), sets(ids(1, 2, 3)), ids(1, 2, 3, 4, 5), ids(2, 3, 4), true},
		{"two of five removed: all three that are left", ids(3, 4, 5), sets(ids(1, 2, 3, 4, 5)), ids(3, 4, 5), ids(3, 4), false},
		{"two of five removed: all three answer", ids(3, 4, 5), sets(ids(1, 2, 3, 4, 5)), ids(3, 4, 5), ids(3, 4, 5), true},
		{"the last survivor", ids(5), sets(ids(1, 2, 3, 4, 5)), ids(5), ids(5), true},
		{"one after another", ids(3, 4, 5), sets(ids(1, 2, 3, 4, 5), ids(2, 3, 4, 5)), ids(3, 4, 5), ids(4, 5), false},
		{"all of a set: one is missing", ids(1, 2, 3, 4, 5), []kept{{members: ids(1, 2, 3, 6), all: true}}, ids(1, 2, 3, 4, 5), ids(2, 3, 4, 5), false},
		{"all of a set: all that are left", ids(1, 2, 3, 4, 5), []kept{{members: ids(1, 2, 3, 6), all: true}}, ids(1, 2, 3, 4, 5), ids(1, 2, 3), true},
		{"a member that only joins does not count", ids(1, 2), sets(ids(1)), ids(1, 2, 3), ids(1, 3), false},
		{"no voters", nil, nil, ids(1, 2), ids(1, 2), false},
		{"no voters, and a former set", nil, sets(ids(1)), ids(1, 2), ids(1, 2), false},
	} {
		qs := jointQuorums(majority, c.voters, c.former, among(c.present...))
		if got := allMet(qs, among(c.have...)); got != c.met {
			t.Errorf("%s: met %t, want %t", c.name, got, c.met)
		}
	}
	if allMet(jointQuorums(replicator.All, nil, nil, among(1)), among(1)) {
		t.Error("all of no voters have answered")
	}
	if qs := jointQuorums(replicator.All, ids(1, 2), sets(ids(1, 2, 3)), among(1, 2, 3)); len(qs) != 1 {
		t.Error("only majorities are joint")
	}
}

func TestTargetsPreferLinkedThenSenior(t *testing.T) {
	q := []quorum{{members: ids(1, 2, 3, 4, 5), need: 3}}
	for _, c := range []struct {
		have, up, want []gossip.NodeID
	}{
		{ids(1), ids(2, 3, 4, 5), ids(2, 3)},
		{ids(4), ids(1, 2, 3, 5), ids(1, 2)},
		{ids(1), ids(4, 5), ids(4, 5)},
		{ids(1), ids(5), ids(5, 2)},
		{ids(1, 2, 3), ids(4, 5), nil},
	} {
		if got := targets(q, among(c.have...), among(c.up...)); !slices.Equal(got, c.want) {
			t.Errorf("have %v, up %v: %v, want %v", c.have, c.up, got, c.want)
		}
	}
	joint := []quorum{{members: ids(1, 2, 3, 4, 5), need: 3}, {members: ids(4, 5), need: 2}}
	if got := targets(joint, among(1), among(2, 3, 4, 5)); !slices.Equal(got, ids(2, 3, 4, 5)) {
		t.Errorf("joint: %v", got)
	}
}

func TestShortfallNamesWhoIsMissing(t *testing.T) {
	qs := []quorum{{members: ids(1, 2, 3), need: 2}, {members: ids(2, 3), need: 2}}
	e := shortfall(majority, qs, among(1, 2))
	if e.Need != 2 || e.Got != 2 || !slices.Equal(e.Missing, ids(3)) {
		t.Errorf("%+v", e)
	}
}

func TestTrackNeverClaimsMoreThanWasApplied(t *testing.T) {
	var tr track
	applied := map[uint64]bool{}
	for i, step := range [][2]uint64{{1, 2}, {5, 6}, {4, 4}, {9, 9}, {3, 3}, {7, 8}, {1, 9}, {12, 20}, {15, 16}, {10, 11}} {
		tr.addRange(step[0], step[1])
		for s := step[0]; s <= step[1]; s++ {
			applied[s] = true
		}
		for s := uint64(1); s <= tr.seen; s++ {
			if !applied[s] {
				t.Fatalf("step %d: claims %d: %+v", i, s, tr)
			}
		}
		for s := tr.lo; s != 0 && s <= tr.hi; s++ {
			if !applied[s] {
				t.Fatalf("step %d: claims %d: %+v", i, s, tr)
			}
		}
	}
	if tr.seen != 20 || tr.lo != 0 {
		t.Errorf("%+v", tr)
	}
}

// A member counts when the view says so and not sooner: one that is joining is fed, and
// neither needed nor asked.
func TestJoiningMembersDoNotCount(t *testing.T) {
	w := newWorld(t, 1, 3, nil)
	w.start(4)
	w.setView(w.next(add(gossip.Joining, 4)))
	w.run(2 * time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a == 4 || b == 4 }
	if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "k", "e"))); r.Err != nil {
		t.Errorf("all without the joining one: %v", r.Err)
	}
	var few *replicator.Error
	if r := w.reply(1, w.update(1, replicator.To(4), replicator.Fence{}, addTo(1, "k", "f"))); !errors.As(r.Err, &few) || few.Code != replicator.ErrTooFewMembers || few.Got != 3 {
		t.Errorf("four of three voters: %v", r.Err)
	}
	w.cut = nil
	w.settle(5 * time.Second)
	w.cut = func(a, b gossip.NodeID) bool { return a == 4 || b == 4 }
	w.setView(w.next(add(gossip.Up, 4)))
	var q *replicator.Error
	if r := w.reply(1, w.update(1, replicator.All, replicator.Fence{}, addTo(1, "k", "g"))); !errors.As(r.Err, &q) || q.Code != replicator.ErrOutcomeUnknown || !slices.Equal(q.Missing, ids(4)) || q.Need != 4 || q.Got != 3 {
		t.Errorf("all without one that is up: %v", r.Err)
	}
}
