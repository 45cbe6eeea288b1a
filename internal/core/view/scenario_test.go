package view

import (
	"slices"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// The scenarios whose names begin with A are those of SCENARIOS.md; the others found
// holes in this core and keep them closed.
var scenarios = append(slices.Concat(foreignScenarios(), generationScenarios()), []scenario{
	{"lease counts no rounds from before the commit", oldRounds},
	{"lease counts both views while a proposal is in flight", oneView},
	{"a candidate keeps its own promise", promiseSelf},
	{"a leader that slept removes no member for its own silence", stalledLeader},
	{"a leader's term begins when its prepare has completed", lateOffice},
	{"a survivor does not yield to a late message of a dead node", lateWord},
	{"a joiner whose view has died comes back", orphan},
	{"a leaving leader retransmits until acknowledged", farewellHeard},
	{"leavers do not take over", leaversStay},
	{"a new generation is above the attempts met", generationOfAttempts},
	{"no lease while an attempt is carried", leaseWhileCarrying},
	{"a carried removal for silence waits", carriedRemoval},
	{"a removed node that is admitted again ends", admittedAgain},
	{"an attempt whose voters have died is taken over", hopelessAttempt},
	{"an emergency view that keeps a dead member is taken over", hopelessTakeover},
	{"A48 pauses", pauses},
	{"A49 three join while one hears nothing, the others die", deafWhileOthersJoin},
	{"A50 a paused member is removed, the others die, it resumes", removedInItsSleep},
	{"A51 a leader that sends and cannot receive", deafLeader},
	{"A52 a majority of an old view wakes", oldMajority},
	{"A53 a member answers again between proposal and commit of its removal", answersAgain},
	{"A54 a late join request of a removed node", lateJoin},
	{"A55 a late accept of a decided epoch", lateAccept},
	{"A46 one after another", oneByOne},
	{"exactly half", exactlyHalf},
	{"the window of total quorums", windowOfTotal},
	{"a weak removal, and then the deaths of those who removed", weakRemovalThenDeaths},
	{"a leader that refuses one candidate only", leaderRefusedToOne},
	{"a grant of the former leader, and a weak proof", grantOfTheFormerLeader},
	{"a stranger's view ends nothing", strangersView},
}...)

// oldRounds: 1 proposes that 4 and 5 become voters; of the old voters only 2 accepts.
// 2 and 3 lose 1 and elect 2, which uncovers the attempt. At that moment the answers of 4
// and 5 reach 1, which commits, and is cut off. 2 carries the attempt through.
func oldRounds(w *world) {
	grow(w, 3)
	w.run(time.Second)
	var held [2]*Pong
	proposed, open := false, false
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		if a, ok := m.(*Accept); ok && from == 1 && raises(a, 5) {
			proposed = true
		}
		if p, ok := m.(*Pong); ok && proposed && to == 1 && from >= 4 {
			held[from-4] = p
			return true
		}
		if proposed && (from == 1 || to == 1) {
			accepted := w.nodes[1].core.leadership == nil || w.nodes[1].core.leadership.proposal != nil && w.nodes[1].core.leadership.proposal.accepted[2]
			return open || from == 3 || to == 3 || accepted && (from == 2 || to == 2)
		}
		return false
	}
	w.traced = func(n *simNode, e *TraceEvent) {
		if n.id != 2 || e.Kind != "carries" || open || held[0] == nil || held[1] == nil {
			return
		}
		open = true
		w.at(0, func() {
			w.inject(4, 1, held[0])
			w.inject(5, 1, held[1])
		})
	}
	w.add(4)
	w.add(5)
	for _, id := range []gossip.NodeID{4, 5} {
		w.step(id, Contacts{Nodes: []gossip.Node{w.nodes[1].core.cfg.Self}})
	}
	w.until(4*time.Second, "2 leads the new view", func() bool {
		n := w.nodes[2]
		return open && len(n.core.View().Members) == 5 && n.core.LeaderLease().After(w.clock(n))
	})
	if m := w.nodes[1].core.View().Member(5); m.Status != gossip.Up {
		w.fail("1 has not committed")
	}
	w.run(2 * time.Second)
}

// raises reports whether a proposal makes a node up.
func raises(a *Accept, id gossip.NodeID) bool {
	m := a.Next.Member(id)
	return m != nil && m.Status == gossip.Up
}

