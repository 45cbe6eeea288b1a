package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

func doubtsOf(word string) *doubts {
	e := evidenceOf(1, word)
	return &doubts{history: e.history, evidence: e, ballot: Ballot{Round: 3, Node: 1}, asked: map[gossip.NodeID]*doubt{}}
}

// TestDoubtsAskTheWitnessesOnce: a proven death counts once all voters that live have
// answered, or after the wait.
func TestDoubtsAskTheWitnessesOnce(t *testing.T) {
	d := doubtsOf("uuujl")
	d.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	for range 2 {
		if d.undoubted(3) {
			t.Error("counts without an answer")
		}
	}
	if got := d.sentTo(); !slices.Equal(got, []gossip.NodeID{2, 5}) {
		t.Errorf("asks %v, the voters that live are 2 and 5", got)
	}
	d.recordAnswer(2, &Doubted{Asked: []gossip.NodeID{3}})
	if d.undoubted(3) || d.answersDue() != d.now.Add(d.answerWait()) {
		t.Errorf("counts with one of two answers, the wait ends at %v", d.answersDue())
	}
	d.now = d.answersDue()
	if !d.undoubted(3) {
		t.Error("does not count after the wait")
	}
	if d.undoubtedSince(3, d.now) || len(d.sentTo()) != 2 {
		t.Error("an older question counts as a newer one")
	}
}

func TestDoubtsEndWithADenial(t *testing.T) {
	d := doubtsOf("uuu")
	d.evidence.onProof(ProvenDead{Subject: 3})
	d.undoubted(3)
	d.recordAnswer(2, &Doubted{Asked: []gossip.NodeID{3}, Linked: []gossip.NodeID{3}})
	if d.evidence.dead(3) || len(d.asked) != 0 {
		t.Errorf("dead %v after a denial, questions %v", d.evidence.dead(3), d.asked)
	}
}

func TestRequestsShareABatch(t *testing.T) {
	q := &requests{history: historyOf(1, "uul"), leaves: map[gossip.NodeID]bool{}, notices: map[gossip.NodeID]bool{}}
	if !q.queueJoin(gossip.Node{ID: 8}) || q.queueJoin(gossip.Node{ID: 8}) {
		t.Error("queues a node twice, or not at all")
	}
	due := q.batchAt
	if due != q.now.Add(q.batchWait()) {
		t.Errorf("proposed at %v, now %v", due, q.now)
	}
	q.now++
	q.queueLeave(2)
	q.queueNotice(1)
	q.queueNotice(3)
	q.queueNotice(99)
	if q.batchAt != due || !q.leaves[2] || len(q.notices) != 1 {
		t.Errorf("proposed at %v, leaves %v, notices %v", q.batchAt, q.leaves, q.notices)
	}
	if me := q.view.Member(1); q.turnsLeaving(me) {
		t.Error("turns before the batch is due")
	}
	q.now = due
	if !q.turnsLeaving(q.view.Member(1)) || q.turnsLeaving(q.view.Member(2)) {
		t.Error("the member with a notice must turn, another must not")
	}
	for id := gossip.NodeID(100); id < 100+joinsMax+5; id++ {
		q.queueJoin(gossip.Node{ID: id})
	}
	if len(q.joins) != joinsMax {
		t.Errorf("%d joins wait, at most %d", len(q.joins), joinsMax)
	}
}

// leadershipOf returns the leadership of node 1 over the up members of word, free and with
// the answers of all to its newest round.
func leadershipOf(word string) *leadership {
	p := campaignOf(1, word)
	o := newLeadership(Ballot{Round: 1, Node: 1}, p.now)
	o.history, o.evidence, o.quorums, o.acceptor = p.history, p.evidence, p.quorums, p.acceptor
	o.holder, o.departure, o.membership = p.quorums.holder, p.departure, &membership{}
	o.foreign = &encounters{history: p.history, quorums: p.quorums, follower: p.follower, mayRule: func() bool { return true }, allHeard: func() bool { return true }}
	o.wireMachines()
	o.beginTerm(&candidacy{}, wayAfresh)
	o.answerRound()
	return o
}

// answerRound sends a round and answers it for all members.
func (o *leadership) answerRound() {
	o.sendRound()
	for i := range o.view.Members {
		o.onPong(o.view.Members[i].ID, &Pong{Ballot: o.ballot, Epoch: o.view.Epoch, Round: o.round, T0: int64(o.now)})
	}
	o.driveLeaderLease()
}

