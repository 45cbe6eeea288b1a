package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func acceptorOf(self gossip.NodeID, word string) *acceptor {
	e := evidenceOf(self, word)
	return &acceptor{history: e.history, evidence: e, attempts: map[gossip.Epoch]*attempt{}}
}

// TestAcceptorKeepsItsPromiseToALeader: until the promise ends, another candidate gets a
// promise only if the leader is certainly dead.
func TestAcceptorKeepsItsPromiseToALeader(t *testing.T) {
	candidate := Ballot{Round: 9, Node: 2}
	for name, c := range map[string]struct {
		change  func(a *acceptor)
		claimed []gossip.NodeID
		want    bool
	}{
		"the leader lives":                  {func(*acceptor) {}, nil, false},
		"the promise has ended":             {func(a *acceptor) { a.now = a.guard.until }, nil, true},
		"a weak proof of its death":         {func(a *acceptor) { a.evidence.onProof(ProvenDead{Subject: 1}) }, nil, false},
		"a certain proof of its death":      {func(a *acceptor) { a.evidence.onProof(ProvenDead{Subject: 1, Certain: true}) }, nil, true},
		"a claim of its death":              {func(*acceptor) {}, []gossip.NodeID{1}, true},
		"a claim against a link":            {func(a *acceptor) { a.evidence.setLink(1, true) }, []gossip.NodeID{1}, false},
		"a claim, where proofs never count": {func(a *acceptor) { a.cfg.Evidence = gossip.EvidenceOff }, []gossip.NodeID{1}, false},
		"a higher ballot was promised":      {func(a *acceptor) { a.promiseBallot(Ballot{Round: 10, Node: 1}); a.guard = guard{} }, nil, false},
	} {
		a := acceptorOf(3, "uuu")
		if follows, superseded := a.followLeader(1, &Ping{Ballot: Ballot{Round: 5, Node: 1}}); !follows || !superseded {
			t.Fatalf("%s: follows %v, superseded %v", name, follows, superseded)
		}
		c.change(a)
		if got := a.wouldPromise(2, candidate, c.claimed); got != c.want {
			t.Errorf("%s: promises %v, want %v", name, got, c.want)
		}
	}
}

func TestAcceptorRejectsLowerBallots(t *testing.T) {
	a := acceptorOf(3, "uuu")
	a.promiseBallot(Ballot{Round: 7, Node: 2})
	if follows, superseded := a.followLeader(1, &Ping{Ballot: Ballot{Round: 6, Node: 1}}); follows || superseded || a.guard.leader != 0 {
		t.Errorf("follows %v, superseded %v, guards %v", follows, superseded, a.guard.leader)
	}
	if n, ok := a.out.Send[0].Msg.(*Nack); !ok || n.Promised.Round != 7 {
		t.Errorf("answers %+v", a.out.Send[0].Msg)
	}
	if a.onPrepare(1, &Prepare{Ballot: Ballot{Round: 6, Node: 1}, Base: a.ref()}) || a.promised.Round != 7 {
		t.Errorf("promised %v", a.promised)
	}
	if next := a.nextBallot(); next.Round != 8 || next.Node != 3 {
		t.Errorf("next ballot %v", next)
	}
}

// TestAcceptorReportsItsAttempt: a promise carries the accepted attempt on the same view,
// until a decided view supersedes it.
func TestAcceptorReportsItsAttempt(t *testing.T) {
	a := acceptorOf(3, "uuu")
	next := a.after(2)
	base := a.view.Epoch
	a.storeAttempt(base, &attempt{ballot: Ballot{Round: 4, Node: 1}, next: next})
	a.onPrepare(1, &Prepare{Ballot: Ballot{Round: 6, Node: 1}, Base: a.ref()})
	m := a.out.Send[len(a.out.Send)-1].Msg.(*Promised)
	if m.Accepted.Header() != next || m.AcceptedBallot.Round != 4 {
		t.Errorf("reports %+v", m)
	}
	a.guardLeader(2)
	a.advanceTo(next, next.Member(3))
	if a.dropSuperseded(); len(a.attempts) != 0 || a.guard.leader != 0 {
		t.Errorf("after the view: attempts %v, promise to %v", a.attempts, a.guard.leader)
	}
}

// TestProofsCountInTheirWindow: a total quorum needs proofs that came less than a lease
// after the newest grant was requested.
func TestProofsCountInTheirWindow(t *testing.T) {
	for late, want := range map[time.Duration]bool{testLease / 2: true, testLease: false} {
		e := evidenceOf(1, "uuu")
		q := &quorums{history: e.history, evidence: e, holder: &leaseHolder{history: e.history, grantedAt: e.now}}
		e.now = e.now.Add(late)
		e.onProof(ProvenDead{Subject: 2, Certain: true})
		e.onProof(ProvenDead{Subject: 3, Certain: true})
		if got := q.total(setOf(1)); got != want {
			t.Errorf("proofs %v after the grant: total quorum %v", late, got)
		}
		if q.plain(q.view, setOf(1)) {
			t.Error("one of three is a plain quorum")
		}
		q.holder.waiveLease()
		if q.total(setOf(1)) {
			t.Error("a node that leaves counts proofs")
		}
	}
}
