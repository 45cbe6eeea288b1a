package view

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
)

// memberCore returns the core of a node in the view of word, which follows leader.
func memberCore(self, leader gossip.NodeID, word string) *Core {
	c := New(Config{Self: gossip.Node{ID: self}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove, Evidence: gossip.EvidenceFull}, clock.Instant(time.Hour))
	c.adopt0(viewOf(word), c.now)
	c.follower.leader = leader
	c.follower.leaderlessSince = c.now.Add(testLease)
	return c
}

// feed steps the core with a message, and returns the effects.
func (c *Core) feed(from gossip.NodeID, m Message) *Effects {
	var out Effects
	c.Step(c.now, Received{From: from, Msg: m}, &out)
	return &out
}

// receivers lists the receivers of the messages of one type.
func receivers[M Message](out *Effects) (to []gossip.NodeID) {
	for _, s := range out.Send {
		if _, ok := s.Msg.(M); ok {
			to = append(to, s.To)
		}
	}
	return to
}

// TestAMessageSpeaksForItsSender: one under another node's ballot, or in its name, is ignored,
// and so is a proposal that does not follow its base.
func TestAMessageSpeaksForItsSender(t *testing.T) {
	own := Ballot{Round: 1, Node: 2}
	base, next := viewOf("uuu"), viewOf("uuu")
	next.Epoch++
	accept := func(change func(a *Accept)) *Accept {
		b, n := *base, *next
		a := &Accept{Ping: Ping{Ballot: own, Epoch: base.Epoch}, Base: Whole(&b), Next: Whole(&n)}
		change(a)
		return a
	}
	for name, c := range map[string]struct {
		msg  Message
		want bool
	}{
		"ping":                      {&Ping{Ballot: own}, true},
		"ping, other ballot":        {&Ping{Ballot: Ballot{Round: 1, Node: 3}}, false},
		"pre-vote":                  {&PreVote{Ballot: own}, true},
		"pre-vote, other ballot":    {&PreVote{}, false},
		"prepare":                   {&Prepare{Ballot: own}, true},
		"prepare, other ballot":     {&Prepare{}, false},
		"own join":                  {&JoinRequest{Node: gossip.Node{ID: 2}}, true},
		"another's join":            {&JoinRequest{Node: gossip.Node{ID: 3}}, false},
		"a forwarded join":          {&JoinRequest{Node: gossip.Node{ID: 3}, Hops: 1}, true},
		"own encounter":             {&Encounter{From: gossip.Node{ID: 2}}, true},
		"another's encounter":       {&Encounter{From: gossip.Node{ID: 3}}, false},
		"a forwarded encounter":     {&Encounter{From: gossip.Node{ID: 3}, Hops: 1}, true},
		"accept":                    {accept(func(*Accept) {}), true},
		"accept, other ballot":      {accept(func(a *Accept) { a.Ping.Ballot.Node = 3 }), false},
		"accept without a base":     {accept(func(a *Accept) { a.Base = nil }), false},
		"accept without a view":     {accept(func(a *Accept) { a.Next = nil }), false},
		"accept, another cluster":   {accept(func(a *Accept) { a.Next.Cluster++ }), false},
		"accept, the ping's epoch":  {accept(func(a *Accept) { a.Ping.Epoch-- }), false},
		"accept of the base":        {accept(func(a *Accept) { a.Next.Epoch = a.Base.Epoch }), false},
		"accept of an earlier view": {accept(func(a *Accept) { a.Next.Epoch = a.Base.Epoch - 1 }), false},
		"any other message":         {&LeaveRequest{}, true},
	} {
		if got := speaksForItself(2, c.msg); got != c.want {
			t.Errorf("%s: speaks for its sender %v", name, got)
		}
	}
	c := memberCore(1, 2, "uuu")
	if out := c.feed(3, &Prepare{Ballot: Ballot{Round: 9, Node: 2}, Base: Whole(c.view)}); c.acceptor.promised.Round != 0 || len(out.Send) != 0 {
		t.Error("promises to a message in another node's name")
	}
}

