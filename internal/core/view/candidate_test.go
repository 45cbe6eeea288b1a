package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

func campaignOf(self gossip.NodeID, word string) *campaign {
	a := acceptorOf(self, word)
	holder := &leaseHolder{history: a.history}
	return &campaign{
		history: a.history, evidence: a.evidence, acceptor: a,
		quorums:   &quorums{history: a.history, evidence: a.evidence, holder: holder},
		departure: &departure{history: a.history, evidence: a.evidence, leavers: map[gossip.NodeID]bool{}},
		follower:  &follower{history: a.history, holder: holder, acceptor: a, leaderlessSince: a.now},
	}
}

// TestCampaignWaitsForItsSeniors: a stagger for each living senior, none for a dead one.
func TestCampaignWaitsForItsSeniors(t *testing.T) {
	for _, c := range []struct {
		self     gossip.NodeID
		dead     gossip.NodeID
		leaving  bool
		staggers time.Duration
	}{{1, 0, false, 0}, {2, 0, false, 1}, {4, 0, false, 2}, {4, 1, false, 1}, {1, 0, true, 4}} {
		p := campaignOf(c.self, "uujuu")
		if c.dead != 0 {
			p.evidence.onProof(ProvenDead{Subject: c.dead})
		}
		p.departure.leaving = c.leaving
		if got := p.campaignAt().Sub(p.now); got != c.staggers*p.stagger() {
			t.Errorf("%+v: waits %v, a stagger is %v", c, got, p.stagger())
		}
	}
}

func TestCampaignKeepsThePromiseToALeader(t *testing.T) {
	p := campaignOf(2, "uuu")
	p.acceptor.guardLeader(1)
	if at := p.campaignAt(); at != p.acceptor.guard.until {
		t.Errorf("stands at %v, and has promised until %v", at, p.acceptor.guard.until)
	}
	p.evidence.onProof(ProvenDead{Subject: 1, Certain: true})
	if at := p.campaignAt(); at != p.now {
		t.Errorf("its leader and only senior is dead at %v, it stands at %v", p.now, at)
	}
}

// TestCampaignGoesFromPreVoteToLeadership follows one candidacy of three voters.
func TestCampaignGoesFromPreVoteToLeadership(t *testing.T) {
	p := campaignOf(1, "uuu")
	p.beginCandidacy()
	ballot := p.candidacy.ballot
	if _, won, moved := p.advanceCandidacy(); won || moved {
		t.Fatal("its own vote is enough")
	}
	p.onPreVoted(2, &PreVoted{Ballot: ballot, Base: p.view.Epoch, Yes: true})
	if _, won, moved := p.advanceCandidacy(); won || !moved || p.acceptor.promised != ballot {
		t.Fatalf("after the pre-vote: won %v, moved %v, promised %v", won, moved, p.acceptor.promised)
	}
	found := p.after(3)
	p.countPromise(3, &Promised{Ballot: ballot, Base: p.view.Epoch, T0: 5, Accepted: Whole(found), AcceptedBallot: Ballot{Round: 1, Node: 2}})
	w, won, _ := p.advanceCandidacy()
	if !won || w != wayCarry || p.candidacy.found.attempt.next != found || p.candidacy.found.t0[3] != 5 {
		t.Errorf("won %v, way %v, found %+v", won, w, p.candidacy.found)
	}
}

func TestCampaignFailsAndBacksOff(t *testing.T) {
	for name, fail := range map[string]func(p *campaign){
		"a higher ballot": func(p *campaign) { p.noteRound(Ballot{Round: 9, Node: 2}) },
		"a denied proof": func(p *campaign) {
			p.onPreVoted(2, &PreVoted{Ballot: p.candidacy.ballot, Base: p.view.Epoch, Linked: []gossip.NodeID{3}})
		},
		"no quorum in time": func(p *campaign) {
			p.now = p.candidacy.deadline
			if _, won, moved := p.advanceCandidacy(); won || !moved {
				t.Errorf("at its deadline: won %v, moved %v", won, moved)
			}
		},
	} {
		p := campaignOf(1, "uuu")
		p.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
		p.beginCandidacy()
		fail(p)
		if p.candidacy != nil || p.failures != 1 || p.campaignAfter < p.now.Add(testPing/4) {
			t.Errorf("%s: candidacy %+v, %d failures, next after %v at %v", name, p.candidacy, p.failures, p.campaignAfter, p.now)
		}
	}
}

