package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
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

// TestProofsThatDoNotCount: of this node itself, of a former member, and where proofs are off.
func TestProofsThatDoNotCount(t *testing.T) {
	for name, change := range map[string]func(e *evidence, p *ProvenDead){
		"of itself":          func(_ *evidence, p *ProvenDead) { p.Subject = 1 },
		"of a former member": func(e *evidence, p *ProvenDead) { e.gone[9], p.Subject = true, 9 },
		"proofs are off":     func(e *evidence, _ *ProvenDead) { e.cfg.Evidence = gossip.EvidenceOff },
	} {
		e := evidenceOf(1, "uu")
		p := ProvenDead{Subject: 2, Certain: true}
		change(e, &p)
		if e.onProof(p) || len(e.proofs)+len(e.early) != 0 {
			t.Errorf("%s: counts", name)
		}
	}
}

// TestTheStrongerProofCounts: a certain one over a weak one and over an assumption, no other
// over one that is there.
func TestTheStrongerProofCounts(t *testing.T) {
	weak, certain, assumed := &proof{}, &proof{certain: true}, &proof{certain: true, assumed: true}
	for name, c := range map[string]struct {
		p, fresh *proof
		want     bool
	}{
		"a weak one":                {nil, weak, true},
		"weak over weak":            {weak, weak, false},
		"certain over weak":         {weak, certain, true},
		"certain over certain":      {certain, certain, false},
		"certain over an assumed":   {assumed, certain, true},
		"weak over an assumed":      {assumed, weak, false},
		"assumed over weak":         {weak, assumed, true},
		"weak over a certain proof": {certain, weak, false},
	} {
		if got := c.p.yieldsTo(c.fresh); got != c.want {
			t.Errorf("%s: counts %v", name, got)
		}
	}
}

// TestADenialOutlastsAStrongerProof: the link that denied the weak proof denies the certain one.
func TestADenialOutlastsAStrongerProof(t *testing.T) {
	e := evidenceOf(1, "uuu")
	e.onProof(ProvenDead{Subject: 3})
	if e.deny([]gossip.NodeID{3}) {
		t.Error("the denial of a weak proof counts as one of a certain proof")
	}
	e.onProof(ProvenDead{Subject: 3, Certain: true})
	if e.dead(3) {
		t.Error("a denied proof counts once it is certain")
	}
	e.onProof(ProvenDead{Subject: 2})
	if certain, weak := e.deadMembers(); certain != nil || !slices.Equal(weak, []gossip.NodeID{2}) {
		t.Errorf("dead: %v certainly, %v weakly", certain, weak)
	}
	if e.deny([]gossip.NodeID{3, 2}) != true {
		t.Error("the denial of a certain and a weak proof is none of a certain one")
	}
}

// TestAnEarlyProofCountsOnce: the first view with the node takes it, the stronger proof stays.
func TestAnEarlyProofCountsOnce(t *testing.T) {
	e := evidenceOf(1, "uu")
	e.onProof(ProvenDead{Subject: 8, Reason: "reset"})
	e.onProof(ProvenDead{Subject: 8, Reason: "exit", Certain: true})
	e.onProof(ProvenDead{Subject: 8, Reason: "late"})
	e.onProof(ProvenDead{Subject: 9})
	v := e.after()
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 8}, Status: gossip.Joining})
	e.advanceTo(v, v.Member(1))
	e.proofs[2] = &proof{reason: "own", certain: true}
	e.early[2] = &proof{reason: "early"}
	e.countEarlyProofs()
	if e.proofs[8].reason != "exit" || e.proofs[2].reason != "own" || len(e.early) != 1 || e.early[9] == nil {
		t.Errorf("proofs %v, early %v", e.proofs, e.early)
	}
	e.withdrawProof(8)
	e.withdrawProof(9)
	if e.dead(8) || len(e.early) != 0 {
		t.Error("a withdrawn proof counts")
	}
	e.setLink(2, true)
	if e.forgetMember(2); e.proofs[2] != nil || e.links[2] {
		t.Error("keeps a proof of a former member, or a link with it")
	}
}

// TestADepartureNamesItsEvidence: in full up to the bound, and as an assumption if it is one.
func TestADepartureNamesItsEvidence(t *testing.T) {
	e := evidenceOf(1, "uuu")
	if d := e.departed(2); d != (gossip.Departure{ID: 2, Cause: gossip.CauseDead}) {
		t.Errorf("without a proof: %+v", d)
	}
	long := strings.Repeat("x", evidenceBytesMax+1)
	e.onProof(ProvenDead{Subject: 2, Reason: long})
	e.proofs[3] = &proof{reason: "silent", assumed: true}
	if d := e.departed(2); d.Evidence != long[1:] || d.Cause != gossip.CauseDead {
		t.Errorf("a long reason: %+v", d)
	}
	if d := e.departed(3); d.Evidence != "silent" || d.Cause != gossip.CauseAssumed {
		t.Errorf("an assumption: %+v", d)
	}
}

