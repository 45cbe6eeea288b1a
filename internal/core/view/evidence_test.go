package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func evidenceOf(self gossip.NodeID, word string) *evidence {
	return &evidence{
		history: historyOf(self, word),
		proofs:  map[gossip.NodeID]*proof{}, early: map[gossip.NodeID]*proof{}, links: map[gossip.NodeID]bool{},
	}
}

func TestEvidenceCountsACertainProofOverAWeakOne(t *testing.T) {
	e := evidenceOf(1, "uuu")
	if !e.onProof(ProvenDead{Subject: 2, Reason: "reset"}) || !e.dead(2) || e.certainlyDead(2) || !e.mayLive(2) {
		t.Errorf("after a weak proof: dead %v, certainly %v", e.dead(2), e.certainlyDead(2))
	}
	e.now = e.now.Add(time.Second)
	if !e.onProof(ProvenDead{Subject: 2, Reason: "exit", Certain: true}) || !e.certainlyDead(2) || e.proofs[2].at != e.now {
		t.Errorf("after a certain proof: %+v", e.proofs[2])
	}
	if e.onProof(ProvenDead{Subject: 2, Reason: "late"}) || e.proofs[2].reason != "exit" {
		t.Errorf("a weak proof supersedes a certain one: %+v", e.proofs[2])
	}
	certain, weak := e.deadMembers()
	if !slices.Equal(certain, []gossip.NodeID{2}) || weak != nil {
		t.Errorf("dead: %v certainly, %v weakly", certain, weak)
	}
}

func TestEvidenceKeepsProofsOfNodesThatAreNoMembersYet(t *testing.T) {
	e := evidenceOf(1, "u")
	for id := gossip.NodeID(2); id < earlyMax+10; id++ {
		if e.onProof(ProvenDead{Subject: id, Certain: true}) {
			t.Fatalf("a proof of %v, which is no member, counts", id)
		}
	}
	if len(e.early) != earlyMax {
		t.Errorf("%d early proofs, at most %d", len(e.early), earlyMax)
	}
	v := e.after()
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 2}, Status: gossip.Joining})
	e.advanceTo(v, v.Member(1))
	e.countEarlyProofs()
	if !e.certainlyDead(2) || e.early[2] != nil {
		t.Error("the early proof of a new member does not count")
	}
}

func TestEvidenceIgnoresADeniedProofForAWhile(t *testing.T) {
	e := evidenceOf(1, "uuu")
	e.onProof(ProvenDead{Subject: 3, Certain: true})
	if !e.deny([]gossip.NodeID{2, 3}) || e.dead(3) {
		t.Error("a denied proof counts")
	}
	if again := e.evidenceAt(); again != e.now.Add(testPing/2) {
		t.Errorf("counts again at %v, now %v", again, e.now)
	}
	e.now = e.evidenceAt()
	if !e.certainlyDead(3) {
		t.Error("the denial has no end")
	}
}

func TestEvidenceDeniesByItsLinks(t *testing.T) {
	e := evidenceOf(1, "uuuu")
	e.setLink(2, true)
	e.setLink(3, true)
	e.setLink(3, false)
	e.setLink(4, true)
	e.onProof(ProvenDead{Subject: 4})
	if got := e.linkedOf([]gossip.NodeID{1, 2, 3, 4}); !slices.Equal(got, []gossip.NodeID{1, 2}) {
		t.Errorf("denies the deaths of %v, want those of itself and of 2", got)
	}
}

// TestSilenceCountsAsDeath: after its time without a lease, a node assumes that a silent
// member without a link has crashed, and withdraws that at the first sign of life.
func TestSilenceCountsAsDeath(t *testing.T) {
	e := evidenceOf(1, "uuu")
	s := newSilence(gossip.AssumeCrash{After: time.Second})
	s.history, s.evidence, s.holder = e.history, e, &leaseHolder{history: e.history}
	s.meetMembers(s.view)
	e.setLink(3, true)
	if at := s.assumeAt(); at != s.now.Add(time.Second) || s.driveAssume() != nil {
		t.Errorf("assumes at %v, now %v", at, s.now)
	}
	s.now = s.assumeAt()
	if got := s.driveAssume(); !slices.Equal(got, []gossip.NodeID{2}) || !e.certainlyDead(2) {
		t.Errorf("assumes the deaths of %v", got)
	}
	s.signOfLife(2)
	if e.dead(2) {
		t.Error("dead after a sign of life")
	}
	s.holder.lease.Until = s.now.Add(time.Second)
	s.now = s.now.Add(time.Millisecond)
	if s.assumes() {
		t.Error("assumes deaths under a lease")
	}
}
