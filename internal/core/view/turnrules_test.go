package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// TestAPrepareCountsOnlyInTheViewOfItsBase checks that a member which holds a newer view than a
// candidate sends it that view, and neither promises nor answers the pre-vote.
func TestAPrepareCountsOnlyInTheViewOfItsBase(t *testing.T) {
	ballot := Ballot{Round: 9, Node: 2}
	for _, make := range []func(base *SentView) Message{
		func(base *SentView) Message { return &Prepare{Ballot: ballot, Base: base} },
		func(base *SentView) Message { return &PreVote{Ballot: ballot, Base: base} },
	} {
		c := memberCore(3, 0, "uuu")
		old := c.view
		c.adopt0(c.after(), c.now)
		out := c.feed(2, make(Whole(old)))
		if to := receivers[*Decided](out); !slices.Equal(to, []gossip.NodeID{2}) || len(out.Send) != 1 || c.acceptor.promised != (Ballot{}) {
			t.Errorf("answers %T with %+v, promised %v", make(nil), out.Send, c.acceptor.promised)
		}
		out = c.feed(2, make(Whole(c.view)))
		if len(out.Send) != 1 || len(receivers[*Decided](out)) != 0 {
			t.Errorf("answers %T in its own view with %+v", make(nil), out.Send)
		}
	}
}

// TestAViewWithoutTheLeaderLeavesNoLeader checks that a member which learns that its leader was
// left out follows no leader from then on, and that any other view changes nothing.
func TestAViewWithoutTheLeaderLeavesNoLeader(t *testing.T) {
	c := memberCore(3, 1, "uuu")
	c.adopt0(c.after(2), c.now)
	if c.follower.leader != 1 || c.follower.leaderlessSince != c.now.Add(testLease) {
		t.Errorf("follows %v, without a leader from %v, though its leader stays", c.follower.leader, c.follower.leaderlessSince)
	}
	c.adopt0(c.after(1), c.now)
	if c.follower.leader != 0 || c.follower.leaderlessSince != c.now {
		t.Errorf("follows %v, without a leader from %v, now is %v", c.follower.leader, c.follower.leaderlessSince, c.now)
	}
}

// TestALeaderThatStepsDownPauses checks that a former leader stands again after a quarter of a
// ping interval at the earliest, and a whole one later at the latest.
func TestALeaderThatStepsDownPauses(t *testing.T) {
	spread := map[bool]int{}
	for seed := range uint64(64) {
		c, _, now := leading(3)
		c.rng, c.now, c.out = seed, now, &Effects{}
		c.stepDown("a test")
		pause := c.campaign.campaignAfter.Sub(now)
		if pause < testPing/4 || pause >= testPing/4+testPing {
			t.Errorf("seed %d: pauses %v", seed, pause)
		}
		spread[pause > testPing*3/4] = spread[pause > testPing*3/4] + 1
	}
	if len(spread) != 2 {
		t.Error("all pauses are alike")
	}
}

// TestALeaderWithoutAVoteHasNoLease checks that the leader lease is adopted by a voter that has
// not asked to be left out.
func TestALeaderWithoutAVoteHasNoLease(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *leaseHolder)
		want   bool
	}{
		"a voter":               {func(*leaseHolder) {}, true},
		"a joining member":      {func(h *leaseHolder) { h.status = gossip.Joining }, false},
		"asked to be left out":  {func(h *leaseHolder) { h.waiveLease() }, false},
		"a member that leaves":  {func(h *leaseHolder) { h.status = gossip.Leaving }, true},
		"its lease had expired": {func(h *leaseHolder) { h.now = h.now.Add(time.Hour) }, true},
	} {
		h := holderOf(1, "uu")
		c.change(h)
		h.adoptLeaderLease(h.now.Add(testLease), h.now)
		if h.lease.Leader != c.want || h.lease.Valid(h.now) != c.want {
			t.Errorf("%s: holds %+v", name, h.lease)
		}
	}
}

// TestJoinersWaitForTheirBatch checks that a change of the view for another reason admits no
// joiner before its batch is due.
func TestJoinersWaitForTheirBatch(t *testing.T) {
	o := leadershipOf("uuu")
	o.queueJoin(gossip.Node{ID: 8})
	o.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	o.undoubtedFor(t, 3)
	next := o.buildNext()
	if next == nil || next.Member(3) != nil || next.Member(8) != nil {
		t.Errorf("before the batch the next view is %+v", next)
	}
	o.now = o.batchAt
	if next = o.buildNext(); next == nil || next.Member(8) == nil {
		t.Errorf("at its time the batch gives %+v", next)
	}
}

