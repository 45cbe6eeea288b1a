package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// later moves the leader's time on, with a round that the given members answer.
func (o *leadership) later(d time.Duration, answer ...gossip.NodeID) {
	o.now = o.now.Add(d)
	o.drivenAt = o.now
	o.sendRound()
	for _, id := range answer {
		o.onPong(id, &Pong{Ballot: o.ballot, Epoch: o.view.Epoch, Round: o.round, T0: int64(o.now)})
	}
	o.driveLeaderLease()
}

// TestCausesOfARemoval: each cause applies at its time, and not before.
func TestCausesOfARemoval(t *testing.T) {
	silent := testRemove + time.Microsecond
	weak := testLease + time.Microsecond
	certainDeath := func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 3, Certain: true}) }
	weakDeath := func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 3}) }
	ask := func(o *leadership) { o.doubts.undoubted(3) }
	answered := func(o *leadership) {
		ask(o)
		o.doubts.recordAnswer(2, &Doubted{Asked: []gossip.NodeID{3}})
	}
	pass := func(d time.Duration) func(o *leadership) { return func(o *leadership) { o.now = o.now.Add(d) } }
	for name, c := range map[string]struct {
		steps []func(o *leadership)
		want  gossip.Cause
	}{
		"it answers":                     {nil, 0},
		"silent":                         {[]func(*leadership){pass(silent)}, gossip.CauseSilent},
		"silent, not long enough":        {[]func(*leadership){pass(silent - 1)}, 0},
		"silent before the term":         {[]func(*leadership){func(o *leadership) { o.since = o.now.Add(1) }, pass(silent)}, 0},
		"silent, the leader woke":        {[]func(*leadership){pass(silent), func(o *leadership) { o.wokeAt = o.now.Add(1 - testPing) }}, 0},
		"silent, the leader woke before": {[]func(*leadership){pass(silent), func(o *leadership) { o.wokeAt = o.now.Add(-testPing) }}, gossip.CauseSilent},
		"asks to leave":                  {[]func(*leadership){func(o *leadership) { o.queueLeave(3); o.now = o.batchAt }}, gossip.CauseLeft},
		"asks to leave, batch not due":   {[]func(*leadership){func(o *leadership) { o.queueLeave(3); o.now = o.batchAt - 1 }}, 0},
		"certainly dead, not confirmed":  {[]func(*leadership){certainDeath}, 0},
		"certainly dead, confirmed":      {[]func(*leadership){certainDeath, answered}, gossip.CauseDead},
		"weakly dead, under its lease":   {[]func(*leadership){weakDeath, answered, pass(weak - 1)}, 0},
		"weakly dead, asked before":      {[]func(*leadership){weakDeath, answered, pass(weak)}, 0},
		"weakly dead, asked again":       {[]func(*leadership){weakDeath, pass(weak), answered}, gossip.CauseDead},
		"weakly dead, not confirmed":     {[]func(*leadership){weakDeath, pass(weak), ask}, 0},
		"weakly dead, the leader woke":   {[]func(*leadership){weakDeath, pass(weak), answered, func(o *leadership) { o.wokeAt = o.now }}, 0},
		"weakly dead before the term":    {[]func(*leadership){func(o *leadership) { o.since = o.now.Add(1) }, weakDeath, pass(weak), answered}, 0},
		"its lease is withheld":          {[]func(*leadership){func(o *leadership) { o.peers[3].leaseWithheldSince = o.now }, pass(silent)}, gossip.CauseYielded},
		"its lease is withheld, shortly": {[]func(*leadership){func(o *leadership) { o.peers[3].leaseWithheldSince = o.now }, pass(silent - 1)}, 0},
	} {
		o := leadershipOf("uuu")
		for _, step := range c.steps {
			step(o)
		}
		if got := o.removalCause(o.view.Member(3)); got != c.want {
			t.Errorf("%s: cause %v, want %v", name, got, c.want)
		}
	}
}