// TestAMemberForwardsJoinRequests: to its leader, and names it to the joiner.
func TestAMemberForwardsJoinRequests(t *testing.T) {
	joiner := gossip.Node{ID: 9, Addr: "9:1"}
	for name, c := range map[string]struct {
		from    gossip.NodeID
		m       JoinRequest
		leader  gossip.NodeID
		to      []gossip.NodeID
		isNamed bool
	}{
		"of the joiner":       {9, JoinRequest{Node: joiner, Least: 3}, 2, []gossip.NodeID{2}, true},
		"of another member":   {3, JoinRequest{Node: joiner, Hops: hopsMax - 1}, 2, []gossip.NodeID{2}, false},
		"forwarded too often": {3, JoinRequest{Node: joiner, Hops: hopsMax}, 2, nil, false},
		"without a leader":    {9, JoinRequest{Node: joiner}, 0, nil, false},
		"of the leader":       {2, JoinRequest{Node: gossip.Node{ID: 2}}, 2, nil, false},
		"of no node":          {3, JoinRequest{Hops: 1}, 2, nil, false},
		"with a member's id":  {3, JoinRequest{Node: gossip.Node{ID: 3, Addr: "other:1"}}, 2, nil, false},
	} {
		core := memberCore(1, c.leader, "uuu")
		m := c.m
		out := core.feed(c.from, &m)
		if to := receivers[*JoinRequest](out); !slices.Equal(to, c.to) {
			t.Errorf("%s: forwards to %v", name, to)
		}
		if named := receivers[*JoinPassed](out); (named != nil) != c.isNamed {
			t.Errorf("%s: names the leader to %v", name, named)
		}
		for _, s := range out.Send {
			if f, ok := s.Msg.(*JoinRequest); ok && (f.Hops != m.Hops+1 || f.Least != m.Least || f.Node.ID != m.Node.ID) {
				t.Errorf("%s: forwards %+v", name, f)
			}
		}
	}
}

// TestALeaderTakesJoinRequests: of nodes that were never members, outside a contest.
func TestALeaderTakesJoinRequests(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(c *Core)
		queued  bool
		refused bool
		learns  bool
	}{
		"a new node":    {func(*Core) {}, true, false, true},
		"a removed one": {func(c *Core) { c.gone[9] = true }, false, true, true},
		"a member": {func(c *Core) {
			c.view.Members[2].Node, c.leadership.peers[9] = gossip.Node{ID: 9}, c.leadership.peers[3]
		}, false, false, true},
		"of other wire versions": {func(c *Core) {
			c.view.Members[1].WireOldest, c.view.Members[1].WireNewest = 4, 5
		}, false, false, false},
		"during a contest": {func(c *Core) { c.view.Foreign = []gossip.Contest{{Cluster: 5, Verdict: gossip.VerdictContested}} }, false, false, false},
	} {
		core, _, now := leading(3)
		core.now = now
		c.change(core)
		out := core.feed(9, &JoinRequest{Node: gossip.Node{ID: 9}, Least: 50})
		if got := len(core.leadership.joins) == 1; got != c.queued || (core.foreign.least == 50) != c.queued {
			t.Errorf("%s: queued %v, above generation %d", name, got, core.foreign.least)
		}
		if got := receivers[*JoinRefused](out); (got != nil) != c.refused || (len(out.Learn) == 1) != c.learns {
			t.Errorf("%s: refused %v, learns %v", name, got, out.Learn)
		}
		if c.queued {
			core.feed(9, &JoinRequest{Node: gossip.Node{ID: 9}, Least: 40})
			core.feed(8, &JoinRequest{Node: gossip.Node{ID: 8}, Least: 40})
			if core.foreign.least != 50 || len(core.leadership.joins) != 2 {
				t.Errorf("%s: above generation %d, %d wait", name, core.foreign.least, len(core.leadership.joins))
			}
		}
	}
}