// silenceOf returns the silence of node 1, which assumes crashes after a second.
func silenceOf(word string) *silence {
	e := evidenceOf(1, word)
	s := newSilence(gossip.AssumeCrash{After: time.Second})
	s.history, s.evidence, s.holder = e.history, e, &leaseHolder{history: e.history}
	s.meetMembers(s.view)
	return s
}

// TestSilenceIsCountedPerMember: from its newest sign of life, and not before this node has
// itself been without a lease for the time.
func TestSilenceIsCountedPerMember(t *testing.T) {
	s := silenceOf("uuu")
	if s.assumes() {
		t.Error("assumes deaths in its first view immediately")
	}
	s.now = s.now.Add(time.Second / 2)
	s.signOfLife(3)
	s.signOfLife(77)
	if _, met := s.lastSign[77]; met {
		t.Error("keeps signs of life of a node that is no member")
	}
	v := s.history.after()
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 4}, Status: gossip.Up})
	s.advanceTo(v, v.Member(1))
	s.meetMembers(v)
	s.now = s.now.Add(time.Second / 2)
	if got := s.driveAssume(); !slices.Equal(got, []gossip.NodeID{2}) {
		t.Errorf("assumes the deaths of %v", got)
	}
	if at := s.assumeAt(); at != s.now.Add(time.Second/2) {
		t.Errorf("assumes more at %v, now %v", at, s.now)
	}
	s.holder.grantedAt = s.now
	if at := s.assumeAt(); at != s.now.Add(time.Second) || s.driveAssume() != nil {
		t.Errorf("had a lease at %v, assumes more at %v", s.now, at)
	}
	s.now = s.now.Add(time.Second - 1)
	if s.driveAssume() != nil {
		t.Error("assumes deaths too soon after its lease")
	}
	s.now++
	if got := s.driveAssume(); !slices.Equal(got, []gossip.NodeID{3, 4}) || s.assumeAt() != clock.Never {
		t.Errorf("assumes the deaths of %v, more at %v", got, s.assumeAt())
	}
	if p := s.evidence.proofs[3]; !p.assumed || !p.certain || p.at != s.now {
		t.Errorf("assumes by %+v", p)
	}
}

// TestSilenceIsNoProof: of this node, of a member with a link, of one that is certainly dead.
// A joiner assumes nothing.
func TestSilenceIsNoProof(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *silence)
		dead   bool
	}{
		"silent":           {func(*silence) {}, true},
		"weakly dead":      {func(s *silence) { s.evidence.onProof(ProvenDead{Subject: 2}) }, true},
		"certainly dead":   {func(s *silence) { s.evidence.onProof(ProvenDead{Subject: 2, Certain: true}) }, false},
		"linked":           {func(s *silence) { s.evidence.setLink(2, true) }, false},
		"here is a joiner": {func(s *silence) { s.status = gossip.Joining }, false},
	} {
		s := silenceOf("uu")
		c.change(s)
		if due := s.assumeAt() != clock.Never; due != c.dead {
			t.Errorf("%s: assumes at %v", name, s.assumeAt())
		}
		s.now = s.now.Add(time.Minute)
		if got := s.driveAssume(); (got != nil) != c.dead {
			t.Errorf("%s: assumes the deaths of %v", name, got)
		}
	}
	s := silenceOf("uu")
	s.holder.lease.Until = s.now.Add(time.Hour)
	if at := s.assumeAt(); at != s.holder.lease.Until {
		t.Errorf("assumes at %v, before its lease ends", at)
	}
	s.evidence.onProof(ProvenDead{Subject: 2, Certain: true})
	if s.signOfLife(2); !s.evidence.dead(2) {
		t.Error("a sign of life withdraws a proof that was not assumed")
	}
	if newSilence(gossip.KeepMajority{}) != nil {
		t.Error("another policy assumes crashes")
	}
}

// TestProofsAreTraced: a weak one as such, and a denial once per lease.
func TestProofsAreTraced(t *testing.T) {
	e := evidenceOf(1, "uuu")
	e.onProof(ProvenDead{Subject: 2})
	e.onProof(ProvenDead{Subject: 3, Certain: true})
	e.deny([]gossip.NodeID{3})
	e.now = e.proofs[3].deniedUntil.Add(testLease)
	e.deny([]gossip.NodeID{3})
	if got := e.traces(); !slices.Equal(got, []string{"taken for dead", "proven dead", "proof denied"}) {
		t.Errorf("traces %q", got)
	}
	e.now = e.proofs[3].deniedUntil.Add(testLease + 1)
	if e.deny([]gossip.NodeID{3}); len(e.traces()) != 1 {
		t.Error("does not trace a denial after a lease")
	}
}
