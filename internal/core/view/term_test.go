package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// TestALeaseIsGrantedOnlyToThoseThatStay: in the next view, too, and while the leader has one.
func TestALeaseIsGrantedOnlyToThoseThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *leadership)
		grants bool
	}{
		"a voter":                   {func(*leadership) {}, true},
		"a voter that never spoke":  {func(o *leadership) { o.peers[2].t0 = 0 }, false},
		"a joiner":                  {func(o *leadership) { o.view.Members[1].Status = gossip.Joining }, false},
		"no lease here":             {func(o *leadership) { o.leaseUntil = o.now }, false},
		"an attempt is carried":     {func(o *leadership) { o.free = false }, false},
		"it leaves":                 {func(o *leadership) { o.leaves[2] = true }, false},
		"another leaves":            {func(o *leadership) { o.leaves[3] = true }, true},
		"it is to yield":            {func(o *leadership) { o.peers[2].leaseWithheldSince = 1 }, false},
		"it is dead":                {func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 2}) }, false},
		"a proposal leaves it out":  {func(o *leadership) { o.beginProposal(&proposal{next: o.after(2)}) }, false},
		"a proposal leaves another": {func(o *leadership) { o.beginProposal(&proposal{next: o.after(3)}) }, true},
		"no state about it":         {func(o *leadership) { delete(o.peers, 2) }, false},
	} {
		o := leadershipOf("uuu")
		c.change(o)
		var p Ping
		o.fillGrant(&p, o.view.Member(2), o.peers[2])
		if got := p.Echo != 0 && p.Remaining > 0; got != c.grants || !got && (p.Echo != 0 || p.Remaining != 0) {
			t.Errorf("%s: grants %v after the answer of %v", name, p.Remaining, p.Echo)
		}
	}
	o := leadershipOf("uuu")
	o.cfg.DriftPPM = 1000
	var p Ping
	left := o.leaseUntil.Sub(o.now)
	if o.fillGrant(&p, o.view.Member(2), o.peers[2]); p.Remaining != left-o.margin(left) || p.Echo != o.peers[2].t0 {
		t.Errorf("grants %v of %v", p.Remaining, left)
	}
	o.now = o.leaseUntil - 1
	p = Ping{}
	if o.fillGrant(&p, o.view.Member(2), o.peers[2]); p.Remaining != 0 {
		t.Errorf("grants %v of the last instant", p.Remaining)
	}
}