// TestLeaveRequestsFindTheirLeader: a leader queues them, a member keeps them for the next
// leader, and a former member is sent the view without it.
func TestLeaveRequestsFindTheirLeader(t *testing.T) {
	c, _, now := leading(3)
	c.now = now
	if c.feed(2, &LeaveRequest{}); !c.leadership.leaves[2] {
		t.Error("the leader does not queue it")
	}
	c = memberCore(1, 0, "uuu")
	if c.feed(2, &LeaveRequest{}); !c.departure.leavers[2] {
		t.Error("a member does not keep it")
	}
	c.gone[9] = true
	if out := c.feed(9, &LeaveRequest{}); len(out.Send) != 1 || out.Send[0].Msg.(*Decided).View.View != c.view || c.departure.leavers[9] {
		t.Errorf("answers a former member with %+v", out.Send)
	}
	if out := c.feed(8, &LeaveRequest{}); len(out.Send) != 0 || c.departure.leavers[8] {
		t.Error("answers a stranger")
	}
}

// TestARefusalEndsAJoiner: by a node that it has asked. A member ignores it.
func TestARefusalEndsAJoiner(t *testing.T) {
	c := New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, 1)
	var out Effects
	c.Step(1, Contacts{Nodes: []gossip.Node{{ID: 2}}}, &out)
	if got := c.feed(3, &JoinRefused{Reason: "no"}); got.Removed != nil || c.Over() {
		t.Error("ends by a node that it has not asked")
	}
	if got := c.feed(2, &JoinRefused{Reason: "no"}); got.Removed == nil || got.Removed.Reason != "refused: no" || !got.Abandon || !c.Over() {
		t.Errorf("removed %+v", got.Removed)
	}
	if c.Deadline() != clock.Never {
		t.Errorf("an ended node waits until %v", c.Deadline())
	}
	c = memberCore(1, 2, "uuu")
	if got := c.feed(2, &JoinRefused{Reason: "no"}); got.Removed != nil {
		t.Error("a refusal ends a member")
	}
}

// TestAViewThatCannotBeUnpackedIsRequested: the first and a newer one. The message is dropped.
func TestAViewThatCannotBeUnpackedIsRequested(t *testing.T) {
	v := viewOf("uuu")
	v.Epoch += 5
	packed := &SentView{View: &gossip.View{Cluster: 1, Epoch: v.Epoch}, change: &change{base: v.Epoch - 1}}
	c := New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, 1)
	var out Effects
	c.Step(1, Contacts{Nodes: []gossip.Node{{ID: 2}}}, &out)
	for name, c := range map[string]*Core{"a joiner": c, "a member": memberCore(1, 2, "uuu")} {
		was := c.view
		if got := receivers[*NeedView](c.feed(2, &Decided{View: packed})); !slices.Equal(got, []gossip.NodeID{2}) || c.view != was {
			t.Errorf("%s: requests the view of %v", name, got)
		}
		if c.feed(2, &Decided{View: Whole(v)}); c.view != v {
			t.Errorf("%s: does not learn the whole view", name)
		}
	}
}