func TestCampaignLeavesTheFieldToAnotherCandidate(t *testing.T) {
	p := campaignOf(1, "uuu")
	p.beginCandidacy()
	p.acceptor.promiseBallot(Ballot{Round: 9, Node: 2})
	p.yieldToCandidate()
	if at := p.campaignAt(); p.candidacy != nil || at != p.candidateUntil || at < p.now.Add(testPing/4) {
		t.Errorf("stands at %v, leaves the field until %v", at, p.candidateUntil)
	}
	p.evidence.onProof(ProvenDead{Subject: 2})
	if at := p.campaignAt(); at != p.now {
		t.Errorf("the other candidate is dead at %v, it stands at %v", p.now, at)
	}
}

func TestJoinerAsksAndGivesUp(t *testing.T) {
	f := campaignOf(2, "uj").follower
	f.pingedAt = f.now
	for f.requestNewerView() {
		if len(f.sentTo()) == 0 || f.joinerAt() <= f.now {
			t.Fatal("does not ask, or sets no later time")
		}
		f.now = f.joinerAt()
	}
	if waited := f.now.Sub(f.pingedAt); waited != f.joinerPatience() {
		t.Errorf("gives up after %v, its patience is %v", waited, f.joinerPatience())
	}
}

// TestAnswersToAnotherQuestionDoNotCount: a pre-vote or a promise counts for the candidacy
// that it answers, in its phase.
func TestAnswersToAnotherQuestionDoNotCount(t *testing.T) {
	for name, change := range map[string]func(p *campaign, vote *PreVoted, promise *Promised){
		"another ballot":        func(_ *campaign, v *PreVoted, m *Promised) { v.Ballot.Round++; m.Ballot.Round++ },
		"another view":          func(_ *campaign, v *PreVoted, m *Promised) { v.Base++; m.Base++ },
		"the other phase":       func(p *campaign, _ *PreVoted, _ *Promised) { p.candidacy.preparing = !p.candidacy.preparing },
		"no candidacy any more": func(p *campaign, _ *PreVoted, _ *Promised) { p.candidacy = nil },
	} {
		p := campaignOf(1, "uuu")
		p.beginCandidacy()
		cand := p.candidacy
		vote := &PreVoted{Ballot: cand.ballot, Base: cand.base, Yes: true}
		promise := &Promised{Ballot: cand.ballot, Base: cand.base, Linked: []gossip.NodeID{3}}
		p.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
		change(p, vote, promise)
		was := p.candidacy
		p.onPreVoted(2, vote)
		if p.candidacy = was; was != nil {
			was.preparing = !was.preparing
		}
		p.countPromise(2, promise)
		if cand.yes[2] || p.failures != 0 {
			t.Errorf("%s: counts", name)
		}
	}
}

// TestAVoteMayBeNo: it counts for nothing, and its promised ballot ends the candidacy if that
// is higher.
func TestAVoteMayBeNo(t *testing.T) {
	p := campaignOf(1, "uuu")
	p.beginCandidacy()
	ballot := p.candidacy.ballot
	p.onPreVoted(2, &PreVoted{Ballot: ballot, Base: p.view.Epoch, Promised: ballot})
	if p.candidacy == nil || p.candidacy.yes[2] || !p.candidacy.yes[1] {
		t.Errorf("after a no: %+v", p.candidacy)
	}
	p.onPreVoted(3, &PreVoted{Ballot: ballot, Base: p.view.Epoch, Promised: Ballot{Round: ballot.Round, Node: 2}})
	if p.candidacy != nil || p.acceptor.nextBallot().Round != ballot.Round+1 {
		t.Errorf("a higher ballot was promised: %+v, next %v", p.candidacy, p.acceptor.nextBallot())
	}
}