// oneView: 4 and 5 accept that they become voters, and are cut off; 2's answers reach
// 1 only when their promises have run out. 1 commits; 3 learns it from 2 and is elected
// by 4 and 5.
func oneView(w *world) {
	grow(w, 3)
	w.run(time.Second)
	proposedAt := time.Duration(0)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		if a, ok := m.(*Accept); ok && from == 1 && proposedAt == 0 && raises(a, 5) {
			proposedAt = w.now
		}
		if proposedAt == 0 {
			return false
		}
		since, far := w.now-proposedAt, from == 1 && to >= 3 || to == 1 && from >= 3
		_, decided := m.(*Decided)
		switch {
		case from == 3 || to == 3:
			return far || since < 1300*time.Millisecond
		case far:
			return since > 50*time.Millisecond
		}
		return since < 1300*time.Millisecond && from == 2 && !decided
	}
	w.add(4)
	w.add(5)
	for _, id := range []gossip.NodeID{4, 5} {
		w.step(id, Contacts{Nodes: []gossip.Node{w.nodes[1].core.cfg.Self}})
	}
	w.until(4*time.Second, "1 commits", func() bool {
		return proposedAt != 0 && len(w.nodes[1].core.View().Members) == 5 && w.nodes[1].core.View().Member(5).Status == gossip.Up
	})
	w.run(5 * time.Millisecond)
	w.inject(3, 2, &Decided{View: Whole(w.nodes[3].core.View())})
	w.until(2*time.Second, "3 leads", func() bool { return w.nodes[3].core.LeaderLease().After(w.clock(w.nodes[3])) })
}

// promiseSelf: while 2 asks for votes, a leader without a lease pings it; the yes of
// 3 must not let 2 break the promise that its answer makes.
func promiseSelf(w *world) {
	grow(w, 3)
	w.run(time.Second)
	leader := w.nodes[1].core.leadership
	ballot, epoch, cluster := leader.ballot, w.nodes[1].core.view.Epoch, w.nodes[1].core.view.Cluster
	w.lose = func(gossip.NodeID, gossip.NodeID, Message) bool { return true }
	two := w.nodes[2].core
	w.until(3*time.Second, "2 stands", func() bool { return two.campaign.candidacy != nil })
	w.inject(1, 2, &Ping{Ballot: ballot, Cluster: cluster, Epoch: epoch, Round: leader.round + 1})
	if two.campaign.candidacy != nil {
		w.inject(3, 2, &PreVoted{Ballot: two.campaign.candidacy.ballot, Base: epoch, Yes: true})
	}
	if two.acceptor.promised != ballot {
		w.fail("2 has promised %v to itself while bound to 1", two.acceptor.promised)
	}
}

// stalledLeader: with a RemoveAfter as short as L, a leader that sleeps a little longer
// must first process the messages that arrived meanwhile.
func stalledLeader(w *world) {
	w.cfg.RemoveAfter = w.cfg.Lease
	grow(w, 5)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool { _, ok := m.(*PreVote); return ok && from != 1 }
	w.pause(1)
	w.run(1300 * time.Millisecond)
	held := w.nodes[1].held
	w.nodes[1].paused, w.nodes[1].held = false, nil
	w.step(1, Tick{})
	w.run(time.Millisecond)
	for _, run := range held {
		run()
	}
	w.run(3 * time.Second)
	if !w.allUp(5) || !w.allHold() {
		w.fail("not all five are up and hold leases")
	}
}

// lateOffice: the promise that 2 still needs waits in its inbox while it sleeps. That
// time must not count as silence of 5.
func lateOffice(w *world) {
	w.cfg.RemoveAfter = w.cfg.Lease
	grow(w, 5)
	w.run(time.Second)
	var promised *Promised
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		switch m := m.(type) {
		case *PreVote:
			return from != 2
		case *Promised:
			if from == 4 {
				promised = m
			}
			return from != 3
		}
		return false
	}
	w.crash(1)
	w.until(3*time.Second, "2 has the promise of 3", func() bool { return promised != nil && len(w.nodes[2].core.campaign.candidacy.yes) == 2 })
	w.pause(2)
	w.run(1300 * time.Millisecond)
	w.nodes[2].paused, w.nodes[2].held = false, nil
	w.inject(4, 2, promised)
	w.run(50 * time.Millisecond)
	if w.nodes[2].core.leadership == nil || w.nodes[2].core.View().Member(5) == nil || w.nodes[2].core.leadership.proposal != nil {
		w.fail("2 removes 5 immediately, or does not lead")
	}
}