// TestAPingInAnotherView: an older one is answered with our view, a newer one without its view
// makes the leader send it.
func TestAPingInAnotherView(t *testing.T) {
	ping := func(c *Core, change func(p *Ping)) *Effects {
		p := &Ping{Ballot: Ballot{Round: 3, Node: 2}, Cluster: 1, Epoch: c.view.Epoch, Round: 7, Life: true}
		change(p)
		return c.feed(2, p)
	}
	c := memberCore(1, 0, "uuu")
	if out := ping(c, func(p *Ping) { p.Epoch-- }); !slices.Equal(receivers[*Decided](out), []gossip.NodeID{2}) || len(out.Send) != 1 || c.acceptor.promised.Round != 0 {
		t.Errorf("an older view: %+v", out.Send)
	}
	out := ping(c, func(p *Ping) { p.Epoch++ })
	if p, ok := out.Send[0].Msg.(*Pong); !ok || len(out.Send) != 1 || p.Round != 0 || p.Epoch != c.view.Epoch || p.T0 != int64(c.now) || p.Ballot.Round != 3 || c.acceptor.promised.Round != 0 {
		t.Errorf("a newer view: %+v", out.Send)
	}
	if out := ping(c, func(p *Ping) { p.Cluster = 9 }); len(out.Send) != 0 || len(out.Trace) != 1 {
		t.Errorf("another cluster: %+v", out.Send)
	}
	c.now++
	out = ping(c, func(*Ping) {})
	if p, ok := out.Send[0].Msg.(*Pong); !ok || p.Round != 7 || p.Accepted != 0 || c.follower.leader != 2 || c.acceptor.promised.Round != 3 || c.follower.pingedAt != c.now {
		t.Errorf("our view: %+v, follows %v", out.Send, c.follower.leader)
	}
	c = memberCore(1, 0, "uuu")
	if ping(c, func(p *Ping) { p.Life = false }); c.follower.leader != 0 || c.acceptor.guard.leader != 2 {
		t.Errorf("follows %v by a ping that is no sign of life", c.follower.leader)
	}
}

// TestAProposalOnAnUnknownBaseIsNotStored checks that a member stores no proposal whose difference is from a
// view that it does not hold, and neither answers it nor follows its sender.
func TestAProposalOnAnUnknownBaseIsNotStored(t *testing.T) {
	for _, isKnown := range []bool{false, true} {
		c := memberCore(1, 0, "uuu")
		c.packFrom = 1
		base := *c.view
		next := c.after(3)
		packed := &SentView{View: &gossip.View{Cluster: 1, Epoch: next.Epoch}, change: difference(next, &base)}
		if !isKnown {
			packed.change.base--
		}
		ping := Ping{Ballot: Ballot{Round: 3, Node: 2}, Cluster: 1, Epoch: c.view.Epoch, Round: 7, Life: true}
		out := c.feed(2, &Accept{Ping: ping, Base: Whole(c.view), Next: packed})
		stored := c.acceptor.attempts[c.view.Epoch] != nil
		if answered := len(receivers[*Pong](out)) > 0; stored != isKnown || answered != isKnown || (c.follower.leader == 2) != isKnown {
			t.Errorf("a difference from a view that it holds: %v; stores it %v, answers %v, follows %v", isKnown, stored, answered, c.follower.leader)
		}
	}
}

// TestAMemberReportsAnotherClusterWithItsNodes checks that a member reports another cluster that it
// has met to its leader, and does not report one without a node, which could not be asked.
func TestAMemberReportsAnotherClusterWithItsNodes(t *testing.T) {
	for _, nodes := range [][]gossip.Node{nil, {{ID: 51, Addr: "10.9.9.9:1"}}} {
		c := memberCore(1, 2, "uuu")
		c.cfg.Foreign = gossip.ForeignMerge
		var out Effects
		c.Step(c.now, ForeignSeen{Cluster: 9, Nodes: nodes}, &out)
		if to := receivers[*Sighted](&out); len(to) != len(nodes) || len(to) > 0 && to[0] != 2 {
			t.Errorf("with %d nodes: reports to %v", len(nodes), to)
		}
	}
}

// TestANackEndsAnAttemptToLead: of the same ballot, by a higher one.
func TestANackEndsAnAttemptToLead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *Nack)
		ends   bool
	}{
		"a higher ballot":      {func(*Nack) {}, true},
		"the same ballot":      {func(m *Nack) { m.Promised = m.Ballot }, false},
		"to another attempt":   {func(m *Nack) { m.Ballot.Round-- }, false},
		"to another candidate": {func(m *Nack) { m.Ballot.Node = 3 }, false},
	} {
		leader, _, now := leading(3)
		leader.now = now
		m := &Nack{Ballot: leader.leadership.ballot, Promised: Ballot{Round: 80, Node: 2}}
		c.change(m)
		if leader.feed(2, m); (leader.leadership == nil) != c.ends || (leader.acceptor.roundSeen == 80) != c.ends {
			t.Errorf("%s: steps down %v", name, leader.leadership == nil)
		}
		candidate := memberCore(1, 0, "uuu")
		candidate.now = candidate.now.Add(time.Minute)
		var out Effects
		candidate.Step(candidate.now, Tick{}, &out)
		m = &Nack{Ballot: candidate.campaign.candidacy.ballot, Promised: Ballot{Round: 80, Node: 2}}
		c.change(m)
		if candidate.feed(2, m); (candidate.campaign.candidacy == nil) != c.ends {
			t.Errorf("%s: the candidacy ends %v", name, candidate.campaign.candidacy == nil)
		}
	}
}