// undoubtedFor makes the living members confirm a death.
func (o *leadership) undoubtedFor(t *testing.T, id gossip.NodeID) {
	o.doubts.undoubted(id)
	for i := range o.view.Members {
		o.doubts.recordAnswer(o.view.Members[i].ID, &Doubted{Ballot: o.ballot, Asked: []gossip.NodeID{id}})
	}
	if !o.doubts.undoubted(id) {
		t.Fatalf("the death of %v is doubted", id)
	}
}

// TestALeadersPrepareNamesItsDead checks that a leader's prepare names the members that are proven dead, by
// certain and by weak proofs: an acceptor without the proofs would keep its promise to one of them.
func TestALeadersPrepareNamesItsDead(t *testing.T) {
	o := leadershipOf("uuuu")
	o.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	o.evidence.onProof(ProvenDead{Subject: 4})
	o.accepts()
	o.free = false
	o.drivePreparation()
	var asked []gossip.NodeID
	for _, s := range o.out.Send {
		if m, ok := s.Msg.(*Prepare); ok {
			asked = append(asked, s.To)
			if !slices.Equal(m.Dead, []gossip.NodeID{3}) || !slices.Equal(m.Weak, []gossip.NodeID{4}) {
				t.Errorf("names %v as dead and %v by weak proofs", m.Dead, m.Weak)
			}
		}
	}
	if !slices.Equal(asked, []gossip.NodeID{2, 4}) {
		t.Errorf("asks %v", asked)
	}
}

// TestAnAttemptThatNeedsTheDeadEndsTheTerm checks that a leader whose own prepare uncovers an
// attempt which the living cannot commit, and which it cannot replace either, steps down for at
// least a lease, so that another candidate can try.
func TestAnAttemptThatNeedsTheDeadEndsTheTerm(t *testing.T) {
	o := leadershipOf("uuuuu")
	o.free = false
	o.acceptor.storeAttempt(o.view.Epoch, &attempt{ballot: Ballot{Round: 1, Node: 1}, next: o.after(2, 3)})
	o.evidence.onProof(ProvenDead{Subject: 4, Certain: true})
	o.evidence.onProof(ProvenDead{Subject: 5, Certain: true})
	o.holder.grantedAt = 0 // it may not take over
	if moved, r := o.drivePreparation(); moved || r != nil || o.prep == nil {
		t.Fatalf("without answers: moved %v, resigns %+v", moved, r)
	}
	for _, id := range []gossip.NodeID{2, 3} {
		o.recordPromise(id, &Promised{Ballot: o.ballot, Base: o.view.Epoch})
	}
	moved, r := o.drivePreparation()
	if !moved || r == nil || r.pause < testLease || o.proposal != nil || o.free {
		t.Errorf("moved %v, resigns %+v, proposes %+v", moved, r, o.proposal)
	}
}

// TestAProofRestartsACandidacy checks that a candidate which learns of another death begins its
// candidacy again, since it asked about the dead before.
func TestAProofRestartsACandidacy(t *testing.T) {
	c := memberCore(1, 0, "uuuuu")
	c.follower.leaderlessSince = c.now
	c.Step(c.now, Tick{}, &Effects{})
	if c.campaign.candidacy == nil {
		t.Fatal("the senior of a view without a leader is no candidate")
	}
	c.now++
	var out Effects
	c.Step(c.now, ProvenDead{Subject: 3, Certain: true}, &out)
	if c.campaign.candidacy == nil || c.campaign.candidacy.began != c.now {
		t.Errorf("its candidacy is %+v", c.campaign.candidacy)
	}
	for _, s := range out.Send {
		if m, ok := s.Msg.(*PreVote); !ok || !slices.Equal(m.Dead, []gossip.NodeID{3}) {
			t.Errorf("asks %v with %+v", s.To, s.Msg)
		}
	}
	if to := receivers[*PreVote](&out); !slices.Equal(to, []gossip.NodeID{2, 4, 5}) {
		t.Errorf("asks %v", to)
	}
}