// TestALeaderLeavesWhenAnotherStays: a voter that answers, holds the view and does not leave.
func TestALeaderLeavesWhenAnotherStays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *leadership)
		leaves bool
	}{
		"another stays":         {func(*leadership) {}, true},
		"the batch is not due":  {func(o *leadership) { o.batchAt = o.now + 1 }, false},
		"it answered the last":  {func(o *leadership) { o.round += 1 }, true},
		"it is silent":          {func(o *leadership) { o.round += 2 }, false},
		"it leaves, too":        {func(o *leadership) { o.leaves[2] = true }, false},
		"it is dead":            {func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 2}) }, false},
		"it lacks the view":     {func(o *leadership) { o.peers[2].epoch-- }, false},
		"it is joining":         {func(o *leadership) { o.view.Members[1].Status = gossip.Joining }, false},
		"this node does not go": {func(o *leadership) { o.departure.leaving = false }, false},
	} {
		o := leadershipOf("uu")
		o.departure.leaving = true
		c.change(o)
		if got := o.removalCause(o.view.Member(1)) == gossip.CauseLeft; got != c.leaves {
			t.Errorf("%s: leaves %v", name, got)
		}
	}
}

// TestJoinersBecomeUp: once they and all voters that stay have answered in their view. The
// first one waits a moment for the others.
func TestJoinersBecomeUp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *leadership)
		up     []gossip.NodeID
	}{
		"both are ready":             {func(*leadership) {}, []gossip.NodeID{3, 4}},
		"one is late":                {func(o *leadership) { o.peers[4].epoch = 0 }, nil},
		"one is late, the wait over": {func(o *leadership) { o.peers[4].epoch, o.raiseAt = 0, o.now }, []gossip.NodeID{3}},
		"one is silent":              {func(o *leadership) { o.peers[4].round, o.raiseAt, o.round = 0, o.now, o.round+1 }, []gossip.NodeID{3}},
		"none is ready":              {func(o *leadership) { o.peers[3].epoch, o.peers[4].epoch = 0, 0 }, nil},
		"a voter lacks the view":     {func(o *leadership) { o.peers[2].epoch-- }, nil},
	} {
		o, next := withJoiners()
		c.change(o)
		changed := o.raiseJoiners(next)
		var up []gossip.NodeID
		for _, m := range next.Members[2:] {
			if m.Status == gossip.Up {
				up = append(up, m.ID)
			}
		}
		if !slices.Equal(up, c.up) || changed != (up != nil) {
			t.Errorf("%s: %v are up, want %v; changed %v", name, up, c.up, changed)
		}
	}
	o, next := withJoiners()
	o.peers[4].epoch = 0
	if o.raiseJoiners(next); o.raiseAt != o.now.Add(o.batchWait()) || o.leaderDeadline() != o.raiseAt {
		t.Errorf("waits for the other joiner until %v, now %v", o.raiseAt, o.now)
	}
	o.peers[3].epoch, o.raiseAt = 0, 0
	if o.raiseJoiners(next); o.raiseAt != 0 {
		t.Error("waits though no joiner is ready")
	}
}

// withJoiners returns the leader of a view that admitted 3 and 4, and the view after it.
func withJoiners() (*leadership, *gossip.View) {
	o := leadershipOf("uujj")
	o.nextPing = o.now.Add(testPing)
	o.view.Members[2].Joined, o.view.Members[3].Joined = o.view.Epoch, o.view.Epoch
	return o, o.after()
}