// TestAskedForTheWholeView: a leader repeats its messages, a candidate its question, another
// member sends the view.
func TestAskedForTheWholeView(t *testing.T) {
	leader, _, now := leading(3)
	leader.Step(now, Tick{}, &Effects{}) // the round that is due
	if out := leader.feed(2, &NeedView{}); !slices.Equal(receivers[*Ping](out), []gossip.NodeID{2}) || out.Send[0].Msg.(*Ping).View.Packed() || !leader.leadership.peers[2].whole {
		t.Errorf("a leader sends %+v", out.Send)
	}
	leader.gone[9] = true
	if out := leader.feed(9, &NeedView{}); !slices.Equal(receivers[*Decided](out), []gossip.NodeID{9}) {
		t.Errorf("a leader sends a former member %+v", out.Send)
	}
	c := memberCore(1, 0, "uuu")
	if out := c.feed(2, &NeedView{}); !slices.Equal(receivers[*Decided](out), []gossip.NodeID{2}) {
		t.Errorf("a member sends %+v", out.Send)
	}
	c.now = c.now.Add(time.Minute)
	c.Step(c.now, Tick{}, &Effects{})
	if out := c.feed(2, &NeedView{}); !slices.Equal(receivers[*PreVote](out), []gossip.NodeID{2}) || out.Send[0].Msg.(*PreVote).Base.Packed() {
		t.Errorf("a candidate sends %+v", out.Send)
	}
	c.gone[9] = true
	if out := c.feed(9, &NeedView{}); !slices.Equal(receivers[*Decided](out), []gossip.NodeID{9}) {
		t.Errorf("a candidate sends a former member %+v", out.Send)
	}
	c.campaign.candidacy.base--
	if out := c.feed(2, &NeedView{}); !slices.Equal(receivers[*Decided](out), []gossip.NodeID{2}) {
		t.Errorf("a candidate in a former view sends %+v", out.Send)
	}
}