// lateWord: 1 and 2 admit 4 and die before 3 learns of it. 3 takes over; then a buffered
// ping of 1 arrives, with a view that would win over 3's. The joiner, which only dead
// nodes had admitted, returns by itself.
func lateWord(w *world) {
	grow(w, 3)
	w.run(time.Second)
	var late *Ping
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		if p, ok := m.(*Ping); ok && to == 3 && p.View != nil && p.View.Member(4) != nil {
			late = p
		}
		return from <= 2 && to == 3
	}
	w.join(4)
	w.until(time.Second, "4 is admitted", func() bool { return late != nil && w.nodes[4].core.View() != nil })
	w.kill(30*time.Millisecond, 1, 2)
	w.until(time.Second, "3 takes over", func() bool { return w.holds(w.nodes[3]) && len(w.nodes[3].core.View().Members) == 1 })
	w.inject(1, 3, late)
	w.run(200 * time.Millisecond)
	if w.nodes[3].removed != nil {
		w.fail("3 has yielded to a view of dead nodes")
	}
	w.removed = func(n *simNode) { w.at(100*time.Millisecond, func() { w.join(n.id + 10) }) }
	w.must(20*time.Second, "4 is back", func() bool { return w.allUp(2) && w.allHold() })
}

// orphan: 1 admits 2 and dies before 2 is up. No other member holds the view.
func orphan(w *world) {
	grow(w, 1)
	w.lose = func(from, to gossip.NodeID, m Message) bool { _, ok := m.(*Pong); return ok && from == 2 }
	w.join(2)
	w.until(time.Second, "2 is admitted", func() bool { return w.nodes[2].core.View() != nil })
	w.crash(1)
	w.must(10*time.Second, "2 gives up", func() bool { return w.nodes[2].removed != nil })
}

// farewellHeard: 1 leaves and removes the silent 2 in one view; its last message to 3 is
// lost, and 2 wakes up and receives it.
func farewellHeard(w *world) {
	grow(w, 3)
	w.run(time.Second)
	w.pause(2)
	w.run(testRemove - testPing)
	w.step(1, Leave{})
	left := time.Duration(0)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		if _, ok := m.(*Decided); ok && from == 1 && to == 3 && left == 0 {
			left = w.now
		}
		return left != 0 && w.now < left+400*time.Millisecond && from == 1 && to == 3
	}
	w.until(4*time.Second, "1 has committed its leave", func() bool { return left != 0 })
	w.resume(2)
	w.must(6*time.Second, "3 leads", func() bool { return w.nodes[3].core.LeaderLease().After(w.clock(w.nodes[3])) })
}

// leaversStay: 3 and 4 leave but do not receive the view without them. 5 joins, 1 and 2
// die. In the state of 3 and 4 they are the only survivors.
func leaversStay(w *world) {
	grow(w, 4)
	w.run(time.Second)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return to == 3 && from != 4 || to == 4 && from != 3 || from == 5 && to > 2
	}
	w.step(3, Leave{})
	w.step(4, Leave{})
	w.until(time.Second, "they have left", func() bool { return len(w.nodes[1].core.View().Members) == 2 })
	w.join(5)
	w.until(time.Second, "5 holds a lease", func() bool { return w.holds(w.nodes[5]) })
	w.kill(30*time.Millisecond, 1, 2)
	w.run(10 * time.Second)
	if !w.holds(w.nodes[5]) {
		w.fail("5 has not taken over")
	}
}

// pauses: SIGSTOP of the leader and of a plain member, for short and long.
func pauses(w *world) {
	next := gossip.NodeID(100)
	w.removed = func(n *simNode) {
		next++
		id := next
		w.at(50*time.Millisecond, func() { w.join(id) })
	}
	grow(w, 5)
	for _, d := range []time.Duration{testLease / 2, 3 * testLease / 2, 10 * testLease} {
		for _, leader := range []bool{true, false} {
			w.run(3 * time.Second)
			var id gossip.NodeID
			for _, n := range w.living() {
				if (n.core.leadership != nil) == leader {
					id = n.id
				}
			}
			w.pause(id)
			w.run(d)
			w.resume(id)
			took := w.must(10*time.Second, "five hold leases again", func() bool { return len(w.living()) == 5 && w.allUp(5) && w.allHold() })
			if w.nodes[id].removed != nil && d < testRemove {
				w.fail("a pause of %v cost %d its place", d, id)
			}
			if w.t != nil {
				w.t.Logf("leader %v paused for %v: all hold %v after its end", leader, d, took)
			}
		}
	}
}

