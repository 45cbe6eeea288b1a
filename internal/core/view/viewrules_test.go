package view

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// TestACandidateThatFollowsALeaderStandsNoLonger checks that a ping of a leader that shows life ends the
// candidacy of its receiver, and its count of failed ones.
func TestACandidateThatFollowsALeaderStandsNoLonger(t *testing.T) {
	for _, life := range []bool{false, true} {
		c := memberCore(1, 0, "uuu")
		c.now = c.now.Add(time.Minute)
		c.Step(c.now, Tick{}, &Effects{})
		c.campaign.failures = 3
		higher := Ballot{Round: c.campaign.candidacy.ballot.Round + 1, Node: 2}
		c.feed(2, &Ping{Ballot: higher, Cluster: c.view.Cluster, Epoch: c.view.Epoch, Round: 1, Life: life})
		if follows := c.campaign.candidacy == nil && c.campaign.failures == 0; life && !follows {
			t.Errorf("the candidacy is %+v, with %d failures, after a leader's ping", c.campaign.candidacy, c.campaign.failures)
		} else if !life && c.campaign.failures != 3 {
			t.Error("a leader without life ends the count of failures")
		}
	}
}

// TestAnOpenContestCountsForAnIgnoredHost checks that an encounter with a cluster that stands in the view as a
// contest counts, also from a host that is ignored after an earlier contest.
func TestAnOpenContestCountsForAnIgnoredHost(t *testing.T) {
	for _, contested := range []bool{false, true} {
		es := encountersOf()
		m := Encounter{From: otherNodes[0], Cluster: 7, To: 1, Nodes: otherNodes[:1], Nonce: 5}
		if contested {
			es.view.Foreign = []gossip.Contest{{Cluster: 7, Verdict: gossip.VerdictContested, Nodes: otherNodes[:1]}}
		}
		es.ignoreSource("10.9.9.9", es.now)
		if es.onEncounter(51, &m); len(es.out.Learn) > 0 != contested {
			t.Errorf("in a contest: %v; learns %v", contested, es.out.Learn)
		}
	}
}

// TestAFullHistoryPartsFromAnEmptyOne checks that lines are compared by their takeovers also if one has lost
// its oldest ones and the other has none.
func TestAFullHistoryPartsFromAnEmptyOne(t *testing.T) {
	var full []gossip.Fork
	for i := range forksMax {
		full = append(full, gossip.Fork{To: gossip.Epoch(i + 10)})
	}
	if fa, fb := partingForks(nil, full); fa != nil || fb == nil || fb.To != 10 {
		t.Errorf("part at %v and %v", fa, fb)
	}
	older := []gossip.Fork{{To: 3}, {To: 9}}
	if fa, fb := partingForks(older, full); fa != nil || fb == nil || fb.To != 10 {
		t.Errorf("takeovers that the full history has lost: part at %v and %v", fa, fb)
	}
}

// TestAProposalCountsItsOwnMembers checks that a member which a later proposal leaves out counts for that no
// longer, and that answers to former rounds do not count for a new one.
func TestAProposalCountsItsOwnMembers(t *testing.T) {
	o := leadershipOf("uuuu")
	o.countBoth(o.view)
	if p := o.peers[3]; !p.next || !p.stays {
		t.Fatalf("a member of the proposal: %+v", p)
	}
	o.countBoth(o.after(3))
	if p := o.peers[3]; p.next || p.stays {
		t.Errorf("a member that the later proposal leaves out: %+v", p)
	}
	o.beginRound()
	for id, p := range o.peers {
		o.recordAnswer(id, p, o.round)
	}
	if got := o.current.newestAnswered(o.proposed, o.round, 0); got != o.round {
		t.Errorf("both views have answered round %d, want %d", got, o.round)
	}
	for range roundsKept {
		o.beginRound()
	}
	if now, next := o.current.at[o.round%roundsKept], o.proposed.at[o.round%roundsKept]; now != 0 || next != 0 {
		t.Errorf("%d and %d answers of a former round count for one that has just begun", now, next)
	}
}