// TestFormingACluster: once, by a node that does not leave, in the given generation.
func TestFormingACluster(t *testing.T) {
	form := func(c *Core, f Form) *Effects {
		var out Effects
		c.Step(c.now, f, &out)
		return &out
	}
	fresh := func() *Core {
		return New(Config{Self: gossip.Node{ID: 1}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, clock.Instant(time.Hour))
	}
	c := fresh()
	form(c, Form{Millisecond: 7, Origin: 33, Secret: [2]uint64{1, 2}})
	first := c.view
	if first.Epoch != gossip.FormingEpoch(1, 7) || first.Origin != 33 || first.Standing != (gossip.Standing{Peak: 1, Birth: first.Epoch}) || first.Members[0].Joined != first.Epoch || c.lineage.membership.secret != [2]uint64{1, 2} {
		t.Errorf("forms %+v", first)
	}
	if form(c, Form{Generation: 9}); c.view != first {
		t.Error("a member forms another cluster")
	}
	c = fresh()
	if form(c, Form{Generation: 9}); c.view.Epoch.Generation() != 9 || c.view.Origin != c.view.Cluster || c.view.Cluster == 0 {
		t.Errorf("forms %+v", c.view)
	}
}

// TestTheDeathOfTheLeader: a certain proof makes the member stand from now on, a weak one and
// that of another member do not.
func TestTheDeathOfTheLeader(t *testing.T) {
	for name, c := range map[string]struct {
		proof ProvenDead
		now   bool
	}{
		"certain":           {ProvenDead{Subject: 2, Certain: true}, true},
		"weak":              {ProvenDead{Subject: 2}, false},
		"of another member": {ProvenDead{Subject: 3, Certain: true}, false},
	} {
		core := memberCore(1, 2, "uuu")
		var out Effects
		core.Step(core.now, c.proof, &out)
		if got := core.follower.leaderlessSince == core.now; got != c.now {
			t.Errorf("%s: without a leader since %v, now %v", name, core.follower.leaderlessSince, core.now)
		}
	}
}

// TestBadConfigurations: New rejects them.
func TestBadConfigurations(t *testing.T) {
	good := Config{Self: gossip.Node{ID: 1}, Ping: 1, Lease: 2, RemoveAfter: 2}
	New(good, 1)
	for name, change := range map[string]func(c *Config){
		"no id":                   func(c *Config) { c.Self.ID = 0 },
		"no ping":                 func(c *Config) { c.Ping = 0 },
		"a lease below two pings": func(c *Config) { c.Ping, c.Lease, c.RemoveAfter = 2, 3, 3 },
		"removal within a lease":  func(c *Config) { c.RemoveAfter = 1 },
		"a negative drift":        func(c *Config) { c.DriftPPM = -1 },
	} {
		c := good
		change(&c)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", name)
				}
			}()
			New(c, 1)
		}()
	}
}

// TestAPackedAttemptIsUnpacked: a promise may carry the attempt as a difference; one that the
// candidate cannot unpack does not count.
func TestAPackedAttemptIsUnpacked(t *testing.T) {
	for _, fits := range []bool{true, false} {
		c := memberCore(1, 0, "uuu")
		c.now = c.now.Add(time.Minute)
		c.Step(c.now, Tick{}, &Effects{})
		cand := c.campaign.candidacy
		c.feed(2, &PreVoted{Ballot: cand.ballot, Base: cand.base, Yes: true})
		packed := &SentView{View: &gossip.View{Cluster: 1, Epoch: c.view.Epoch + 1}, change: &change{base: c.view.Epoch, gone: []gossip.NodeID{3}}}
		if !fits {
			packed.change.gone[0] = 77
		}
		c.feed(2, &Promised{Ballot: cand.ballot, Base: cand.base, Accepted: packed, AcceptedBallot: Ballot{Round: 1, Node: 2}, Generation: 44})
		if c.Generation() != 44 {
			t.Error("does not note the generation of a promise")
		}
		o := c.leadership
		if (o != nil) != fits || fits && (len(o.proposal.next.Members) != 2 || !o.proposal.carried) {
			t.Errorf("an attempt that fits %v: leads %v", fits, o != nil)
		}
	}
}

// TestANewLeaderIsAskedAgain: a leave request goes to it immediately; to the same leader, once
// per ping.
func TestANewLeaderIsAskedAgain(t *testing.T) {
	c := memberCore(1, 2, "uuu")
	c.Step(c.now, Leave{}, &Effects{})
	c.now++
	ping := &Ping{Ballot: Ballot{Round: 3, Node: 2}, Cluster: 1, Epoch: c.view.Epoch, Round: 7, Life: true}
	if got := receivers[*LeaveRequest](c.feed(2, ping)); got != nil {
		t.Errorf("asks %v again", got)
	}
	ping.Ballot = Ballot{Round: 4, Node: 3}
	if got := receivers[*LeaveRequest](c.feed(3, ping)); !slices.Equal(got, []gossip.NodeID{3}) {
		t.Errorf("asks %v, want the new leader", got)
	}
}

// TestANodeShowsItsLeader: if it has one.
func TestANodeShowsItsLeader(t *testing.T) {
	if id, ok := memberCore(1, 0, "uuu").Leader(); id != 0 || ok {
		t.Errorf("without a leader: %v, %v", id, ok)
	}
	if id, ok := memberCore(1, 2, "uuu").Leader(); id != 2 || !ok {
		t.Errorf("follows %v, %v", id, ok)
	}
	if memberCore(1, 2, "uuu").LeaderLease() != 0 {
		t.Error("a member has a leader lease")
	}
}

