package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// takeoverWithoutContest is a scenario in which the senior one of two is in a contest with a third
// node, of which the other never learns. The contest must not end, and so open a generation above
// the third's, while the other may live: the senior one would decide alone, and the other would
// take over below that generation after its death.
func takeoverWithoutContest(w *world) {
	w.cfg.Authenticated = true
	s, senior, other := twoBesideOne(w)
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return from == senior.id && to == other.id && len(senior.core.View().Foreign) > 0
	}
	s.together()
	w.must(10*time.Second, "the senior one stands over the third", func() bool {
		v := senior.core.View()
		return len(v.Foreign) > 0 && v.Foreign[0].Verdict == gossip.VerdictStands
	})
	w.run(200 * time.Millisecond)
	w.diesUnheard(senior, other, 100)
}

// diesUnheard kills a leader that is about to open a higher generation than the given one, and
// checks that it has not opened it while the other member does not hold its view, and that the
// other takes over above all that it opened.
func (w *world) diesUnheard(leader, other *simNode, generation uint32) {
	opened := leader.core.View().Epoch
	if opened.Generation() != generation || other.core.View().Epoch >= opened {
		w.fail("the leader has opened %v, and the other one holds %v", opened, other.core.View().Epoch)
	}
	w.diesAbove(leader, other, opened)
}

// diesAbove kills a leader, and checks that the other member takes over above the given epoch.
func (w *world) diesAbove(leader, other *simNode, opened gossip.Epoch) {
	w.kill(30*time.Millisecond, leader.id)
	w.must(10*time.Second, "the other takes over", func() bool { return len(other.core.View().Members) == 1 && w.holds(other) })
	if got := other.core.View().Epoch; got <= opened {
		w.fail("takes over in %v, %v was opened", got, opened)
	}
}

// twoBesideOne forms a cluster of two, and one of a single node in a higher generation. They do
// not meet yet.
func twoBesideOne(w *world) (s *clusters, senior, other *simNode) {
	s = meetings(w)
	s.apart()
	two := s.form(1, 2, 100)
	s.form(101, 1, 5000)
	w.run(time.Second)
	return s, w.nodes[two[0]], w.nodes[two[1]]
}

// fileAhead starts a cluster of two, and a third node whose file demands a generation of 5000 at
// least. It returns the leader and the other member.
func fileAhead(w *world) (leader, other *simNode) {
	s := meetings(w)
	two := s.form(1, 2, 100)
	w.run(time.Second)
	was := w.cfg
	w.cfg.Least = 5000
	w.add(101)
	w.cfg = was
	w.step(101, Contacts{Nodes: []gossip.Node{w.nodes[1].core.cfg.Self}})
	return w.nodes[two[0]], w.nodes[two[1]]
}

// leaderDiesBeforeAnnouncing is a scenario in which the leader of two learns that a joining node's
// file is ahead of the cluster, and the other member learns nothing of it. The leader must open no
// generation above the file's before it dies.
func leaderDiesBeforeAnnouncing(w *world) {
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return from == 1 && to == 2 && w.nodes[1].core.View().Least > 0
	}
	leader, other := fileAhead(w)
	w.must(10*time.Second, "the leader announces the file's generation", func() bool { return leader.core.View().Least == 5000 })
	w.run(200 * time.Millisecond)
	w.diesUnheard(leader, other, 100)
}

// leaderDiesAfterOpening is a scenario in which the leader of two opens the generation that a
// joining node's file demands, and dies before the other member learns of it. The other has
// learned that it was about to, and takes over above it.
func leaderDiesAfterOpening(w *world) {
	w.lose = func(from, to gossip.NodeID, m Message) bool {
		return from == 1 && to == 2 && w.nodes[1].core.View().Epoch.Generation() >= 5000
	}
	leader, other := fileAhead(w)
	w.must(10*time.Second, "the leader opens the file's generation", func() bool { return leader.core.View().Epoch.Generation() >= 5000 })
	opened := leader.core.View().Epoch
	if v := other.core.View(); v.Epoch.Generation() != 100 || v.Least != 5000 {
		w.fail("the leader has opened %v, and the other one holds %v, with the least generation %d", opened, v.Epoch, v.Least)
	}
	w.diesAbove(leader, other, opened)
	if least := other.core.View().Least; least != 0 {
		w.fail("takes over with the least generation %d, and %v was opened", least, opened)
	}
}

// generationScenarios are those in which a leader opens a higher generation and dies.
func generationScenarios() []scenario {
	return []scenario{
		{"a takeover after a contest", takeoverAfterContest},
		{"a takeover by a member that knows of no contest", takeoverWithoutContest},
		{"a leader dies before it announces a file's generation", leaderDiesBeforeAnnouncing},
		{"a leader dies after it opened a file's generation", leaderDiesAfterOpening},
	}
}

// TestAHigherGenerationIsAnnouncedFirst checks that a leader opens the generation that a joining
// node's file demands only after a view that says so, and only while every voter holds that view.
func TestAHigherGenerationIsAnnouncedFirst(t *testing.T) {
	es := encountersOf()
	es.least = es.view.Epoch.Generation()
	if _, changed, above := es.foreignNext(); changed || above {
		t.Error("goes above a generation that it has reached")
	}
	es.least += 10
	next := es.after()
	if !es.stepForeign(next) || next.Epoch != es.view.Epoch+1 || next.Least != es.least {
		t.Fatalf("%v announces %d, want %v and %d", next.Epoch, next.Least, es.view.Epoch+1, es.least)
	}
	es.view, es.epoch = next, next.Epoch
	es.noteGeneration(next.Least - 1)
	heard := false
	es.allHeard = func() bool { return heard }
	if next = es.after(); es.stepForeign(next) || next.Epoch != es.view.Epoch+1 || next.Least != es.least {
		t.Errorf("%v, %d: a voter does not hold the view, and the leader goes on", next.Epoch, next.Least)
	}
	heard = true
	if next = es.after(); !es.stepForeign(next) || next.Epoch != gossip.FirstEpoch(es.least) || next.TokensFrom != es.least || next.Least != 0 {
		t.Errorf("%v with tokens from %d and the least generation %d, want generation %d", next.Epoch, next.TokensFrom, next.Least, es.least)
	}
	es.generation = es.least + 5
	if next = es.after(); !es.stepForeign(next) || next.Epoch != gossip.FirstEpoch(es.least+6) {
		t.Errorf("%v, want a generation above %d", next.Epoch, es.generation)
	}
	es.least = 0
	if next = es.after(); !es.stepForeign(next) || next.TokensFrom != es.generation+1 || next.Least != 0 {
		t.Errorf("%v with the least generation %d: another leader does not finish what its view announces", next.Epoch, next.Least)
	}
}
