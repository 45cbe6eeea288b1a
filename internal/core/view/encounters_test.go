package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// encountersOf returns the encounters of the leader of a view of three.
func encountersOf() *encounters {
	e := evidenceOf(1, "uuu")
	es := &encounters{
		history: e.history, quorums: &quorums{history: e.history, evidence: e}, follower: &follower{history: e.history, leader: 1},
		mayRule: func() bool { return true },
	}
	es.cfg.Foreign = gossip.ForeignMerge
	return es
}

var otherNodes = []gossip.Node{{ID: 51, Addr: "10.9.9.9:1"}, {ID: 52, Addr: "10.9.9.8:1"}}

func TestEncounterNeedsAnEchoToBecomeAContest(t *testing.T) {
	es := encountersOf()
	es.onForeign(7, otherNodes)
	if got := es.sentTo(); !slices.Equal(got, []gossip.NodeID{51, 52}) {
		t.Fatalf("sends its standing to %v", got)
	}
	m := &Encounter{From: otherNodes[0], Cluster: 7, To: 1, Nodes: otherNodes, Nonce: 5}
	es.onEncounter(51, m)
	if _, changed, _ := es.foreignNext(); changed || es.changed {
		t.Error("a message without the echo begins a contest")
	}
	echoed := *m
	echoed.Echo = es.met[7].nonce
	es.onEncounter(51, &echoed)
	list, changed, _ := es.foreignNext()
	if !changed || !es.changed || len(list) != 1 || list[0].Cluster != 7 || list[0].Verdict != gossip.VerdictContested {
		t.Errorf("contests %+v, changed %v", list, changed)
	}
	es.mayRule = func() bool { return false }
	if _, changed, _ := es.foreignNext(); changed {
		t.Error("a leader without a lease begins a contest")
	}
}

func TestEncountersReportToTheLeader(t *testing.T) {
	es := encountersOf()
	es.follower.leader = 2
	es.onForeign(7, otherNodes)
	if got := es.sentTo(); !slices.Equal(got, []gossip.NodeID{2}) || es.met != nil {
		t.Errorf("a member reports the other cluster to %v and keeps %v", got, es.met)
	}
}

// TestEncountersIgnoreASourceForLongerEachTime: an unfinished contest silences its source, the
// next one for twice as long.
func TestEncountersIgnoreASourceForLongerEachTime(t *testing.T) {
	es := encountersOf()
	want := ignoreFirst
	for range 10 {
		if got := es.ignoreSource("a", es.now); got != want || !es.ignores("a", es.now) || es.ignores("b", es.now) {
			t.Fatalf("ignored for %v, want %v", got, want)
		}
		want = min(2*want, ignoreMost)
		if es.now = es.now.Add(ignoreMost); es.ignores("a", es.now) {
			t.Fatal("ignored after its time")
		}
	}
}
