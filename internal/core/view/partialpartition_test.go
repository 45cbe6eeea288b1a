package view

import (
	"github.com/peerage-go/peerage/gossip"
	"slices"
	"testing"
	"time"
)

// cannotReach gives a node's core the peers that it cannot reach.
func (w *world) cannotReach(id gossip.NodeID, ids ...gossip.NodeID) {
	w.step(id, Unreachable{Nodes: ids})
}

func TestTheOneWithFewerLinksYields(t *testing.T) {
	for _, c := range []struct {
		name     string
		broken   map[gossip.NodeID][]gossip.NodeID
		dead     gossip.NodeID
		reporter gossip.NodeID
		subject  gossip.NodeID
		gone     gossip.NodeID
	}{
		{"a tie costs the junior", map[gossip.NodeID][]gossip.NodeID{2: {4}, 4: {2}}, 0, 2, 4, 4},
		{"from either reporter", map[gossip.NodeID][]gossip.NodeID{2: {4}, 4: {2}}, 0, 4, 2, 4},
		{"one side's report is enough", map[gossip.NodeID][]gossip.NodeID{2: {4}}, 0, 2, 4, 4},
		{"fewer links cost the senior", map[gossip.NodeID][]gossip.NodeID{2: {4, 5}, 4: {2}, 5: {2}}, 0, 2, 4, 2},
		{"third reports count", map[gossip.NodeID][]gossip.NodeID{2: {4}, 5: {2}}, 0, 2, 4, 2},
		{"the silent do not count", map[gossip.NodeID][]gossip.NodeID{2: {4, 6}, 4: {2}}, 6, 2, 4, 4},
		{"the leader may be the one", map[gossip.NodeID][]gossip.NodeID{1: {4, 5}, 4: {1}, 5: {1}}, 0, 4, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := cluster(t, 6)
			w.run(time.Second)
			if c.dead != 0 {
				w.crash(c.dead)
				w.run(testLease + testPing) // silent, but not removed yet
			}
			for id, ids := range c.broken {
				w.cannotReach(id, ids...)
			}
			w.run(2 * testPing)
			report := func() {
				for _, n := range w.living() {
					if n.id == c.reporter {
						w.step(n.id, Yield{Subject: c.subject, Reporter: c.reporter})
					}
				}
			}
			for range 10 {
				report()
				w.run(testRemove)
			}
			for _, id := range []gossip.NodeID{c.reporter, c.subject} {
				if out := w.nodes[id].removed != nil; out != (id == c.gone) {
					w.fail("%d removed: %v", id, out)
				}
			}
		})
	}
}

// TestOneOfTwoYields repeatedly reports the same broken link from both ends while the
// counts of links change: both ends are never removed.
func TestOneOfTwoYields(t *testing.T) {
	w := cluster(t, 5)
	w.run(time.Second)
	w.cannotReach(2, 4, 5)
	w.cannotReach(4, 2)
	w.cannotReach(5, 2)
	w.run(2 * testPing)
	w.step(2, Yield{Subject: 4, Reporter: 2})
	w.cannotReach(2)
	w.cannotReach(4, 1, 2, 3)
	w.run(2 * testPing)
	w.step(4, Yield{Subject: 2, Reporter: 4})
	w.run(5 * time.Second)
	if w.nodes[2].removed == nil || w.nodes[4].removed != nil {
		w.fail("2 removed: %v, 4 removed: %v", w.nodes[2].removed, w.nodes[4].removed)
	}
}

// TestReportsOfASilentMemberKeepTheLeader: coordinators report a silent member while the next
// leader is still waiting to remove it. Only that member goes, and no term ends early.
func TestReportsOfASilentMemberKeepTheLeader(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.crash(1)
	terms := w.marks["leads"] + 1
	w.must(5*time.Second, "one of two leads", func() bool { return w.marks["leads"] == terms })
	for waited := time.Duration(0); w.nodes[2].core.View().Member(1) != nil; waited += testPing {
		if waited > testRemove+3*testPing {
			w.fail("the silent member is in the view %v after the term began", waited)
		}
		w.step(2, Yield{Subject: 1, Reporter: 2})
		w.step(3, Yield{Subject: 1, Reporter: 3})
		w.run(testPing)
	}
	if !w.allUp(2) || !w.allHold() || w.marks["leads"] != terms {
		w.fail("%d terms began instead of %d", w.marks["leads"], terms)
	}
}