// TestALeavingMemberEndsAsItAssumesTheLastDeath checks that a leaving member which assumes that
// all others are dead ends in the same step.
func TestALeavingMemberEndsAsItAssumesTheLastDeath(t *testing.T) {
	now := clock.Instant(time.Hour)
	c := New(Config{
		Self: gossip.Node{ID: 3}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove, Evidence: gossip.EvidenceFull,
		Partition: gossip.AssumeCrash{After: time.Second},
	}, now)
	c.adopt0(viewOf("uuu"), now)
	c.follower.leader, c.follower.leaderlessSince = 1, now.Add(time.Hour)
	c.Step(now, Leave{}, &Effects{})
	if c.Over() {
		t.Fatal("ends though the others live")
	}
	c.campaign.campaignAfter = now.Add(time.Hour)
	var out Effects
	c.Step(c.silence.assumeAt(), Tick{}, &out)
	if !c.Over() || out.Removed == nil || out.Removed.Reason != "left" {
		t.Errorf("over %v, removed %+v", c.Over(), out.Removed)
	}
}

// TestALeaderThatHasLeftOnlyDistributesItsView checks that a leader which commits the view
// without itself sends nothing but that view in the same step, and stands for nothing.
func TestALeaderThatHasLeftOnlyDistributesItsView(t *testing.T) {
	c, ids, now := leading(3)
	var out Effects
	var pong Pong
	for range 20 { // for longer than a lease, after which a candidate would stand
		now = round(c, ids, now, &out, &pong)
	}
	c.Step(now, Leave{}, &out)
	for range 100 {
		if c.farewell != nil {
			break
		}
		now = max(now+1, c.Deadline())
		out.Reset()
		c.Step(now, Tick{}, &out)
		for _, s := range slices.Clone(out.Send) {
			if a, ok := s.Msg.(*Accept); ok && c.farewell == nil {
				out.Reset()
				c.Step(now, Received{From: s.To, Msg: &Pong{Ballot: a.Ping.Ballot, Epoch: c.view.Epoch, Round: a.Ping.Round, T0: 1, Accepted: c.view.Epoch}}, &out)
			}
		}
	}
	if c.farewell == nil || c.Over() {
		t.Fatal("the leader does not leave")
	}
	if to := receivers[*Decided](&out); !slices.Equal(to, ids) || len(out.Send) != len(ids) {
		t.Errorf("sends %+v, to %v", out.Send, to)
	}
	if c.campaign.candidacy != nil || c.leadership != nil {
		t.Error("stands again")
	}
}

// TestANodeThatEndsSendsNothingMore checks that a leaving member which learns the view without
// itself ends, and sends no request in that step though one is due.
func TestANodeThatEndsSendsNothingMore(t *testing.T) {
	c := memberCore(3, 1, "uuu")
	var out Effects
	if c.Step(c.now, Leave{}, &out); !slices.Equal(receivers[*LeaveRequest](&out), []gossip.NodeID{1}) {
		t.Fatalf("asks with %+v", out.Send)
	}
	c.now = c.departure.nextLeave
	got := c.feed(1, &Decided{View: Whole(c.after(3))})
	if !c.Over() || got.Removed == nil || got.Removed.Reason != "left" || len(got.Send) != 0 {
		t.Errorf("over %v, removed %+v, sends %+v", c.Over(), got.Removed, got.Send)
	}
}

// TestAnAnswerCountsOnceInTheRoundsKept checks that a leader without a quorum gains none in its
// older rounds, whose places newer rounds have taken.
func TestAnAnswerCountsOnceInTheRoundsKept(t *testing.T) {
	const round = 2*roundsKept - 10
	o := &rounds{history: &history{env: envOf(1)}, peers: map[gossip.NodeID]*peer{2: {round: round - 5}}, round: round}
	o.cfg.Partition = gossip.KeepMajority{}
	if n := o.newTally(viewOf("uuuuu")).newestAnswered(nil, round, 0); n != 0 {
		t.Errorf("two of five voters are a quorum of round %d", n)
	}
	if n := o.newTally(viewOf("uuu")).newestAnswered(nil, round, 0); n != round-5 {
		t.Errorf("two of three voters have answered round %d, not %d", round-5, n)
	}
}