// TestNodesAreAdmitted: when the batch is due, each once, up to the bound, and none that was
// removed, is proven dead, or waits for a contest.
func TestNodesAreAdmitted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *leadership)
		admits bool
	}{
		"a new node":                {func(*leadership) {}, true},
		"before the batch is due":   {func(o *leadership) { o.now-- }, false},
		"a former member":           {func(o *leadership) { o.gone[9] = true }, false},
		"a dead node":               {func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 9}) }, false},
		"a member":                  {func(o *leadership) { o.view.Members[1].ID = 9; o.peers[9] = o.peers[2] }, false},
		"during a contest":          {func(o *leadership) { o.view.Foreign = []gossip.Contest{{Cluster: 5, Verdict: gossip.VerdictContested}} }, false},
		"below a generation it met": {func(o *leadership) { o.foreign.least = 7; o.foreign.mayRule = func() bool { return false } }, false},
	} {
		o := leadershipOf("uu")
		o.queueJoin(gossip.Node{ID: 9, Name: "nine"})
		o.now = o.batchAt
		c.change(o)
		next := o.buildNext()
		m := next.Member(9)
		if name == "a member" {
			m = nil
			if next != nil {
				t.Errorf("%s: the next view is %s", name, viewText(next))
			}
		}
		if (m != nil) != c.admits {
			t.Errorf("%s: admits %v", name, m)
		}
		if c.admits && (m.Status != gossip.Joining || m.Joined != next.Epoch || m.Name != "nine" || len(o.joins) != 0 || o.batchAt != 0) {
			t.Errorf("%s: %+v, still waiting %v", name, m, o.joins)
		}
	}
	o := leadershipOf("uu")
	next := o.after()
	for id := gossip.NodeID(1000); len(next.Members) < membersMax-1; id++ {
		next.Members = append(next.Members, gossip.Member{Node: gossip.Node{ID: id}})
	}
	o.queueJoin(gossip.Node{ID: 1000})
	o.queueJoin(gossip.Node{ID: 7, WireOldest: 1, WireNewest: 2}) // the members speak 0
	o.queueJoin(gossip.Node{ID: 8})
	o.queueJoin(gossip.Node{ID: 9})
	if !o.admitJoiners(next) || len(next.Members) != membersMax || next.Member(8) == nil {
		t.Errorf("%d members, at most %d", len(next.Members), membersMax)
	}
}

// TestAMemberThatIsLeftOutIsNotAdmitted checks that the view which leaves a member out does not admit it as a
// new one. Its join request still waits if that arrived before the leader carried the view that admits it.
func TestAMemberThatIsLeftOutIsNotAdmitted(t *testing.T) {
	o := leadershipOf("uuu")
	o.queueJoin(gossip.Node{ID: 3})
	o.queueLeave(3)
	o.now = o.batchAt
	if next := o.buildNext(); next == nil || next.Member(3) != nil || len(next.Out) != 1 {
		t.Errorf("the next view is %+v", next)
	}
}

// TestTheNextViewKeepsWhatItMust: order, standing, origin and history of the cluster, with the
// departures and their causes.
func TestTheNextViewKeepsWhatItMust(t *testing.T) {
	o := leadershipOf("uuuu")
	o.view.Origin, o.view.TokensFrom, o.view.Standing.Birth = 12, 13, 9
	o.view.Forks = []gossip.Fork{{From: 1, To: 2, Kept: 3, By: 4}}
	if next := o.buildNext(); next != nil {
		t.Fatalf("a view without a reason: %s", viewText(next))
	}
	o.queueLeave(2)
	o.queueNotice(4)
	o.evidence.onProof(ProvenDead{Subject: 3, Reason: "exit", Certain: true})
	o.now = o.batchAt
	o.doubts.undoubted(3)
	o.doubts.recordAnswer(2, &Doubted{Asked: []gossip.NodeID{3}})
	o.doubts.recordAnswer(4, &Doubted{Asked: []gossip.NodeID{3}})
	next := o.buildNext()
	if next == nil || next.Epoch != o.view.Epoch+1 || next.Cluster != 1 || next.Origin != 12 || next.TokensFrom != 13 || len(next.Forks) != 1 ||
		next.Standing != (gossip.Standing{Peak: 2, Birth: 9}) {
		t.Fatalf("next view %+v", next)
	}
	if len(next.Members) != 2 || next.Members[0].ID != 1 || next.Members[1].ID != 4 || next.Members[1].Status != gossip.Leaving {
		t.Errorf("members %s", viewText(next))
	}
	if want := []gossip.Departure{{ID: 2, Cause: gossip.CauseLeft}, {ID: 3, Cause: gossip.CauseDead, Evidence: "exit"}}; !slices.Equal(next.Out, want) {
		t.Errorf("departures %+v", next.Out)
	}
}