func TestAStarvedMembersLeaseEndsBeforeItIsRemoved(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.step(1, Yield{Subject: 3, Reporter: 1})
	ended := w.until(2*testLease, "the lease ends", func() bool { return !w.holds(w.nodes[3]) })
	gone := w.until(2*testRemove, "3 is out", func() bool { return w.nodes[3].removed != nil })
	if ended > testLease || ended+gone < testRemove || ended+gone > testRemove+3*testPing {
		w.fail("lease ended after %v, removed %v later", ended, gone)
	}
}

func TestDenial(t *testing.T) {
	for _, dead := range []gossip.NodeID{1, 3} {
		w := cluster(t, 4)
		w.run(time.Second)
		prover := gossip.NodeID(2)
		if dead == 3 {
			prover = 1
		}
		// A wrong proof at one node, while the other nodes have links with the peer.
		w.step(prover, ProvenDead{Subject: dead, Reason: "wrong", Certain: true})
		w.run(3 * time.Second)
		if !w.allUp(4) || !w.allHold() || dead == 3 && w.marks["proof denied"] == 0 {
			w.fail("a denied proof has had an effect")
		}
		// No node has a link with it any longer: the proof counts.
		w.crash(dead)
		for _, n := range w.living() {
			w.step(n.id, Link{Subject: dead})
		}
		if dead == 1 {
			// The leader's pings withdrew the proof; give it again.
			w.step(prover, Alive{Subject: dead})
			w.step(prover, ProvenDead{Subject: dead, Reason: "right", Certain: true})
		}
		took := w.must(2*time.Second, "the dead is out", func() bool { return w.allUp(3) && w.allHold() })
		if took > 2*testPing {
			w.fail("took %v", took)
		}
	}
}

// TestADeniedProofOpensNoGeneration: of four members the leader dies, and another is
// wrongly proven dead to the next in seniority. That one and the last would be a total
// quorum, but the last still has a link with the member that is wrongly proven dead.
func TestADeniedProofOpensNoGeneration(t *testing.T) {
	w := cluster(t, 4)
	w.run(time.Second)
	before := w.nodes[2].core.view.Epoch
	w.crash(1)
	for _, n := range w.living() {
		w.step(n.id, Link{Subject: 1})
	}
	w.step(2, ProvenDead{Subject: 3, Reason: "wrong", Certain: true})
	for _, n := range w.living() {
		w.step(n.id, ProvenDead{Subject: 1, Reason: "right", Certain: true})
	}
	w.must(5*time.Second, "three continue", func() bool { return w.allUp(3) && w.allHold() })
	if after := w.nodes[2].core.view.Epoch; after.Generation() != before.Generation() || w.nodes[2].core.view.Member(3) == nil {
		w.fail("%v became %v", before, after)
	}
}

func TestLateProofs(t *testing.T) {
	// A proof that arrives during the silence removes the member immediately.
	w := cluster(t, 3)
	w.run(time.Second)
	w.kill(700*time.Millisecond, 3)
	took := w.must(time.Second, "the dead is out", func() bool { return w.allUp(2) })
	if took > 800*time.Millisecond {
		w.fail("took %v", took)
	}
	// A proof that arrives before the view with its subject is kept.
	w = cluster(t, 2)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool { return to == 2 }
	w.join(3)
	w.until(time.Second, "3 is admitted", func() bool { return w.nodes[3].core.View() != nil })
	w.crash(3)
	w.step(2, ProvenDead{Subject: 3, Reason: "refused", Certain: true})
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return to == 2 && w.nodes[2].core.View().Member(3) != nil
	}
	w.until(time.Second, "2 learns of 3", func() bool { return w.nodes[2].core.View().Member(3) != nil })
	w.kill(30*time.Millisecond, 1)
	w.must(time.Second, "2 takes over", func() bool { return w.allUp(1) && w.allHold() })
}