// TestAFirstViewIsAcknowledged: to a leader that is not in it. A view without the joiner is not
// taken.
func TestAFirstViewIsAcknowledged(t *testing.T) {
	for _, in := range []bool{true, false} {
		self := gossip.NodeID(1 + 8*b2i(!in))
		c := New(Config{Self: gossip.Node{ID: self}, Ping: testPing, Lease: testLease, RemoveAfter: testRemove}, 1)
		c.Step(1, Contacts{Nodes: []gossip.Node{{ID: 7}}}, &Effects{})
		out := c.feed(7, &Decided{View: Whole(viewOf("juu"))})
		if in && (c.view == nil || !slices.Equal(receivers[*Decided](out), []gossip.NodeID{7})) {
			t.Errorf("acknowledges to %v", receivers[*Decided](out))
		}
		if !in && (c.view != nil || len(out.Send) != 0 || c.Over()) {
			t.Errorf("takes a view without itself, sends %+v", out.Send)
		}
	}
}

// TestALeavingNodeWakesToAskAgain: once per ping, until it has left.
func TestALeavingNodeWakesToAskAgain(t *testing.T) {
	c := memberCore(1, 2, "uuu")
	c.Step(c.now, Leave{}, &Effects{})
	if got := c.Deadline(); got != c.now.Add(testPing) {
		t.Errorf("wakes at %v, now %v", got, c.now)
	}
	c = memberCore(1, 2, "uuu")
	c.Step(c.now, AnnounceLeave{}, &Effects{})
	if got := c.Deadline(); got != c.now.Add(testPing) {
		t.Errorf("announces again at %v, now %v", got, c.now)
	}
}

// TestContactsAreBounded: each is asked once in a turn.
func TestContactsAreBounded(t *testing.T) {
	j := &joining{history: &history{env: envOf(1)}}
	var all []gossip.Node
	for i := range contactsMax + 5 {
		all = append(all, gossip.Node{ID: gossip.NodeID(i)})
	}
	if j.onContacts(all); len(j.contacts) != contactsMax || j.contacts[0].ID != 2 {
		t.Errorf("%d contacts, at most %d, the first is %v", len(j.contacts), contactsMax, j.contacts[0].ID)
	}
}

// TestANodeBeyondHelp: its accepted attempt needs members that are proven dead, weakly or
// certainly, and it may not take over.
func TestANodeBeyondHelp(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *Core)
		want   bool
	}{
		"the attempt needs the dead": {func(*Core) {}, true},
		"the deaths are certain":     {func(c *Core) { c.evidence.proofs[4].certain, c.evidence.proofs[5].certain = true, true }, true},
		"it may take over": {func(c *Core) {
			c.evidence.proofs[4].certain, c.evidence.proofs[5].certain, c.holder.grantedAt = true, true, c.now
		}, false},
		"no attempt":                     {func(c *Core) { clear(c.acceptor.attempts) }, false},
		"one of them lives":              {func(c *Core) { c.evidence.withdrawProof(4) }, false},
		"no proofs":                      {func(c *Core) { clear(c.evidence.proofs) }, false},
		"an attempt that the living can": {func(c *Core) { c.acceptor.attempts[c.view.Epoch].next = c.after(5) }, false},
		"it has ended":                   {func(c *Core) { c.ended = true }, false},
	} {
		core := memberCore(1, 2, "uuuuu")
		core.acceptor.storeAttempt(core.view.Epoch, &attempt{next: core.after(2, 3)})
		for _, id := range []gossip.NodeID{4, 5} {
			core.Step(core.now, ProvenDead{Subject: id}, &Effects{})
		}
		c.change(core)
		if got := core.BeyondHelp(); got != c.want {
			t.Errorf("%s: beyond help %v", name, got)
		}
	}
}
