package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// TestAnEmergencyViewNeedsAllItsMembers checks that an emergency view is not carried once one of its members has died, though
// the living are a total quorum of the view before.
func TestAnEmergencyViewNeedsAllItsMembers(t *testing.T) {
	q := quorumsOf("uuu")
	q.proveAt(2, 0, true)
	q.proveAt(3, 0, true)
	for _, c := range []struct {
		next *gossip.View
		want bool
	}{{q.after(2, 3), true}, {q.after(3), false}} {
		if got := q.carriesStep(c.next, true, setOf(1)); got != c.want {
			t.Errorf("a view of %d members is carried by one: %v, want %v", len(c.next.Members), got, c.want)
		}
	}
}

// TestAContestOutlastsViews checks that a leader keeps its state about a cluster while a new view is still in a contest with it.
func TestAContestOutlastsViews(t *testing.T) {
	for _, goesOn := range []bool{true, false} {
		es, e := contested(Encounter{})
		before, next := es.view, es.after()
		if goesOn {
			next.Foreign = before.Foreign
		}
		es.advanceTo(next, next.Member(1))
		if es.followForeign(before); (es.met[7] == e) != goesOn {
			t.Errorf("the contest goes on: %v, the leader meets %v", goesOn, es.met)
		}
	}
}

// TestAnOverdueContestEnds checks that only a verdict to stand holds an overdue contest up, until all voters hold it.
func TestAnOverdueContestEnds(t *testing.T) {
	const stands, open = gossip.VerdictStands, gossip.VerdictContested
	for _, c := range []struct {
		was   gossip.Verdict
		heard bool
		want  gossip.Verdict
	}{{open, false, 0}, {open, true, 0}, {stands, false, stands}, {stands, true, 0}} {
		es, e := contested(Encounter{})
		e.newest, e.since = nil, es.now.Add(-es.contestFor()-1)
		es.allHeard = func() bool { return c.heard }
		if got := es.nextVerdict(&gossip.Contest{Cluster: 7, Verdict: c.was}); got != c.want {
			t.Errorf("verdict %v, all voters hold it: %v: next %v, want %v", c.was, c.heard, got, c.want)
		}
	}
}

// TestLargeViewsStandForAWhile checks that a view of as many members as are packed stands for viewSpacing a member.
func TestLargeViewsStandForAWhile(t *testing.T) {
	for packed, want := range map[int]time.Duration{2: 3 * viewSpacing, 3: 3 * viewSpacing, 4: 0} {
		o := leadershipOf("uuu")
		o.packFrom = packed
		before, next := o.view, o.after()
		o.advanceTo(next, next.Member(1))
		if o.followView(before); o.changeFrom != 0 && o.changeFrom.Sub(o.now) != want || (o.changeFrom == 0) != (want == 0) {
			t.Errorf("packed from %d members on: three may change at %v, want after %v", packed, o.changeFrom, want)
		}
	}
}

// TestANewViewEndsACandidacy checks that a candidate for the former view stands no longer.
func TestANewViewEndsACandidacy(t *testing.T) {
	w := cluster(t, 3)
	c := w.nodes[2].core
	c.out = &Effects{}
	c.campaign.beginCandidacy()
	next := *c.view
	next.Epoch++
	if c.adoptView(&next); c.view != &next || c.campaign.candidacy != nil {
		t.Errorf("in view %v with the candidacy %+v", c.view.Epoch, c.campaign.candidacy)
	}
}

// TestAContestThatThisLeaderHasNotMetEnds checks that a new leader follows a view without a contest of the view before, though it
// has no state about that cluster.
func TestAContestThatThisLeaderHasNotMetEnds(t *testing.T) {
	es, e := contested(Encounter{})
	before, next := *es.view, es.after()
	before.Foreign = append([]gossip.Contest{{Cluster: 9}}, before.Foreign...)
	next.Foreign = es.view.Foreign
	es.advanceTo(next, next.Member(1))
	if es.followForeign(&before); len(es.met) != 1 || es.met[7] != e {
		t.Errorf("the leader meets %v, want cluster 7 alone", es.met)
	}
}