func TestThirtyJoinAtOnce(t *testing.T) {
	w := newWorld(t)
	w.jitter = 2 * time.Millisecond
	w.add(1)
	w.step(1, Form{Generation: 100})
	for id := gossip.NodeID(2); id <= 31; id++ {
		w.join(id)
	}
	took := w.must(5*time.Second, "31 are up", func() bool { return w.allUp(31) && w.allHold() })
	epoch := uint32(w.nodes[1].core.View().Epoch)
	t.Logf("31 members after %v, in %d views", took, epoch)
	if epoch > 12 {
		w.fail("%d views", epoch)
	}
}

func TestSeveralLeaveAtOnce(t *testing.T) {
	for _, leavers := range [][]gossip.NodeID{{1, 2}, {2, 3, 4}, {1, 2, 3, 4}, {1, 2, 3, 4, 5}} {
		w := cluster(t, 5)
		w.run(time.Second)
		for _, id := range leavers {
			w.step(id, Leave{})
		}
		took := w.must(3*time.Second, "they have left", func() bool {
			left := !slices.ContainsFunc(leavers, func(id gossip.NodeID) bool { return w.nodes[id].removed == nil })
			return left && w.allUp(5-len(leavers)) && w.allHold()
		})
		t.Logf("%v left in %v", leavers, took)
	}
	// The leader dies while all that remain leave.
	w := cluster(t, 3)
	w.run(time.Second)
	w.step(2, Leave{})
	w.step(3, Leave{})
	w.kill(30*time.Millisecond, 1)
	w.must(8*time.Second, "they have left", func() bool { return w.nodes[2].removed != nil && w.nodes[3].removed != nil })
}

// TestUnreachableIsNotShared: sent answers keep their contents.
func TestUnreachableIsNotShared(t *testing.T) {
	w := cluster(t, 3)
	var pong *Pong
	w.sent = func(from, to gossip.NodeID, m Message) {
		if p, ok := m.(*Pong); ok && from == 2 && len(p.Unreachable) > 0 && pong == nil {
			pong = p
		}
	}
	w.cannotReach(2, 3)
	w.run(2 * testPing)
	w.cannotReach(2, 1)
	if pong == nil || pong.Unreachable[0] != 3 {
		t.Fatalf("the answer is %+v", pong)
	}
}

// reports sets what a member has reported as unreachable.
func (o *leadership) reports(id gossip.NodeID, ids ...gossip.NodeID) {
	if id == o.self() {
		o.evidence.unreachable = ids
	} else {
		o.peers[id].unreachable = ids
	}
}

// TestWorkingLinks: a link works if both ends are voters that answer, neither is dead, and
// neither reports it as broken.
func TestWorkingLinks(t *testing.T) {
	for name, c := range map[string]struct {
		change func(o *leadership)
		of2    int
	}{
		"all":                       {func(*leadership) {}, 3},
		"it reports one":            {func(o *leadership) { o.reports(2, 4) }, 2},
		"another reports it":        {func(o *leadership) { o.reports(4, 3, 2) }, 2},
		"both do":                   {func(o *leadership) { o.reports(2, 4); o.reports(4, 2) }, 2},
		"the leader reports it":     {func(o *leadership) { o.reports(1, 2) }, 2},
		"it reports the leader":     {func(o *leadership) { o.reports(2, 1) }, 2},
		"others report each other":  {func(o *leadership) { o.reports(3, 4); o.reports(4, 3) }, 3},
		"one is dead":               {func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 3}) }, 2},
		"one is silent for a lease": {func(o *leadership) { o.peers[3].answeredAt = o.now.Add(-testLease) }, 2},
		"one was silent for less":   {func(o *leadership) { o.peers[3].answeredAt = o.now.Add(1 - testLease) }, 3},
		"no state about the other":  {func(o *leadership) { delete(o.peers, 3) }, 2},
		"no state about the member": {func(o *leadership) { delete(o.peers, 2) }, 0},
	} {
		o := leadershipOf("uuuuj")
		c.change(o)
		if got := o.workingLinks(2); got != c.of2 {
			t.Errorf("%s: %d links work, want %d", name, got, c.of2)
		}
	}
}