// TestACandidateCountsItself: unless it is bound by its own promise.
func TestACandidateCountsItself(t *testing.T) {
	p := campaignOf(2, "uuu")
	p.acceptor.guardLeader(1)
	if p.beginCandidacy(); p.candidacy.yes[2] {
		t.Error("counts its vote against its promise")
	}
	p.candidacy.yes = map[gossip.NodeID]bool{1: true, 3: true}
	if _, won, moved := p.advanceCandidacy(); won || !moved || p.candidacy != nil || p.acceptor.promised.Round != 0 {
		t.Errorf("prepares against its promise: promised %v", p.acceptor.promised)
	}
}

// TestTheMessagesOfACandidacy: both phases ask all members that may live, with the view and
// the proofs.
func TestTheMessagesOfACandidacy(t *testing.T) {
	p := campaignOf(1, "uuuu")
	p.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	p.evidence.onProof(ProvenDead{Subject: 4})
	p.beginCandidacy()
	m, _ := p.out.Send[0].Msg.(*PreVote)
	if to := p.sentTo(); !slices.Equal(to, []gossip.NodeID{2, 4}) || m == nil || m.Base.View != p.view || m.Dead[0] != 3 || m.Weak[0] != 4 || !slices.Equal(m.Asked(), []gossip.NodeID{3, 4}) {
		t.Fatalf("asks %v: %+v", to, m)
	}
	p.candidacy.yes[2], p.candidacy.yes[4] = true, true
	p.now++
	p.advanceCandidacy()
	prepare, _ := p.out.Send[0].Msg.(*Prepare)
	if to := p.sentTo(); !slices.Equal(to, []gossip.NodeID{2, 4}) || prepare == nil || prepare.Base.View != p.view || prepare.Ballot != p.candidacy.ballot ||
		!slices.Equal(prepare.Asked(), []gossip.NodeID{3, 4}) {
		t.Fatalf("asks %v: %+v", to, prepare)
	}
	if c := p.candidacy; len(c.yes) != 1 || !c.yes[1] || c.began != p.now || c.deadline != p.now.Add(testPing) {
		t.Errorf("the second phase begins with %+v", c)
	}
}

// candidateWith returns the candidacy of node 1 of five in its second phase: 4 and 5 are dead,
// the given members have promised, and one of them has uncovered an attempt that needs the dead.
func candidateWith(promised ...gossip.NodeID) *campaign {
	p := campaignOf(1, "uuuuu")
	p.evidence.onProof(ProvenDead{Subject: 4, Certain: true})
	p.evidence.onProof(ProvenDead{Subject: 5, Certain: true})
	p.beginCandidacy()
	p.candidacy.preparing, p.candidacy.yes = true, setMap(promised...)
	p.candidacy.found.attempt = &attempt{next: p.after(1, 2)}
	return p
}

// TestAnAttemptThatNeedsTheDead: a candidate that may take over does so with all that live. One
// that may not leaves the field for a lease or two.
func TestAnAttemptThatNeedsTheDead(t *testing.T) {
	p := candidateWith(1, 2, 3)
	p.quorums.holder.grantedAt = p.now
	if w, won, _ := p.advanceCandidacy(); w != wayTakeOver || !won {
		t.Errorf("all that live have promised: way %d, won %v", w, won)
	}
	p = candidateWith(1, 2, 3)
	w, won, moved := p.advanceCandidacy()
	if least := p.now.Add(testPing/4 + testLease); w != wayNone || won || !moved || p.candidacy != nil ||
		p.campaignAfter < least || p.campaignAfter > least.Add(testPing+testLease) {
		t.Errorf("outside the window: way %d, won %v, moved %v, stands again at %v, want after %v", w, won, moved, p.campaignAfter, least)
	}
}