// TestPingsCarryTheViewToThoseThatLackIt checks that pings carry a view whole to members that
// joined or asked, as a difference to all others that lack it, and as a reference if the leader
// has no difference.
func TestPingsCarryTheViewToThoseThatLackIt(t *testing.T) {
	o := leadershipOf("uuuu")
	o.packFrom = 1
	before := o.view
	next := o.after()
	o.advanceTo(next, next.Member(1))
	o.followView(before)
	m := o.view.Member(2)
	for name, c := range map[string]struct {
		change func(q *peer, m *gossip.Member)
		want   string
	}{
		"holds the view":              {func(q *peer, _ *gossip.Member) { q.epoch = next.Epoch }, "none"},
		"holds the view, asked once":  {func(q *peer, _ *gossip.Member) { q.epoch, q.whole = next.Epoch, true }, "none"},
		"holds the former":            {func(q *peer, _ *gossip.Member) { q.epoch = before.Epoch }, "difference"},
		"holds the former, but asked": {func(q *peer, _ *gossip.Member) { q.epoch, q.whole = before.Epoch, true }, "whole"},
		"joined with the view":        {func(q *peer, m *gossip.Member) { m.Joined = next.Epoch }, "whole"},
		"nothing was heard":           {func(*peer, *gossip.Member) {}, "difference"},
	} {
		q, member := &peer{}, *m
		c.change(q, &member)
		p := o.roundMessage(&member, q, &Ping{}).(*Ping)
		got := "none"
		switch v := p.View; {
		case v == nil:
		case v.change == nil && v.View == next:
			got = "whole"
		case v == o.packed:
			got = "difference"
		case v.change.base == next.Epoch:
			got = "reference"
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if p.Ballot != o.ballot || p.Cluster != 1 || p.Epoch != next.Epoch || p.Round != o.round {
			t.Errorf("%s: %+v", name, p)
		}
	}
	o.former = nil
	if p := o.roundMessage(m, &peer{epoch: before.Epoch}, &Ping{}).(*Ping); p.View.change.base != next.Epoch {
		t.Error("sends a difference that it does not have")
	}
}

// TestAcceptsCarryTheBase: whole to those that may lack it.
func TestAcceptsCarryTheBase(t *testing.T) {
	o := leadershipOf("uuuu")
	o.packFrom = 1
	o.proposal = &proposal{next: o.after(4), packed: Whole(o.after(4)), emergency: true, notBefore: o.now}
	for name, c := range map[string]struct {
		q      peer
		joined gossip.Epoch
		whole  bool
	}{
		"holds the base":               {peer{epoch: o.view.Epoch}, o.view.Epoch, false},
		"holds the base, but asked":    {peer{epoch: o.view.Epoch, whole: true}, 0, true},
		"joined with it, not heard":    {peer{}, o.view.Epoch, true},
		"was there before, not heard":  {peer{}, o.view.Epoch - 1, false},
		"was there before, but asked":  {peer{whole: true}, o.view.Epoch - 1, true},
		"joined with it, and holds it": {peer{epoch: o.view.Epoch}, o.view.Epoch, false},
	} {
		m := *o.view.Member(2)
		m.Joined = c.joined
		a, ok := o.roundMessage(&m, &c.q, &Ping{}).(*Accept)
		if !ok || a.Base.Packed() == c.whole || a.Next != o.proposal.packed || !a.Emergency || a.Ping.Round != o.round {
			t.Errorf("%s: %+v", name, a)
		}
	}
	o.proposal.notBefore = o.now + 1
	if _, early := o.roundMessage(o.view.Member(2), &peer{}, &Ping{}).(*Accept); early {
		t.Error("sends a proposal before its time")
	}
}

// TestPingsAreASignOfLifeUnderAQuorum: or early in a term. Only joiners are sent the secret.
func TestPingsAreASignOfLifeUnderAQuorum(t *testing.T) {
	o := leadershipOf("uuj")
	o.membership.secret = [2]uint64{3, 4}
	for id, secret := range map[gossip.NodeID]bool{2: false, 3: true} {
		if p := o.roundMessage(o.view.Member(id), o.peers[id], &Ping{}).(*Ping); (p.Secret == o.membership.secret) != secret {
			t.Errorf("sends %d the secret %v", uint64(id), p.Secret)
		}
	}
	for name, c := range map[string]struct {
		since, quorum time.Duration
		life          bool
	}{
		"early in the term":            {2*testLease - 1, 0, true},
		"two leases after its start":   {2 * testLease, 0, false},
		"late, a quorum answers":       {time.Hour, 1, true},
		"late, its answers are of old": {time.Hour, 0, false},
	} {
		o.since, o.quorumUntil = o.now.Add(-c.since), o.now.Add(c.quorum)
		if p := o.roundMessage(o.view.Member(2), o.peers[2], &Ping{}).(*Ping); p.Life != c.life {
			t.Errorf("%s: life %v", name, p.Life)
		}
	}
}

// TestPongsThatCount: those to this leader's ballot, by members, to rounds that were sent.
func TestPongsThatCount(t *testing.T) {
	for name, c := range map[string]struct {
		from   gossip.NodeID
		change func(o *leadership, m *Pong)
		counts bool
	}{
		"the newest round":  {2, func(*leadership, *Pong) {}, true},
		"another ballot":    {2, func(_ *leadership, m *Pong) { m.Ballot.Round++ }, false},
		"no member":         {77, func(*leadership, *Pong) {}, false},
		"a round to come":   {2, func(_ *leadership, m *Pong) { m.Round++ }, false},
		"the round again":   {2, func(o *leadership, _ *Pong) { o.peers[2].round = o.round }, true},
		"an earlier round":  {2, func(o *leadership, m *Pong) { m.Round-- }, true},
		"a round before it": {2, func(o *leadership, m *Pong) { o.peers[2].round, m.Round = o.round, o.round-1 }, false},
	} {
		o := leadershipOf("uuu")
		o.now++
		o.later(0)
		m := &Pong{Ballot: o.ballot, Round: o.round, T0: 99, Unreachable: []gossip.NodeID{3}}
		c.change(o, m)
		o.onPong(c.from, m)
		if p := o.peers[2]; (p.t0 == 99) != c.counts || (p.answeredAt == o.now) != c.counts || (p.unreachable != nil) != c.counts || c.counts && p.round != m.Round {
			t.Errorf("%s: %+v", name, p)
		}
		if len(o.peers) != 3 {
			t.Errorf("%s: has state about a stranger", name)
		}
	}
	(*leadership)(nil).onPong(2, &Pong{})
}

// TestAPongShowsTheView: that the member holds, and the attempt that it has accepted.
func TestAPongShowsTheView(t *testing.T) {
	o := leadershipOf("uuu")
	o.peers[2].epoch, o.peers[2].whole, o.reviewNeeded = o.view.Epoch-2, true, false
	pong := &Pong{Ballot: o.ballot, Epoch: o.view.Epoch - 2, Round: o.round}
	if o.onPong(2, pong); o.reviewNeeded || !o.peers[2].whole {
		t.Error("a view that it has shown before makes the leader look")
	}
	pong.Epoch++
	if o.onPong(2, pong); !o.reviewNeeded || o.peers[2].whole || o.peers[2].epoch != pong.Epoch {
		t.Errorf("%+v after a newer view", o.peers[2])
	}
	pong.Accepted = o.view.Epoch
	o.onPong(2, pong)
	o.proposal = &proposal{base: o.view.Epoch, accepted: map[gossip.NodeID]bool{}}
	pong.Accepted = 0
	o.onPong(2, pong)
	pong.Accepted = o.view.Epoch - 1
	if o.onPong(2, pong); o.proposal.accepted[2] {
		t.Error("an answer to a ping, or to another proposal, counts")
	}
	pong.Accepted = o.view.Epoch
	if o.onPong(2, pong); !o.proposal.accepted[2] {
		t.Error("an answer to the proposal does not count")
	}
	o.proposal.base, o.proposal.accepted = 0, map[gossip.NodeID]bool{}
	pong.Accepted = 0
	if o.onPong(2, pong); o.proposal.accepted[2] {
		t.Error("an answer to a ping counts")
	}
}

// TestALeadersTimes: it is driven for its next ping, its batch, its joiners, a delayed proposal
// and the answers that it waits for, whichever is first.
func TestALeadersTimes(t *testing.T) {
	soon := func(o *leadership) clock.Instant { return o.now.Add(testPing / 50) }
	for name, c := range map[string]struct {
		change func(o *leadership)
		first  bool
	}{
		"a batch":              {func(o *leadership) { o.batchAt = soon(o) }, true},
		"a batch behind":       {func(o *leadership) { o.batchAt, o.proposal = soon(o), &proposal{} }, false},
		"a batch that is due":  {func(o *leadership) { o.batchAt = o.now }, false},
		"joiners":              {func(o *leadership) { o.raiseAt = soon(o) }, true},
		"joiners that are due": {func(o *leadership) { o.raiseAt = o.now }, false},
		"a delayed proposal":   {func(o *leadership) { o.proposal = &proposal{notBefore: soon(o)} }, true},
		"a proposal in flight": {func(o *leadership) { o.proposal = &proposal{notBefore: o.now} }, false},
		"a denied proof":       {func(o *leadership) { o.evidence.proofs[2] = &proof{deniedUntil: soon(o)} }, true},
		"answers":              {func(o *leadership) { o.doubts.asked[2] = &doubt{asked: soon(o).Add(-o.doubts.answerWait())} }, true},
		"nothing":              {func(*leadership) {}, false},
	} {
		o := leadershipOf("uuu")
		o.nextPing = o.now.Add(testPing)
		c.change(o)
		want := o.nextPing
		if c.first {
			want = soon(o)
		}
		if got := o.leaderDeadline(); got != want {
			t.Errorf("%s: driven at %v, want %v", name, got, want)
		}
	}
}

// TestALeaseNeedsAFreeLeader: a quorum's answers keep a leader that carries an attempt in its
// place, without a lease.
func TestALeaseNeedsAFreeLeader(t *testing.T) {
	o := leadershipOf("uuu")
	lease := o.leaseUntil
	if want := o.now.Add(testLease - time.Microsecond); lease != want || o.holder.lease.Until != want || o.quorumUntil != want || o.holder.grantedAt != o.now {
		t.Errorf("leads until %v, holds %+v, want %v", lease, o.holder.lease, want)
	}
	o.free = false
	o.later(testPing, 2)
	if o.leaseUntil != lease || o.quorumUntil != lease.Add(testPing) {
		t.Errorf("carries: leads until %v, the quorum holds until %v", o.leaseUntil, o.quorumUntil)
	}
	o.free = true
	o.nextPing = o.now + 5
	if o.driveLeaderLease(); o.leaseUntil != lease.Add(testPing) || o.nextPing != o.now+5 {
		t.Errorf("leads until %v, pings at %v", o.leaseUntil, o.nextPing)
	}
	o.now = o.leaseUntil
	if o.driveLeaderLease(); o.leaseUntil != o.now {
		t.Errorf("a lease without an answer, until %v", o.leaseUntil)
	}
	o.later(testPing)
	o.now++
	o.nextPing = o.now + 5
	o.onPong(2, &Pong{Ballot: o.ballot, Epoch: o.view.Epoch, Round: o.round})
	if o.driveLeaderLease(); o.nextPing != o.now || !o.leaseUntil.After(o.now) {
		t.Errorf("its lease is back until %v, pings at %v", o.leaseUntil, o.nextPing)
	}
	o.lastStaleRound = o.round
	o.later(testPing)
	lease = o.leaseUntil
	o.lastStaleRound = o.round
	o.onPong(2, &Pong{Ballot: o.ballot, Epoch: o.view.Epoch, Round: o.round})
	if o.driveLeaderLease(); o.leaseUntil != lease {
		t.Error("counts a round from before the commit")
	}
}

// TestALeaderResignsOnceItCannotLead: a lease after its last one, or when only a takeover by
// another candidacy can continue.
func TestALeaderResignsOnceItCannotLead(t *testing.T) {
	o := leadershipOf("uuu")
	o.since = o.since.Add(-2 * testLease)
	o.now = o.quorumUntil.Add(testLease)
	if _, _, r := o.advanceTerm(); r != nil {
		t.Errorf("resigns too soon: %+v", r)
	}
	o.now++
	if moved, commit, r := o.advanceTerm(); r == nil || !moved || commit || r.pause != testPing || r.spread != testLease {
		t.Errorf("without a quorum: %+v, moved %v", r, moved)
	}
	o = leadershipOf("uuu")
	o.quorumUntil, o.now = 0, o.since.Add(2*testLease)
	if _, _, r := o.advanceTerm(); r != nil {
		t.Errorf("resigns early in its term: %+v", r)
	}
	o = leadershipOf("uuu")
	o.evidence.onProof(ProvenDead{Subject: 2, Certain: true})
	o.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	if _, _, r := o.advanceTerm(); r == nil || r.pause != 0 || r.spread != 0 {
		t.Errorf("all others are dead: %+v", r)
	}
	o.holder.grantedAt = 0
	if o.mustTakeOver() {
		t.Error("takes over outside the window")
	}
	o = leadershipOf("uuuuu")
	o.beginProposal(&proposal{next: o.after(1, 2, 3), carried: true})
	o.evidence.onProof(ProvenDead{Subject: 4, Certain: true})
	o.evidence.onProof(ProvenDead{Subject: 5, Certain: true})
	if !o.mustTakeOver() {
		t.Error("the proposal needs dead members, and the living may take over")
	}
	o.holder.grantedAt = 0
	if o.mustTakeOver() {
		t.Error("may not take over")
	}
	if _, _, r := o.advanceTerm(); r == nil || r.pause != testLease || r.spread != testLease {
		t.Errorf("the proposal needs dead members: %+v", r)
	}
}

// TestALeaderNotesItsPauses: after more than half a lease it reads what has arrived first.
func TestALeaderNotesItsPauses(t *testing.T) {
	o := leadershipOf("uuu")
	o.now = o.drivenAt.Add(testLease / 2)
	if o.advanceTerm(); o.wokeAt != 0 || o.drivenAt != o.now {
		t.Errorf("woke at %v, driven at %v", o.wokeAt, o.drivenAt)
	}
	o.now = o.drivenAt.Add(testLease/2 + 1)
	if o.advanceTerm(); o.wokeAt != o.now {
		t.Errorf("woke at %v, want %v", o.wokeAt, o.now)
	}
}

// preparing returns a leader with a prepare in flight in its view.
func preparing(word string) *leadership {
	o := leadershipOf(word)
	o.free = false
	o.sentTo()
	o.drivePreparation()
	return o
}

// TestAPreparationUncoversAttempts: the leader is free once a quorum has promised and none has
// accepted anything; otherwise it carries the highest attempt.
func TestAPreparationUncoversAttempts(t *testing.T) {
	o := preparing("uuu")
	if to := o.sentTo(); !slices.Equal(to, []gossip.NodeID{2, 3}) || o.prep == nil || !o.prep.yes[1] {
		t.Fatalf("prepares with %v: %+v", to, o.prep)
	}
	if moved, r := o.drivePreparation(); moved || r != nil || o.sentTo() != nil {
		t.Error("moves on without an answer")
	}
	o.recordPromise(2, &Promised{Ballot: o.ballot, Base: o.view.Epoch - 1})
	if o.prep.yes[2] {
		t.Error("counts a promise in another view")
	}
	o.nextPing, o.reviewNeeded = 0, false
	o.recordPromise(2, &Promised{Ballot: o.ballot, Base: o.view.Epoch})
	o.reviewNeeded = false
	if moved, r := o.drivePreparation(); !moved || r != nil || !o.free || o.prep != nil || o.nextPing != o.now || !o.reviewNeeded {
		t.Errorf("free %v after a quorum", o.free)
	}
	o = preparing("uuu")
	low, high := o.after(3), o.after(2)
	o.acceptor.storeAttempt(o.view.Epoch, &attempt{ballot: Ballot{Round: 1}, next: low})
	o.prep = nil
	o.drivePreparation()
	o.recordPromise(3, &Promised{Ballot: o.ballot, Base: o.view.Epoch, Accepted: Whole(high), AcceptedBallot: Ballot{Round: 2}, Emergency: true})
	if moved, r := o.drivePreparation(); !moved || r != nil || o.free || o.proposal == nil || o.proposal.next != high || !o.proposal.carried || !o.proposal.emergency {
		t.Errorf("carries %+v", o.proposal)
	}
}

// TestAPreparationIsRepeatedEachRound: to the members that live and have not promised.
func TestAPreparationIsRepeatedEachRound(t *testing.T) {
	o := preparing("uuuu")
	o.recordPromise(2, &Promised{Ballot: o.ballot, Base: o.view.Epoch})
	o.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	prepares := func() (to []gossip.NodeID) {
		for _, s := range o.out.Send {
			if _, ok := s.Msg.(*Prepare); ok {
				to = append(to, s.To)
			}
		}
		o.out.Send = nil
		return to
	}
	prepares()
	if o.sendRound(); !slices.Equal(prepares(), []gossip.NodeID{4}) {
		t.Error("does not repeat the prepare to 4 alone")
	}
	o.prep.base--
	if o.sendRound(); prepares() != nil {
		t.Error("repeats the prepare of a former view")
	}
	o.prep.base++
	for id, asks := range map[gossip.NodeID]bool{2: false, 4: true} {
		o.sendWholeView(o.view.Member(id))
		if got := prepares() != nil; got != asks || !o.peers[id].whole {
			t.Errorf("sends %d a prepare with the whole view: %v", uint64(id), got)
		}
	}
}

// TestAPromiseIsAnAnswer: to the leader's round, and to its questions about deaths.
func TestAPromiseIsAnAnswer(t *testing.T) {
	o := leadershipOf("uuuu")
	o.evidence.onProof(ProvenDead{Subject: 4, Certain: true})
	o.evidence.onProof(ProvenDead{Subject: 3, Certain: true})
	o.doubts.undoubted(4)
	o.doubts.undoubted(3)
	o.now++
	o.peers[2].round, o.peers[2].epoch, o.reviewNeeded = 0, 1, false
	o.recordPromise(2, &Promised{Ballot: o.ballot, Base: 5, T0: 77, Linked: []gossip.NodeID{3}})
	if p := o.peers[2]; p.answeredAt != o.now || p.epoch != 5 || p.t0 != 77 || !o.reviewNeeded {
		t.Errorf("%+v after a promise", p)
	}
	if o.doubts.asked[3] != nil || !o.doubts.asked[4].answered[2] || o.evidence.dead(3) {
		t.Error("does not count the links that a promise reports")
	}
	o.peers[2].round = 1
	o.recordPromise(2, &Promised{Ballot: o.ballot, Base: 4, T0: 78})
	if p := o.peers[2]; p.epoch != 5 || p.t0 != 77 {
		t.Errorf("%+v, the answer to a round is newer", p)
	}
	o.recordPromise(99, &Promised{Ballot: o.ballot})
	if o.peers[99] != nil {
		t.Error("has state about a stranger")
	}
}

// TestATermBeginsWithItsPromises: their clocks count as answers, and their members as asked
// about the dead.
func TestATermBeginsWithItsPromises(t *testing.T) {
	p := campaignOf(1, "uuuj")
	p.evidence.onProof(ProvenDead{Subject: 3})
	p.departure.leavers[2] = true
	o := newLeadership(Ballot{Round: 1, Node: 1}, p.now.Add(-5))
	o.history, o.evidence, o.quorums, o.acceptor = p.history, p.evidence, p.quorums, p.acceptor
	o.holder, o.departure, o.membership = p.quorums.holder, p.departure, &membership{}
	o.foreign = &encounters{history: p.history}
	o.wireMachines()
	cand := &candidacy{began: p.now.Add(-3), yes: setMap(1, 2), found: findings{t0: map[gossip.NodeID]int64{2: 44}}}
	o.beginTerm(cand, wayAfresh)
	if q := o.peers[2]; q.t0 != 44 || q.answeredAt != o.now || q.epoch != o.view.Epoch || !q.now {
		t.Errorf("a promiser: %+v", q)
	}
	if q := o.peers[4]; q.t0 != 0 || q.answeredAt != o.since || q.epoch != 0 || q.now {
		t.Errorf("a joiner without a promise: %+v", q)
	}
	if !o.leaves[2] || o.batchAt != o.now.Add(o.batchWait()) || !o.free || !o.reviewNeeded {
		t.Errorf("leaves %v at %v, free %v", o.leaves, o.batchAt, o.free)
	}
	if q := o.doubts.asked[3]; q == nil || q.asked != cand.began || !q.answered[2] || !slices.Equal(q.waiting, []gossip.NodeID{2}) {
		t.Errorf("asked about the dead: %+v", q)
	}
	cand.yes[4] = true
	if o.doubts.asked[3].answered[4] {
		t.Error("shares the candidacy's answers")
	}
}