func TestLeadershipCommitsWithBothQuorums(t *testing.T) {
	o := leadershipOf("uuu")
	if !o.holder.lease.Leader || !o.leaseUntil.After(o.now) {
		t.Fatalf("no leader lease after a round that all answered: %+v", o.holder.lease)
	}
	o.queueLeave(3)
	o.now = o.batchAt
	if moved, commit, r := o.advanceTerm(); !moved || commit || r != nil || o.proposal == nil || o.proposal.next.Member(3) != nil {
		t.Fatalf("moved %v, commit %v, resigns %v, proposal %+v", moved, commit, r, o.proposal)
	}
	if _, commit, _ := o.advanceTerm(); commit {
		t.Error("commits with its own acceptance alone")
	}
	o.onPong(2, &Pong{Ballot: o.ballot, Epoch: o.view.Epoch, Round: o.round, Accepted: o.view.Epoch})
	if _, commit, _ := o.advanceTerm(); !commit {
		t.Error("does not commit with two of three, and two of two")
	}
}

func TestLeadershipEndsWithoutAQuorum(t *testing.T) {
	o := leadershipOf("uuu")
	for range 100 {
		o.now = o.leaderDeadline()
		if _, _, r := o.advanceTerm(); r != nil {
			if over := o.now.Sub(o.leaseUntil); over < testLease {
				t.Errorf("resigns %v after its lease", over)
			}
			return
		}
	}
	t.Error("leads without answers")
}

// accepts lists the receivers of accepts since the last call.
func (e *env) accepts() (out []gossip.NodeID) {
	for _, s := range e.out.Send {
		if _, ok := s.Msg.(*Accept); ok {
			out = append(out, s.To)
		}
	}
	e.out.Send = nil
	return out
}

// TestACarriedRemovalForSilenceWaits: an attempt that leaves out a member which may live is
// proposed only RemoveAfter after the term began. One that leaves out a dead member, or
// none, is proposed immediately.
func TestACarriedRemovalForSilenceWaits(t *testing.T) {
	for name, c := range map[string]struct {
		leftOut []gossip.NodeID
		proof   *ProvenDead
		waits   bool
	}{
		"a silent member":       {[]gossip.NodeID{4}, nil, true},
		"a weakly proven death": {[]gossip.NodeID{4}, &ProvenDead{Subject: 4}, true},
		"a certain death":       {[]gossip.NodeID{4}, &ProvenDead{Subject: 4, Certain: true}, false},
		"a dead and a silent":   {[]gossip.NodeID{3, 4}, &ProvenDead{Subject: 4, Certain: true}, true},
		"a silent and a dead":   {[]gossip.NodeID{3, 4}, &ProvenDead{Subject: 3, Certain: true}, true},
		"no removal":            {nil, nil, false},
	} {
		o := leadershipOf("uuuuu")
		if c.proof != nil {
			o.evidence.onProof(*c.proof)
		}
		o.accepts()
		o.now = o.now.Add(testPing)
		o.carryAttempt(&attempt{ballot: Ballot{Round: 1, Node: 5}, next: o.after(c.leftOut...)})
		if sent := o.accepts(); c.waits != (sent == nil) || c.waits == o.proposal.accepted[1] {
			t.Errorf("%s: sends accepts to %v immediately", name, sent)
		}
		if !c.waits {
			continue
		}
		o.now = o.removeFrom(o.since) - 1
		o.driveProposal()
		o.sendRound()
		if sent := o.accepts(); sent != nil || o.proposal.accepted[1] || len(o.acceptor.attempts) != 0 {
			t.Errorf("%s: sends accepts to %v before its time", name, sent)
		}
		o.now++
		o.driveProposal()
		if sent := o.accepts(); !slices.Equal(sent, []gossip.NodeID{2, 3, 4, 5}) || !o.proposal.accepted[1] {
			t.Errorf("%s: sends accepts to %v at its time", name, sent)
		}
	}
}

// TestALeaderMayRuleWithItsLease checks that a leader rules with its lease, once no attempt of an earlier
// leader is open.
func TestALeaderMayRuleWithItsLease(t *testing.T) {
	o := leadershipOf("uuu")
	if !o.mayRule() {
		t.Fatal("a free leader with its lease may not rule")
	}
	o.free = false
	if o.mayRule() {
		t.Error("rules while it carries an attempt")
	}
	o.free, o.now = true, o.leaseUntil
	if o.mayRule() {
		t.Error("rules though its lease has ended")
	}
	o.now--
	if !o.mayRule() {
		t.Error("does not rule until the end of its lease")
	}
}