// TestStandingCountsTheVotersThatAnswer: the most at a time, and the size where a contest begins
// among nodes that do not authenticate each other.
func TestStandingCountsTheVotersThatAnswer(t *testing.T) {
	contest := []gossip.Contest{{Cluster: 5, Verdict: gossip.VerdictContested}}
	for name, c := range map[string]struct {
		change     func(o *leadership, next *gossip.View)
		peak, size int
	}{
		"all answer":                {func(*leadership, *gossip.View) {}, 3, 0},
		"one answered the last":     {func(o *leadership, _ *gossip.View) { o.peers[2].round-- }, 3, 0},
		"one is silent":             {func(o *leadership, _ *gossip.View) { o.peers[2].round, o.round = 1, 3; o.peers[3].round = 3 }, 2, 0},
		"one has never answered":    {func(o *leadership, _ *gossip.View) { o.peers[2].t0 = 0 }, 2, 0},
		"one is new":                {func(o *leadership, _ *gossip.View) { delete(o.peers, 2) }, 2, 0},
		"a higher peak before":      {func(_ *leadership, next *gossip.View) { next.Standing.Peak = 8 }, 8, 0},
		"frozen in a contest":       {func(o *leadership, next *gossip.View) { o.view.Foreign, next.Foreign = contest, contest }, 0, 0},
		"a contest begins":          {func(_ *leadership, next *gossip.View) { next.Foreign = contest }, 3, 3},
		"one among authenticated":   {func(o *leadership, next *gossip.View) { next.Foreign = contest; o.cfg.Authenticated = true }, 3, 0},
		"one, a higher size before": {func(_ *leadership, next *gossip.View) { next.Foreign, next.Standing.Size = contest, 8 }, 3, 8},
	} {
		o := leadershipOf("uuuj")
		next := o.after()
		c.change(o, next)
		if o.rankCluster(next); next.Standing.Peak != c.peak || next.Standing.Size != c.size {
			t.Errorf("%s: %+v, want peak %d and size %d", name, next.Standing, c.peak, c.size)
		}
	}
}

// TestATakeoverKeepsThoseThatAnswered: joiners become up, and all others leave with their proofs.
func TestATakeoverKeepsThoseThatAnswered(t *testing.T) {
	o := leadershipOf("uujlu")
	o.view.Origin, o.view.TokensFrom, o.view.Standing.Peak = 12, 13, 9
	o.view.Foreign = []gossip.Contest{{Cluster: 5, Verdict: gossip.VerdictStands}}
	o.generation = 6
	for _, id := range []gossip.NodeID{2, 5} {
		o.evidence.onProof(ProvenDead{Subject: id, Reason: "exit", Certain: true})
	}
	o.accepts()
	o.takeOver(setMap(1, 3, 4))
	next := o.proposal.next
	if !o.proposal.emergency || next.Epoch != gossip.TakeoverEpoch(7) || next.Origin != 12 || next.TokensFrom != 13 || next.Standing.Peak != 9 || len(next.Foreign) != 1 || next.Cluster != 1 {
		t.Errorf("proposes %+v", next)
	}
	if m := next.Members; len(m) != 3 || m[0].ID != 1 || m[1].Status != gossip.Up || m[2].Status != gossip.Leaving {
		t.Errorf("members %s", viewText(next))
	}
	if f := next.Forks; len(f) != 1 || f[0] != (gossip.Fork{From: o.view.Epoch, To: next.Epoch, Kept: 3, By: 1}) {
		t.Errorf("forks %+v", f)
	}
	if len(next.Out) != 2 || next.Out[1] != (gossip.Departure{ID: 5, Cause: gossip.CauseDead, Evidence: "exit"}) {
		t.Errorf("departures %+v", next.Out)
	}
	if got := o.accepts(); len(got) != 4 || o.generation != 7 {
		t.Errorf("sends accepts to %v, has met generation %d", got, o.generation)
	}
}

