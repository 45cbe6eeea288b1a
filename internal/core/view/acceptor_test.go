package view

import (
	"slices"
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

// TestPromisesOfOneBallot: the same candidate gets it again, another does not.
func TestPromisesOfOneBallot(t *testing.T) {
	ballot := Ballot{Round: 9, Node: 2}
	for name, c := range map[string]struct {
		candidate gossip.NodeID
		b         Ballot
		change    func(a *acceptor)
		want      bool
	}{
		"again":                         {2, ballot, func(*acceptor) {}, true},
		"to another":                    {4, ballot, func(*acceptor) {}, false},
		"a higher one":                  {4, Ballot{Round: 9, Node: 4}, func(*acceptor) {}, true},
		"a lower one":                   {1, Ballot{Round: 9, Node: 1}, func(*acceptor) {}, false},
		"to the leader that it follows": {1, Ballot{Round: 10, Node: 1}, func(a *acceptor) { a.guardLeader(1) }, true},
		"against itself as leader":      {2, Ballot{Round: 10, Node: 2}, func(a *acceptor) { a.guardLeader(3) }, false},
		"a claim of another's death":    {2, Ballot{Round: 10, Node: 2}, func(a *acceptor) { a.guardLeader(4) }, false},
	} {
		a := acceptorOf(3, "uuuu")
		a.promised = ballot
		c.change(a)
		if got := a.wouldPromise(c.candidate, c.b, []gossip.NodeID{1, 3}); got != c.want {
			t.Errorf("%s: promises %v", name, got)
		}
	}
}

// TestAPreVoteChangesNothing: it is answered with the ballot that was promised, and the links.
func TestAPreVoteChangesNothing(t *testing.T) {
	a := acceptorOf(3, "uuuu")
	a.promised = Ballot{Round: 4, Node: 1}
	a.evidence.setLink(4, true)
	m := &PreVote{Ballot: Ballot{Round: 5, Node: 2}, Base: a.ref(), Dead: []gossip.NodeID{1}, Weak: []gossip.NodeID{4}}
	a.onPreVote(2, m)
	got := a.out.Send[0].Msg.(*PreVoted)
	if a.out.Send[0].To != 2 || got.Ballot != m.Ballot || got.Base != a.view.Epoch || !got.Yes || got.Promised.Round != 4 || !slices.Equal(got.Linked, []gossip.NodeID{4}) {
		t.Errorf("answers %+v", got)
	}
	if a.promised.Round != 4 || a.roundSeen != 0 {
		t.Errorf("promised %v, has met round %d", a.promised, a.roundSeen)
	}
	a.promised.Round = 6
	if a.onPreVote(2, m); a.out.Send[1].Msg.(*PreVoted).Yes {
		t.Error("would promise a lower ballot")
	}
}

// TestAPromiseIsReportedInFull: with this node's clock, its generation and its links. It
// supersedes an own attempt if the ballot is another node's and higher.
func TestAPromiseIsReportedInFull(t *testing.T) {
	a := acceptorOf(3, "uuuu")
	a.generation = 44
	a.evidence.setLink(4, true)
	m := &Prepare{Ballot: Ballot{Round: 5, Node: 2}, Base: a.ref(), Dead: []gossip.NodeID{1}, Weak: []gossip.NodeID{4}}
	if !a.onPrepare(2, m) || a.onPrepare(2, m) {
		t.Error("the first promise supersedes an attempt, its repetition does not")
	}
	got := a.out.Send[0].Msg.(*Promised)
	if got.Ballot != m.Ballot || got.Base != a.view.Epoch || got.Generation != 44 || got.T0 != int64(a.now) || !slices.Equal(got.Linked, []gossip.NodeID{4}) || got.Accepted != nil {
		t.Errorf("answers %+v", got)
	}
	a.storeAttempt(a.view.Epoch, &attempt{ballot: Ballot{Round: 4, Node: 1}, next: a.after(1), emergency: true})
	m.Ballot = Ballot{Round: 7, Node: 3}
	if a.onPrepare(2, m) {
		t.Error("its own ballot supersedes its attempt")
	}
	if got := a.out.Send[2].Msg.(*Promised); !got.Emergency || got.Accepted == nil || a.nextBallot().Round != 8 {
		t.Errorf("answers %+v, its next ballot is %v", got, a.nextBallot())
	}
	a.noteBallot(Ballot{Round: 20})
	a.noteBallot(Ballot{Round: 10})
	if a.nextBallot().Round != 21 {
		t.Errorf("next ballot %v, has met round 20", a.nextBallot())
	}
}

// TestTheHigherAttemptCounts: none is below every other.
func TestTheHigherAttemptCounts(t *testing.T) {
	low, high := &attempt{ballot: Ballot{Round: 1}}, &attempt{ballot: Ballot{Round: 2}}
	if low.higher(high) != high || high.higher(low) != high || low.higher(nil) != low || (*attempt)(nil).higher(low) != low || high.higher(&attempt{ballot: high.ballot}) != high {
		t.Error("the attempt with the higher ballot must count, of equal ones the first")
	}
}

// TestAnAttemptRaisesTheGeneration: that this node has met.
func TestAnAttemptRaisesTheGeneration(t *testing.T) {
	a := acceptorOf(3, "uuu")
	next := a.after(1)
	next.Epoch = gossip.FirstEpoch(30)
	a.storeAttempt(a.view.Epoch, &attempt{next: next})
	if a.generation != 30 {
		t.Errorf("generation %d", a.generation)
	}
	a.guardLeader(2)
	if a.dropSuperseded(); len(a.attempts) != 1 || a.guard.leader != 2 || a.checkAttempts() != nil {
		t.Errorf("without a newer view: attempts %v, promise to %v", a.attempts, a.guard.leader)
	}
	a.attempts[a.view.Epoch-1] = &attempt{}
	if a.checkAttempts() == nil {
		t.Error("an attempt on a former view passes the check")
	}
}
