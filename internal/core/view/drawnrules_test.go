package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// TestTheStateForOperators checks what a core reports of itself as a joiner, a member, a candidate
// and a leader.
func TestTheStateForOperators(t *testing.T) {
	joiner := New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, 1)
	if s := joiner.State(); s.Part != "joiner" || s.Epoch != 0 || s.Dead != nil {
		t.Errorf("a joiner reports %+v", s)
	}
	c := memberCore(3, 1, "uuu")
	c.evidence.onProof(ProvenDead{Subject: 2, Certain: true})
	c.acceptor.promised = Ballot{Round: 4, Node: 1}
	c.departure.leaving = true
	next := c.after(2)
	c.acceptor.storeAttempt(c.view.Epoch, &attempt{next: next})
	s := c.State()
	if s.Epoch != c.view.Epoch || s.Part != "member" || s.Leader != 1 || s.Attempt != next.Epoch || !s.Leaving {
		t.Errorf("a member reports %+v", s)
	}
	if !slices.Equal(s.Dead, []gossip.NodeID{2}) || s.Promised != c.acceptor.promised {
		t.Errorf("a member reports %v as dead, and promised %v", s.Dead, s.Promised)
	}
	c.campaign.candidacy = &candidacy{}
	if s := c.State(); s.Part != "candidate" || s.Epoch != c.view.Epoch {
		t.Errorf("a candidate reports %+v", s)
	}
	leader, _, _ := leading(3)
	leader.leadership.queueJoin(gossip.Node{ID: 8})
	leader.leadership.queueJoin(gossip.Node{ID: 9})
	leader.leadership.queueLeave(3)
	if s := leader.State(); s.Part != "leader" || s.Waiting != 3 || s.Attempt != 0 {
		t.Errorf("a leader reports %+v", s)
	}
}

// TestTheDeadDoNotKeepAPartAlive checks that a part survives by its living members alone, though a
// member answered before it died.
func TestTheDeadDoNotKeepAPartAlive(t *testing.T) {
	for dead, want := range map[gossip.NodeID]bool{2: false, 4: true} {
		q := quorumsOf("uuuu")
		q.cfg.Partition = gossip.StaticQuorum{N: 2}
		q.proveAt(3, 0, true)
		q.proveAt(4, 0, true)
		if q.proveAt(dead, 0, true); q.total(setOf(1, 2)) != want {
			t.Errorf("with %d dead, 1 and 2 are a total quorum: %v", dead, !want)
		}
	}
}

// TestALeaderWithoutAVoteIsNotCounted checks that a leader which does not vote in a view is no part of
// its quorums.
func TestALeaderWithoutAVoteIsNotCounted(t *testing.T) {
	for word, want := range map[string]uint64{"juu": 0, "uuu": 1} {
		p := &peer{now: true}
		o := &rounds{history: &history{env: envOf(1)}, peers: map[gossip.NodeID]*peer{3: p}}
		o.cfg.Partition = gossip.KeepMajority{}
		o.current = o.newTally(viewOf(word))
		o.beginRound()
		o.recordAnswer(3, p, 1)
		if got := o.current.newestAnswered(nil, o.round, 0); got != want {
			t.Errorf("%s: with the answer of 3, round %d has a quorum, want %d", word, got, want)
		}
	}
}

// TestALeaderIsNotedOnce checks that a leader to which several contacts have forwarded the request
// displaces no other one.
func TestALeaderIsNotedOnce(t *testing.T) {
	j := &joining{}
	for _, id := range []gossip.NodeID{3, 4, 3, 4, 4} {
		j.onPassed(id)
	}
	if !slices.Equal(j.passed, []gossip.NodeID{3, 4}) {
		t.Errorf("noted %v", j.passed)
	}
}

// TestOnlyALeaderThatMayRuleActsForItsCluster checks what the encounters with other clusters ask of the core:
// a member may not act, nor may a leader that is not free yet or has no lease.
func TestOnlyALeaderThatMayRuleActsForItsCluster(t *testing.T) {
	m := memberCore(3, 1, "uuu")
	if m.foreign.mayRule() || m.foreign.allHeard() {
		t.Error("a member acts for its cluster")
	}
	for name, c := range map[string]struct {
		change func(o *leadership)
		want   bool
	}{
		"free, with a lease": {func(*leadership) {}, true},
		"not free":           {func(o *leadership) { o.free = false }, false},
		"without a lease":    {func(o *leadership) { o.leaseUntil = 0 }, false},
	} {
		core, _, now := leading(3)
		core.now = now
		core.leadership.free, core.leadership.leaseUntil = true, now.Add(testLease)
		if c.change(core.leadership); core.foreign.mayRule() != c.want {
			t.Errorf("a leader that is %s acts for its cluster: %v", name, !c.want)
		}
	}
	core, ids, _ := leading(3)
	for _, epoch := range []gossip.Epoch{core.view.Epoch - 1, core.view.Epoch} {
		for _, id := range ids {
			core.leadership.peers[id].epoch = epoch
		}
		if got, want := core.foreign.allHeard(), epoch == core.view.Epoch; got != want {
			t.Errorf("all have acknowledged view %d of %d: %v", epoch, core.view.Epoch, got)
		}
	}
}
