package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
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
		"no quorum in time": func(p *campaign) { p.now = p.candidacy.deadline; p.advanceCandidacy() },
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