// TestACandidateWaitsForAllThatLive: a quorum has promised, and only a takeover can go on.
func TestACandidateWaitsForAllThatLive(t *testing.T) {
	p := candidateWith(1, 2, 3)
	p.quorums.holder.grantedAt = p.now
	p.evidence.withdrawProof(4)
	p.candidacy.found.attempt.next = p.after(1, 2, 3, 4)
	if w, won, moved := p.advanceCandidacy(); w != wayWait || won || moved {
		t.Fatalf("way %d, won %v, moved %v", w, won, moved)
	}
	p.now = p.candidacy.deadline
	if _, won, moved := p.advanceCandidacy(); won || !moved || p.candidacy != nil || p.failures != 1 {
		t.Errorf("after the deadline: won %v, moved %v, %+v", won, moved, p.candidacy)
	}
}

func setMap(ids ...gossip.NodeID) map[gossip.NodeID]bool {
	out := map[gossip.NodeID]bool{}
	for _, id := range ids {
		out[id] = true
	}
	return out
}

// TestBackOffsGrow: with consecutive failures, up to a bound, and last as long as a denied
// proof does not count.
func TestBackOffsGrow(t *testing.T) {
	for failures, most := range map[int]time.Duration{0: testPing, 1: 2 * testPing, 3: 4 * testPing, 4: 5 * testPing, 50: 5 * testPing} {
		longest := time.Duration(0)
		for seed := range uint64(200) {
			p := campaignOf(1, "uuu")
			p.rng, p.failures = seed, failures
			p.failCandidacy("")
			wait := p.campaignAfter.Sub(p.now)
			if wait < testPing/4 || wait >= testPing/4+most {
				t.Errorf("after %d failures: waits %v", failures, wait)
			}
			longest = max(longest, wait)
		}
		if longest < most*9/10 {
			t.Errorf("after %d failures: waits at most %v", failures, longest)
		}
	}
	p := campaignOf(1, "uuu")
	p.evidence.onProof(ProvenDead{Subject: 2, Certain: true})
	p.evidence.proofs[2].deniedUntil = p.now.Add(time.Hour)
	if p.failCandidacy(""); p.campaignAfter != p.now.Add(time.Hour) {
		t.Errorf("stands at %v, the proof counts in an hour", p.campaignAfter)
	}
}

// TestSeniorsAreCountedAnew: after each change of the view, the leader or the proofs.
func TestSeniorsAreCountedAnew(t *testing.T) {
	p := campaignOf(4, "uuju")
	count := func(want int) {
		t.Helper()
		for range 2 {
			if got := p.livingSeniors(); got != want {
				t.Errorf("%d seniors, want %d", got, want)
			}
		}
	}
	count(2)
	p.follower.leader = 1
	count(1)
	p.follower.leader = 0
	p.evidence.onProof(ProvenDead{Subject: 2})
	count(1)
	p.evidence.withdrawProof(2)
	count(2)
	v := p.after(1)
	p.advanceTo(v, v.Member(4))
	count(1)
}

// TestStaggersAreBounded: a junior of many waits for sixteen.
func TestStaggersAreBounded(t *testing.T) {
	p := campaignOf(40, strings.Repeat("u", 40))
	if got := p.campaignAt().Sub(p.now); got != staggersMax*p.stagger() {
		t.Errorf("waits %v", got)
	}
	p.campaignAfter = p.now.Add(time.Hour)
	if p.campaignAt() != p.campaignAfter {
		t.Errorf("stands at %v, backs off until %v", p.campaignAt(), p.campaignAfter)
	}
	p.departure.leaving = true
	for id := gossip.NodeID(1); id < 40; id++ {
		p.departure.leavers[id] = true
	}
	p.campaignAfter = 0
	if got := p.campaignAt().Sub(p.now); got != staggersMax*p.stagger() {
		t.Errorf("all leave, waits %v", got)
	}
}