// TestAViewNeedsAQuorumThatAnswers: of the present view and of the next, in the last round or
// the one before.
func TestAViewNeedsAQuorumThatAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(o *leadership)
		proposes bool
	}{
		"all answer":                    {func(*leadership) {}, true},
		"all answered the round before": {func(o *leadership) { o.later(testPing) }, true},
		"none for two rounds":           {func(o *leadership) { o.later(testPing); o.later(testPing) }, false},
		"a quorum answers":              {func(o *leadership) { o.later(testPing); o.later(testPing, 2, 3) }, true},
		"the leaving ones do not count": {func(o *leadership) { o.later(testPing); o.later(testPing, 4, 5) }, false},
		"the dead do not count":         {func(o *leadership) { o.evidence.proofs[2], o.evidence.proofs[3] = &proof{}, &proof{} }, false},
		"a quorum of the next alone": {func(o *leadership) {
			o.evidence.proofs[3], o.evidence.proofs[4], o.evidence.proofs[5] = &proof{}, &proof{}, &proof{}
		}, false},
		"no reason to look": {func(o *leadership) { o.reviewNeeded, o.batchAt = false, 0 }, false},
	} {
		o := leadershipOf("uuuuu")
		o.queueLeave(4)
		o.queueLeave(5)
		o.now = o.batchAt
		c.change(o)
		if got := o.proposeNext(); got != c.proposes || (o.proposal != nil) != c.proposes {
			t.Errorf("%s: proposes %v", name, got)
		}
	}
}

// TestAnIdleLeaderLooksOnce: without a change it proposes nothing, and forgets the batch.
func TestAnIdleLeaderLooksOnce(t *testing.T) {
	o := leadershipOf("uuu")
	o.queueJoin(gossip.Node{ID: 9})
	o.gone[9] = true
	o.now = o.batchAt
	o.raiseAt = o.now
	if o.proposeNext() || o.reviewNeeded || o.batchAt != 0 || o.raiseAt != 0 || len(o.joins) != 0 {
		t.Errorf("proposes %+v, looks again %v, batch at %v, joiners at %v", o.proposal, o.reviewNeeded, o.batchAt, o.raiseAt)
	}
}

// TestALeaderFollowsItsView: it drops its state about former members, begins one about new
// ones, and counts only rounds after the commit.
func TestALeaderFollowsItsView(t *testing.T) {
	o := leadershipOf("uuuu")
	o.queueLeave(2)
	o.queueNotice(2)
	o.queueNotice(3)
	o.evidence.onProof(ProvenDead{Subject: 2})
	o.doubts.undoubted(2)
	o.joins = nil
	o.batchAt = 0
	before := o.view
	next := o.after(2)
	next.Members[1].Status = gossip.Leaving
	next.Members = append(next.Members, gossip.Member{Node: gossip.Node{ID: 9}, Status: gossip.Joining})
	o.countBoth(next)
	o.advanceTo(next, next.Member(1))
	o.now++
	o.followView(before)
	if o.peers[2] != nil || o.leaves[2] || o.notices[2] || o.doubts.asked[2] != nil || o.notices[3] {
		t.Error("keeps state about a former member, or a notice that the view shows")
	}
	if p := o.peers[9]; p == nil || p.answeredAt != o.now || p.now || p.next || p.stays {
		t.Errorf("the new member: %+v", p)
	}
	if p := o.peers[4]; !p.now || p.next || p.stays || o.proposed != nil || !o.reviewNeeded || o.former != before || o.lastStaleRound != o.round || o.batchAt != 0 {
		t.Errorf("%+v, proposed %v, former %v, stale rounds up to %d of %d", p, o.proposed, o.former, o.lastStaleRound, o.round)
	}
	if o.peers[1].epoch != next.Epoch || o.current.view != next {
		t.Error("does not count itself in the new view")
	}
	for name, wait := range map[string]func(){
		"a join":   func() { o.joins = []gossip.Node{{ID: 8}} },
		"a leave":  func() { o.joins, o.leaves[4] = nil, true },
		"a notice": func() { delete(o.leaves, 4); o.notices[4] = true },
	} {
		o.joins, o.batchAt = nil, 0
		clear(o.leaves)
		clear(o.notices)
		if wait(); true {
			o.followView(before)
		}
		if o.batchAt != o.now.Add(o.batchWait()) {
			t.Errorf("%s waits: the batch is at %v", name, o.batchAt)
		}
	}
}