// TestWithheldLeases: of two members of the view, the one with fewer working links gets no
// lease, on a tie the junior. While one of them is being removed, nothing more happens.
func TestWithheldLeases(t *testing.T) {
	const none = 0
	for name, c := range map[string]struct {
		subject, reporter gossip.NodeID
		change            func(o *leadership)
		loser             gossip.NodeID
	}{
		"a tie":                     {2, 4, func(*leadership) {}, 4},
		"a tie, reported by 2":      {4, 2, func(*leadership) {}, 4},
		"fewer links of 2":          {2, 4, func(o *leadership) { o.reports(2, 4, 3) }, 2},
		"fewer links of 2, by 2":    {4, 2, func(o *leadership) { o.reports(2, 4, 3) }, 2},
		"fewer links of 4":          {2, 4, func(o *leadership) { o.reports(4, 2, 3) }, 4},
		"one node":                  {2, 2, func(*leadership) {}, none},
		"no member":                 {77, 2, func(*leadership) {}, none},
		"reported by no member":     {2, 77, func(*leadership) {}, none},
		"the subject is being left": {2, 4, func(o *leadership) { o.peers[2].leaseWithheldSince = 1 }, none},
		"the reporter is":           {2, 4, func(o *leadership) { o.peers[4].leaseWithheldSince = 1 }, none},
		"another is":                {2, 4, func(o *leadership) { o.peers[3].leaseWithheldSince = 1 }, 4},
		"the subject is silent":     {2, 4, func(o *leadership) { o.peers[2].answeredAt = o.now.Add(-testLease) }, none},
		"the subject was, for less": {2, 4, func(o *leadership) { o.peers[2].answeredAt = o.now.Add(1 - testLease) }, 4},
		"the reporter is silent":    {2, 4, func(o *leadership) { o.peers[4].answeredAt = o.now.Add(-testLease) }, none},
		"the subject is dead":       {2, 4, func(o *leadership) { o.evidence.onProof(ProvenDead{Subject: 2}) }, none},
		"no answer in this term":    {2, 4, func(o *leadership) { o.peers[2].t0 = 0 }, none},
	} {
		o := leadershipOf("uuuu")
		c.change(o)
		if r := o.withholdLease(c.subject, c.reporter); r != nil {
			t.Errorf("%s: the leader resigns", name)
		}
		for id, p := range o.peers {
			if got := p.leaseWithheldSince == o.now; got != (id == c.loser) {
				t.Errorf("%s: the lease of %d is withheld: %v", name, uint64(id), got)
			}
		}
	}
	for _, subject := range []gossip.NodeID{2, 4} {
		o := leadershipOf("uuuu")
		o.out.Trace = nil
		o.withholdLease(subject, 6-subject)
		if e := o.out.Trace[0]; e.Subject != 4 || e.Detail != "cannot work with "+gossip.NodeID(2).String() {
			t.Errorf("traces %+v", e)
		}
	}
	o := leadershipOf("uuuu")
	o.reports(1, 2, 3)
	if r := o.withholdLease(1, 2); r == nil || r.pause != 2*testLease+testRemove || o.peers[2].leaseWithheldSince != 0 {
		t.Errorf("the leader has fewer links: %+v", r)
	}
}

// TestAYieldIsForwardedToTheLeader: by a member that follows one.
func TestAYieldIsForwardedToTheLeader(t *testing.T) {
	w := cluster(t, 3)
	var to []gossip.NodeID
	w.sent = func(from, dest gossip.NodeID, m Message) {
		if y, ok := m.(*YieldRequest); ok && y.Subject == 3 {
			to = append(to, dest)
		}
	}
	w.step(2, Yield{Subject: 3, Reporter: 2})
	w.inject(3, 2, &YieldRequest{Subject: 3})
	w.nodes[2].core.follower.leader = 0
	w.step(2, Yield{Subject: 3, Reporter: 2})
	w.add(9)
	w.step(9, Yield{Subject: 3, Reporter: 2})
	if !slices.Equal(to, []gossip.NodeID{1}) {
		t.Errorf("forwards the yield to %v, want 1", to)
	}
}