// TestTheFieldIsLeftToALivingMember: not to a candidate that was left out of the view.
func TestTheFieldIsLeftToALivingMember(t *testing.T) {
	p := campaignOf(1, "uuu")
	p.acceptor.promised = Ballot{Round: 9, Node: 2}
	p.yieldToCandidate()
	v := p.after(2)
	p.advanceTo(v, v.Member(1))
	if p.campaignAt() != p.now {
		t.Errorf("stands at %v", p.campaignAt())
	}
	p.acceptor.promised.Node = 3
	if p.campaignAt() != p.candidateUntil {
		t.Errorf("stands at %v, the other until %v", p.campaignAt(), p.candidateUntil)
	}
	p.campaignAfter = p.candidateUntil.Add(1)
	if p.campaignAt() != p.campaignAfter {
		t.Errorf("stands at %v, backs off until %v", p.campaignAt(), p.campaignAfter)
	}
}

// TestANewProofRestartsACandidacy: only one that is in flight.
func TestANewProofRestartsACandidacy(t *testing.T) {
	p := campaignOf(1, "uuu")
	p.campaignAfter = p.now.Add(time.Hour)
	if p.restartCampaign(); p.campaignAfter == 0 {
		t.Error("ends a back-off without a candidacy")
	}
	p.beginCandidacy()
	if p.restartCampaign(); p.candidacy != nil || p.campaignAt() != p.now {
		t.Errorf("%+v, stands at %v", p.candidacy, p.campaignAt())
	}
	p.failures = 3
	p.beginCandidacy()
	if p.endCampaign(); p.candidacy != nil || p.failures != 0 {
		t.Errorf("after the campaign: %+v, %d failures", p.candidacy, p.failures)
	}
}

// TestAJoinersPatience: it is doubled for one that has accepted a view in which it votes.
func TestAJoinersPatience(t *testing.T) {
	for name, c := range map[string]struct {
		status gossip.Status
		twice  bool
	}{"no attempt": {0, false}, "an attempt in which it joins": {gossip.Joining, false}, "one in which it votes": {gossip.Up, true}} {
		f := campaignOf(2, "uj").follower
		if c.status != 0 {
			next := f.after()
			next.Members[1].Status = c.status
			f.acceptor.storeAttempt(f.view.Epoch, &attempt{next: next})
		}
		want := 2 * (testRemove + testLease)
		if c.twice {
			want *= 2
		}
		if got := f.joinerPatience(); got != want {
			t.Errorf("%s: waits %v, want %v", name, got, want)
		}
		f.acceptor.storeAttempt(f.view.Epoch, &attempt{next: f.after(2)})
		if got := f.joinerPatience(); got != 2*(testRemove+testLease) {
			t.Errorf("an attempt without it: waits %v", got)
		}
	}
}

// TestACandidateAsksAgain: in both phases, those whose vote is missing are asked again, and those
// who have voted or are certainly dead are not.
func TestACandidateAsksAgain(t *testing.T) {
	p := campaignOf(1, "uuuuu")
	p.evidence.onProof(ProvenDead{Subject: 5, Certain: true})
	asked := func() (to []gossip.NodeID) {
		p.out.Send = nil
		if _, won, _ := p.advanceCandidacy(); won {
			t.Fatal("won")
		}
		for _, s := range p.out.Send {
			to = append(to, s.To)
		}
		return to
	}
	p.beginCandidacy()
	p.now = p.candidacy.wakeAt().Add(-1)
	if to := asked(); len(to) > 0 {
		t.Errorf("asks %v too early", to)
	}
	p.onPreVoted(3, &PreVoted{Ballot: p.candidacy.ballot, Base: p.view.Epoch, Yes: true})
	p.now++
	if to := asked(); !slices.Equal(to, []gossip.NodeID{2, 4}) {
		t.Errorf("asks %v for the pre-vote again, want 2 and 4", to)
	}
	if to := asked(); len(to) > 0 || !p.candidacy.wakeAt().After(p.now) {
		t.Errorf("asks %v in the same moment", to)
	}
	p.onPreVoted(4, &PreVoted{Ballot: p.candidacy.ballot, Base: p.view.Epoch, Yes: true})
	if to := asked(); !slices.Equal(to, []gossip.NodeID{2, 3, 4}) || !p.candidacy.preparing {
		t.Errorf("asks %v to prepare, want 2, 3 and 4", to)
	}
	ballot, base := p.candidacy.ballot, p.view.Epoch
	p.countPromise(4, &Promised{Ballot: ballot, Base: base})
	p.now = p.candidacy.wakeAt()
	if to := asked(); !slices.Equal(to, []gossip.NodeID{2, 3}) {
		t.Errorf("asks %v to prepare again, want 2 and 3", to)
	}
	p.now = p.candidacy.deadline
	if to := asked(); len(to) > 0 || p.candidacy != nil {
		t.Errorf("at its deadline it asks %v", to)
	}
}