// TestAProposalCountsBothViews: who stays, and who votes in the next.
func TestAProposalCountsBothViews(t *testing.T) {
	o := leadershipOf("uuuj")
	next := o.after(2)
	next.Members[1].Status = gossip.Joining
	next.Members = append(next.Members, gossip.Member{Node: gossip.Node{ID: 9}, Status: gossip.Joining})
	o.joins, o.batchAt, o.raiseAt = nil, 5, 6
	o.prep = &preparation{}
	o.beginProposal(&proposal{next: next})
	for id, want := range map[gossip.NodeID][2]bool{1: {true, true}, 2: {false, false}, 3: {true, false}, 4: {true, false}} {
		if p := o.peers[id]; [2]bool{p.stays, p.next} != want {
			t.Errorf("%d stays %v, votes in the next view %v", uint64(id), p.stays, p.next)
		}
	}
	if o.prep != nil || o.batchAt != 0 || o.raiseAt != 0 || o.proposal.base != o.view.Epoch || o.proposed == nil || !o.proposal.accepted[1] || len(o.proposal.accepted) != 1 {
		t.Errorf("%+v, preparation %v, batch at %v", o.proposal, o.prep, o.batchAt)
	}
	o.countBoth(o.view)
	if p := o.peers[2]; !p.stays || !p.next {
		t.Error("does not count a member of the next view")
	}
}

// TestARequestThatWaitsKeepsItsTime: a look at the view before the batch is due leaves it.
func TestARequestThatWaitsKeepsItsTime(t *testing.T) {
	o := leadershipOf("uuu")
	o.queueJoin(gossip.Node{ID: 9})
	due := o.batchAt
	if o.proposeNext(); o.batchAt != due || len(o.joins) != 1 {
		t.Errorf("the batch is at %v, was at %v", o.batchAt, due)
	}
	o, _ = withJoiners()
	o.peers[4].epoch = 0
	o.proposeNext()
	wait := o.raiseAt
	o.reviewNeeded = true
	if o.proposeNext() || wait == 0 || o.raiseAt != wait {
		t.Errorf("joiners wait until %v, waited until %v", o.raiseAt, wait)
	}
	o.reviewNeeded = false
	o.now = wait - 1
	if o.proposeNext() || o.raiseAt != wait {
		t.Error("looks before the time")
	}
	o.now = wait
	if !o.proposeNext() || o.proposal.next.Member(3).Status != gossip.Up || o.proposal.next.Member(4).Status != gossip.Joining {
		t.Error("does not make the joiner up that is ready")
	}
}

// TestAChangeStandsBesideARefusedJoin: a leave is proposed although the join is not.
func TestAChangeStandsBesideARefusedJoin(t *testing.T) {
	o := leadershipOf("uuu")
	o.queueJoin(gossip.Node{ID: 9})
	o.queueLeave(3)
	o.gone[9] = true
	o.now = o.batchAt
	if next := o.buildNext(); next == nil || next.Member(3) != nil || next.Member(9) != nil {
		t.Errorf("next view %v", next)
	}
}

// TestALeaderThatIsLeftOutSendsTheView: it carries a view without itself, commits it, sends it
// to the members that stay and ends.
func TestALeaderThatIsLeftOutSendsTheView(t *testing.T) {
	c, ids, now := leading(4)
	c.now = now
	c.Step(now, Tick{}, &Effects{})
	next := &gossip.View{Cluster: c.view.Cluster, Epoch: c.view.Epoch + 1, Members: c.view.Members[1:]}
	var out Effects
	c.out = &out
	c.leadership.free = false
	c.leadership.beginProposal(&proposal{next: next, carried: true})
	out.Reset()
	for _, id := range ids {
		got := c.feed(id, &Pong{Ballot: c.leadership.ballot, Epoch: c.view.Epoch, Round: c.leadership.round, Accepted: c.view.Epoch})
		if got.Removed == nil {
			continue
		}
		if to := receivers[*Decided](got); !slices.Equal(to, ids) || !got.Abandon {
			t.Errorf("sends the view to %v", to)
		}
		return
	}
	t.Error("does not end")
}