// deafWhileOthersJoin: joiners that are up when the old members die continue without
// them; 4, which was left out, does not. While 4 is only silent they are in its view and
// not up yet.
func deafWhileOthersJoin(w *world) {
	joined, without, among := 0, 0, 0
	for delay := time.Duration(0); delay <= 5*time.Second; delay += 250 * time.Millisecond {
		x := newWorld(w.t)
		x.quiet = w.quiet
		grow(x, 4)
		x.run(time.Second)
		x.cut = func(from, to gossip.NodeID) bool { return to == 4 }
		for id := gossip.NodeID(5); id <= 7; id++ {
			x.join(id)
		}
		x.run(delay)
		v := x.nodes[1].core.View()
		up := v.Member(7) != nil && v.Member(7).Status == gossip.Up && v.Member(5).Status == gossip.Up && v.Member(6).Status == gossip.Up
		x.kill(30*time.Millisecond, 1, 2, 3)
		if up {
			joined++
			x.must(2*time.Second, "the joiners serve", func() bool { return x.serving(x.part(5, 7)) == 3 })
		}
		x.run(3 * time.Second)
		if v.Member(4) == nil {
			if without++; x.holds(x.nodes[4]) {
				x.fail("4 was left out after %v, but holds a lease", delay)
			}
		} else if v.Member(7) != nil {
			among++
		}
		x.cut = nil
		x.run(5 * time.Second)
	}
	w.until(0, "the joiners were up, or stood beside 4, often enough", func() bool { return joined > 4 && without > 4 && among > 4 })
}

func removedInItsSleep(w *world) {
	out := 0
	for sleep := 200 * time.Millisecond; sleep <= 4*time.Second; sleep += 200 * time.Millisecond {
		x := newWorld(w.t)
		x.quiet = w.quiet
		grow(x, 3)
		x.run(time.Second)
		x.pause(3)
		x.run(sleep)
		x.join(4)
		x.run(100 * time.Millisecond)
		left := x.nodes[1].core.View().Member(3) == nil
		x.kill(30*time.Millisecond, 1, 2)
		x.run(50 * time.Millisecond)
		x.cutOff(3)
		x.resume(3)
		x.run(5 * time.Second)
		if left && x.holds(x.nodes[3]) {
			x.fail("3 slept for %v, was left out, but holds a lease", sleep)
		}
		if left {
			out++
		}
	}
	w.until(0, "3 was left out often enough, and not", func() bool { return out > 4 && out < 16 }) // of 20
}

func deafLeader(w *world) {
	grow(w, 5)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return to == 1 }
	lapsed := w.must(2*time.Second, "all leases end", func() bool { return !slices.ContainsFunc(w.living(), w.holds) })
	took := w.must(10*time.Second, "the rest serves", func() bool {
		return !slices.ContainsFunc(w.living(), func(n *simNode) bool { return n.id != 1 && !w.holds(n) })
	})
	gone := w.must(5*time.Second, "the deaf one is out", func() bool { return w.nodes[2].core.View().Member(1) == nil })
	if w.t != nil {
		w.t.Logf("leases end %v after the cut, are back %v later; the deaf leader is out after another %v", lapsed, took, gone)
	}
	if lapsed > testLease+10*time.Millisecond {
		w.fail("leases ended %v after the cut", lapsed)
	}
}

func oldMajority(w *world) {
	grow(w, 5)
	w.run(time.Second)
	old := w.nodes[1].core.View().Epoch
	w.cutOff(4, 5)
	w.until(4*time.Second, "4 and 5 are left out", func() bool {
		if a := w.nodes[3].core.acceptor.attempts[old]; a != nil {
			// 3 has accepted, and receives nothing from now on.
			w.cut = func(from, to gossip.NodeID) bool {
				return (from > 3) != (to > 3) || to == 3 || from == 3 && len(w.nodes[1].core.View().Members) < 5
			}
		}
		return len(w.nodes[1].core.View().Members) == 3
	})
	w.until(4*time.Second, "3 is left out", func() bool { return len(w.nodes[1].core.View().Members) == 2 })
	w.cutOff(1, 2)
	w.until(4*time.Second, "the attempt is carried", func() bool { return w.marks["carries"] > 0 })
	w.run(5 * time.Second)
	w.cut = nil
	w.must(5*time.Second, "the old majority learns that it is out", func() bool { return len(w.living()) == 2 && w.allHold() })
}