// TestTheTimeOfACandidacy checks that a node campaigns after the latest of the staggers, the back-off and
// a promise to another leader. Until then it leaves the field to another candidate.
func TestTheTimeOfACandidacy(t *testing.T) {
	for name, c := range map[string]struct {
		word string
		edit func(p *campaign)
		want func(p *campaign) clock.Instant
	}{
		"a promise to itself": {"uu", func(p *campaign) { p.acceptor.guardLeader(1) }, func(p *campaign) clock.Instant { return p.now }},
		"no leader, a time that is left over": {"uu", func(p *campaign) { p.acceptor.guard.until = p.now.Add(time.Hour) },
			func(p *campaign) clock.Instant { return p.now }},
		"a back-off that ends later": {"uu", func(p *campaign) {
			p.acceptor.guardLeader(2)
			p.campaignAfter = p.acceptor.guard.until.Add(1)
		}, func(p *campaign) clock.Instant { return p.campaignAfter }},
		"a back-off that ends earlier": {"uu", func(p *campaign) {
			p.acceptor.guardLeader(2)
			p.campaignAfter = p.acceptor.guard.until.Add(-1)
		}, func(p *campaign) clock.Instant { return p.acceptor.guard.until }},
		"a back-off before the loss of the leader": {"uu", func(p *campaign) { p.campaignAfter = p.now.Add(-1) },
			func(p *campaign) clock.Instant { return p.now }},
		"a candidate that is given less time": {"uu", func(p *campaign) {
			p.acceptor.promised = Ballot{Round: 9, Node: 2}
			p.campaignAfter, p.candidateUntil = p.now.Add(5), p.now.Add(4)
		}, func(p *campaign) clock.Instant { return p.campaignAfter }},
		"a candidate that is given more": {"uu", func(p *campaign) {
			p.acceptor.promised = Ballot{Round: 9, Node: 2}
			p.campaignAfter, p.candidateUntil = p.now.Add(5), p.now.Add(6)
		}, func(p *campaign) clock.Instant { return p.candidateUntil }},
		"leaving, not alone": {"uu", func(p *campaign) {
			p.departure.leaving = true
		}, func(p *campaign) clock.Instant { return p.now.Add(p.cfg.Lease) }},
		"staying, though others leave": {"uu", func(p *campaign) {
			p.departure.leavers[2] = true
		}, func(p *campaign) clock.Instant { return p.now }},
		"a joiner": {"ju", func(p *campaign) { p.campaignAfter = p.now.Add(time.Hour) }, func(p *campaign) clock.Instant { return p.follower.joinerAt() }},
	} {
		p := campaignOf(1, c.word)
		if c.edit(p); p.campaignAt() != c.want(p) {
			t.Errorf("%s: stands in %v, want %v", name, p.campaignAt().Sub(p.now), c.want(p).Sub(p.now))
		}
	}
}