func answersAgain(w *world) {
	grow(w, 3)
	w.run(time.Second)
	w.cutOff(3)
	proposed := time.Duration(0)
	w.traced = func(n *simNode, e *TraceEvent) {
		if e.Kind == "proposes" && proposed == 0 {
			proposed, w.cut = w.now, nil
		}
	}
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		p, ok := m.(*Pong)
		return ok && p.Accepted != 0 && from == 2 && w.now < proposed+300*time.Millisecond
	}
	w.until(4*time.Second, "3 is left out", func() bool {
		if proposed != 0 && w.holds(w.nodes[3]) {
			w.fail("3 is granted a lease while its removal is in flight")
		}
		return w.nodes[1].core.View().Member(3) == nil
	})
	w.run(time.Second)
}

func lateJoin(w *world) {
	grow(w, 2)
	var late *JoinRequest
	w.sent = func(from, to gossip.NodeID, m Message) {
		if j, ok := m.(*JoinRequest); ok && j.Node.ID == 3 {
			late = j
		}
	}
	w.join(3)
	w.until(time.Second, "3 is up", func() bool { return w.allUp(3) })
	w.step(3, Leave{})
	w.until(time.Second, "3 has left", func() bool { return w.nodes[3].removed != nil && w.allUp(2) })
	w.join(4)
	w.until(time.Second, "4 is up", func() bool { return w.allUp(3) })
	w.inject(3, 1, late)
	w.run(time.Second)
	if !w.allUp(3) {
		w.fail("a removed node was admitted again")
	}
	w.kill(30*time.Millisecond, 1, 2)
	w.until(time.Second, "4 leads", func() bool { return w.allUp(1) })
	w.inject(3, 4, late) // 4 has never met 3
	w.run(5 * time.Second)
	if !w.allUp(1) || !w.allHold() {
		w.fail("a removed node was admitted for good")
	}
}

func lateAccept(w *world) {
	grow(w, 3)
	var late *Accept
	w.sent = func(from, to gossip.NodeID, m Message) {
		if a, ok := m.(*Accept); ok && to == 3 {
			late = a
		}
	}
	w.join(4)
	w.until(time.Second, "4 is up", func() bool { return w.allUp(4) })
	answered := false
	w.sent = func(from, to gossip.NodeID, m Message) {
		if d, ok := m.(*Decided); ok && from == 3 && to == 1 && len(d.View.Members) == 4 {
			answered = true
		}
	}
	w.inject(1, 3, late)
	if len(w.nodes[3].core.acceptor.attempts) != 0 || !answered {
		w.fail("3 has stored an attempt on a former view, or has not answered with its own")
	}
}

func oneByOne(w *world) {
	for n := 2; n <= 9; n++ {
		x := newWorld(w.t)
		x.quiet = w.quiet
		grow(x, n)
		for id := 1; id < n; id++ {
			x.run(700 * time.Millisecond)
			x.kill(30*time.Millisecond, gossip.NodeID(id))
			x.must(time.Second, "the rest serves", func() bool { return x.allUp(n-id) && x.allHold() })
		}
	}
}

func exactlyHalf(w *world) {
	grow(w, 4)
	w.run(time.Second)
	w.cutOff(3, 4)
	w.run(testLease + 5*time.Millisecond)
	if w.holds(w.nodes[3]) || w.holds(w.nodes[4]) {
		w.fail("the half without the most senior holds leases")
	}
	w.must(4*time.Second, "the half with the most senior serves", func() bool {
		return len(w.nodes[1].core.View().Members) == 2 && w.holds(w.nodes[1]) && w.holds(w.nodes[2])
	})
	w.run(3 * time.Second)
	if w.holds(w.nodes[3]) || w.holds(w.nodes[4]) {
		w.fail("the half without the most senior holds leases")
	}
}
