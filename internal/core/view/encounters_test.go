package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// encountersOf returns the encounters of the leader of a view of three.
func encountersOf() *encounters {
	e := evidenceOf(1, "uuu")
	es := &encounters{
		history: e.history, quorums: &quorums{history: e.history, evidence: e}, follower: &follower{history: e.history, leader: 1},
		mayRule: func() bool { return true }, allHeard: func() bool { return true },
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

// contested returns the encounters of a leader in a contest with cluster 7, whose leader has
// sent m. The nonces have been exchanged.
func contested(m Encounter) (*encounters, *encounter) {
	es := encountersOf()
	es.view.Standing = gossip.Standing{Peak: 3, Birth: 5}
	es.onForeign(7, otherNodes)
	e := es.met[7]
	es.view.Foreign = []gossip.Contest{{Cluster: 7, Verdict: gossip.VerdictContested, Nodes: otherNodes}}
	es.followForeign(nil)
	m.From, m.Cluster, m.To, m.Nodes, m.Nonce, m.Echo = otherNodes[0], 7, 1, otherNodes, 5, e.nonce
	es.onEncounter(51, &m)
	es.sentTo()
	return es, e
}

// higher is a standing above that of contested.
var higher = gossip.Standing{Peak: 4}

func TestSightingsThatBeginNoEncounter(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(es *encounters)
		cluster uint64
		nodes   []gossip.Node
	}{
		"the policy only warns": {func(es *encounters) { es.cfg.Foreign = gossip.ForeignWarn }, 7, otherNodes},
		"without a view":        {func(es *encounters) { es.view = nil }, 7, otherNodes},
		"our own cluster":       {func(*encounters) {}, 1, otherNodes},
		"no cluster":            {func(*encounters) {}, 0, otherNodes},
		"no nodes":              {func(*encounters) {}, 7, nil},
		"no leader here":        {func(es *encounters) { es.follower.leader = 0 }, 7, otherNodes},
		"a joiner":              {func(es *encounters) { es.follower.leader, es.status = 2, gossip.Joining }, 7, otherNodes},
	} {
		es := encountersOf()
		c.change(es)
		es.onForeign(c.cluster, c.nodes)
		if got := es.sentTo(); got != nil || len(es.met) != 0 {
			t.Errorf("%s: sends to %v, meets %v", name, got, es.met)
		}
	}
}

func TestOnlyTheLeaderTakesSightingsOfMembers(t *testing.T) {
	es := encountersOf()
	es.receiveForeign(77, &Sighted{Cluster: 7, Nodes: otherNodes})
	if len(es.met) != 0 {
		t.Error("takes the sighting of a stranger")
	}
	es.follower.leader = 2
	if es.receiveForeign(3, &Sighted{Cluster: 7, Nodes: otherNodes}); es.sentTo() != nil {
		t.Error("a member forwards the sighting of another")
	}
	es.follower.leader = 1
	if es.receiveForeign(3, &Sighted{Cluster: 7, Nodes: otherNodes}); es.met[7] == nil {
		t.Error("the leader ignores the sighting of a member")
	}
}

// TestAnEncounterHasAPlace: no encounter begins with an ignored source, beyond the bound, or
// with a second cluster after a yield. One that is in a contest goes on.
func TestAnEncounterHasAPlace(t *testing.T) {
	es := encountersOf()
	es.ignoreSource("10.9.9.8", es.now)
	if es.encounter(7, otherNodes) != nil {
		t.Error("meets a cluster with an ignored node")
	}
	es.view.Foreign = []gossip.Contest{{Cluster: 7, Verdict: gossip.VerdictContested}}
	if es.encounter(7, otherNodes) == nil {
		t.Error("does not meet an ignored cluster that it is in a contest with")
	}
	es.view.Foreign[0].Verdict = gossip.VerdictYields
	if es.encounter(7, otherNodes) == nil || es.encounter(8, []gossip.Node{{ID: 60}}) != nil {
		t.Error("after a yield to 7, it must meet 7 and no other")
	}
	es = encountersOf()
	if es.encounter(7, nil) != nil {
		t.Error("meets a cluster without nodes")
	}
	for id := uint64(10); id < 10+foreignMax; id++ {
		if es.encounter(id, otherNodes) == nil {
			t.Fatalf("no place for cluster %d", id)
		}
	}
	if es.encounter(9, otherNodes) != nil || len(es.met) != foreignMax {
		t.Errorf("meets %d clusters, at most %d", len(es.met), foreignMax)
	}
	e := es.encounter(10, []gossip.Node{{ID: 60}})
	if es.encounter(10, nil) != e || len(e.nodes) != 1 || e.nodes[0].ID != 60 || e.metAt != es.now || e.nonce == 0 {
		t.Errorf("%+v, want the newest nodes", e)
	}
}

// TestALeaderShowsItsStanding: an encounter carries the cluster's standing, its most senior
// voters, and the highest generation that it can reach.
func TestALeaderShowsItsStanding(t *testing.T) {
	es, e := contested(Encounter{})
	es.view.Members[1].Status = gossip.Joining
	es.cfg.Self.AppVersion = "private"
	es.generation = 9
	es.sendEncounter(e)
	m := es.out.Send[0].Msg.(*Encounter)
	if m.From.ID != 1 || m.From.AppVersion != "" || m.Cluster != 1 || m.To != 7 || m.Standing != es.view.Standing || m.Nonce != e.nonce || m.Echo != 5 {
		t.Errorf("sends %+v", m)
	}
	if m.Generation != 11 {
		t.Errorf("generation %d; two takeovers may follow 9", m.Generation)
	}
	if len(m.Nodes) != 2 || m.Nodes[0].ID != 1 || m.Nodes[1].ID != 3 {
		t.Errorf("lists %v, the voters are 1 and 3", m.Nodes)
	}
	for i := range 2 * foreignNodesMax {
		es.view.Members = append(es.view.Members, gossip.Member{Node: gossip.Node{ID: gossip.NodeID(200 + i)}, Status: gossip.Up})
	}
	if got := es.seniorVoters(); len(got) != foreignNodesMax || got[2].ID != 200 {
		t.Errorf("lists %d voters, at most %d", len(got), foreignNodesMax)
	}
	es.sentTo()
	es.mayRule = func() bool { return false }
	if es.sendEncounter(e); es.sentTo() != nil {
		t.Error("a leader without a lease speaks for its cluster")
	}
}

// TestALeaderContactsMembersOfASilentLeader: in turn, three at a time.
func TestALeaderContactsMembersOfASilentLeader(t *testing.T) {
	es, e := contested(Encounter{})
	nodes := make([]gossip.Node, 5)
	for i := range nodes {
		nodes[i].ID = gossip.NodeID(61 + i)
	}
	e.nodes = nodes
	e.metAt--
	es.now = e.newestAt.Add(4 * testPing)
	es.out.Learn = nil
	if es.sendEncounter(e); !slices.Equal(es.sentTo(), []gossip.NodeID{51}) || es.out.Learn[0].ID != 51 {
		t.Error("does not send to the leader that it heard of lately")
	}
	es.now++
	for _, want := range [][]gossip.NodeID{{61, 62, 63}, {64, 65, 61}, {62, 63, 64}} {
		if es.sendEncounter(e); !slices.Equal(es.sentTo(), want) {
			t.Errorf("does not contact %v", want)
		}
	}
	e.to, e.metAt = gossip.Node{}, es.now
	if es.sendEncounter(e); len(es.sentTo()) != contactsAtOnce {
		t.Error("does not contact members while it has not learned the leader")
	}
}

// TestAVerdictIsShownWithItsStanding: a cluster that stands names the standing that it has
// judged, unless that standing is no longer below its own.
func TestAVerdictIsShownWithItsStanding(t *testing.T) {
	low := gossip.Standing{Peak: 2}
	for name, c := range map[string]struct {
		ours    gossip.Verdict
		judged  gossip.Standing
		verdict gossip.Verdict
		shown   gossip.Standing
	}{
		"contested":            {gossip.VerdictContested, low, gossip.VerdictContested, gossip.Standing{}},
		"stands":               {gossip.VerdictStands, low, gossip.VerdictStands, low},
		"stood over a lesser":  {gossip.VerdictStands, higher, gossip.VerdictContested, higher},
		"yields, shows no one": {gossip.VerdictYields, higher, gossip.VerdictYields, gossip.Standing{}},
	} {
		es, e := contested(Encounter{Standing: c.judged})
		es.view.Foreign[0].Verdict = c.ours
		es.sendEncounter(e)
		if m := es.out.Send[0].Msg.(*Encounter); m.Verdict != c.verdict || m.Judged != c.shown {
			t.Errorf("%s: shows %v on %+v, want %v on %+v", name, m.Verdict, m.Judged, c.verdict, c.shown)
		}
	}
	es, e := contested(Encounter{})
	es.view.Foreign[0].Verdict, e.newest = gossip.VerdictStands, nil
	if es.sendEncounter(e); es.out.Send[0].Msg.(*Encounter).Verdict != gossip.VerdictStands {
		t.Error("a new leader does not show the verdict of its view")
	}
	es.view.Foreign = nil
	if es.sendEncounter(e); es.out.Send[1].Msg.(*Encounter).Verdict != 0 {
		t.Error("shows a verdict without a contest")
	}
}

func TestEncountersThatDoNotCount(t *testing.T) {
	for name, change := range map[string]func(es *encounters, m *Encounter){
		"the policy only warns":         func(es *encounters, _ *Encounter) { es.cfg.Foreign = gossip.ForeignWarn },
		"without a view":                func(es *encounters, _ *Encounter) { es.view = nil },
		"from no node":                  func(_ *encounters, m *Encounter) { m.From.ID = 0 },
		"from no cluster":               func(_ *encounters, m *Encounter) { m.Cluster = 0 },
		"from our cluster":              func(_ *encounters, m *Encounter) { m.Cluster = 1 },
		"for another cluster":           func(_ *encounters, m *Encounter) { m.To = 3 },
		"from a member":                 func(_ *encounters, m *Encounter) { m.From.ID = 2 },
		"a yield without a contest":     func(_ *encounters, m *Encounter) { m.Verdict = gossip.VerdictYields },
		"from an ignored host":          func(es *encounters, m *Encounter) { es.ignoreSource("10.9.9.9", es.now); m.Nodes = m.Nodes[1:] },
		"with a node of an ignored one": func(es *encounters, _ *Encounter) { es.ignoreSource("10.9.9.8", es.now) },
		"at a member without a leader":  func(es *encounters, _ *Encounter) { es.follower.leader = 0 },
	} {
		es := encountersOf()
		m := Encounter{From: otherNodes[0], Cluster: 7, To: 1, Nodes: otherNodes, Nonce: 5}
		change(es, &m)
		es.onEncounter(51, &m)
		if got := es.sentTo(); got != nil || len(es.met) != 0 || len(es.out.Learn) != 0 {
			t.Errorf("%s: answers %v", name, got)
		}
	}
}

// TestAMemberForwardsEncounters: to its leader, a bounded number of times, and never back.
func TestAMemberForwardsEncounters(t *testing.T) {
	es := encountersOf()
	es.follower.leader = 2
	m := &Encounter{From: otherNodes[0], Cluster: 7, To: 1, Hops: hopsMax - 1}
	es.onEncounter(51, m)
	if s := es.out.Send; len(s) != 1 || s[0].To != 2 || s[0].Msg.(*Encounter).Hops != hopsMax || m.Hops != hopsMax-1 {
		t.Errorf("forwards %+v", s)
	}
	es.sentTo()
	es.onEncounter(2, m)
	m.Hops = hopsMax
	if es.onEncounter(51, m); es.sentTo() != nil {
		t.Error("forwards a message back to its sender, or too often")
	}
}

// TestEncountersAreAnsweredWhenTheyAreNews: a message with another nonce, or without our
// newest, is answered; its repetition is not.
func TestEncountersAreAnsweredWhenTheyAreNews(t *testing.T) {
	es, e := contested(Encounter{})
	m := *e.newest
	es.now++
	if es.onEncounter(51, &m); es.sentTo() != nil || e.newest != &m || e.newestAt != es.now {
		t.Error("answers a repetition, or does not keep it")
	}
	other := m
	other.Nonce, other.From = 6, otherNodes[1]
	if es.onEncounter(52, &other); !slices.Equal(es.sentTo(), []gossip.NodeID{52}) || e.theirs != 6 {
		t.Error("does not answer a new leader")
	}
	stale := other
	stale.Echo++
	if es.onEncounter(52, &stale); !slices.Equal(es.sentTo(), []gossip.NodeID{52}) || e.newest != &other {
		t.Error("a message with an old echo must be answered, and not be kept")
	}
}

// TestRoundsToOtherClusters: with each round, a leader sends to the clusters that it is in a
// contest with, and drops those that do not answer.
func TestRoundsToOtherClusters(t *testing.T) {
	es := encountersOf()
	es.onForeign(7, otherNodes)
	es.sentTo()
	es.now = es.met[7].metAt.Add(es.contestFor())
	if es.driveForeign(); es.met[7] == nil || es.sentTo() != nil {
		t.Error("drops a cluster too soon, or sends to it without a contest")
	}
	es.now++
	if es.driveForeign(); len(es.met) != 0 {
		t.Error("keeps a cluster that does not answer")
	}
	es, e := contested(Encounter{Standing: gossip.Standing{Peak: 1}})
	if es.driveForeign(); !slices.Equal(es.sentTo(), []gossip.NodeID{51}) || es.asked != nil {
		t.Error("must send to the other leader, and not ask the voters about a lower standing")
	}
	e.newest.Standing = higher
	if es.driveForeign(); !slices.Equal(es.sentTo(), []gossip.NodeID{51, 2, 3, 51, 52}) {
		t.Error("does not make the voters contact a cluster with a higher standing")
	}
	es.view.Foreign[0].Verdict = gossip.VerdictYields
	if es.driveForeign(); !slices.Equal(es.sentTo(), []gossip.NodeID{51}) {
		t.Error("asks the voters after the yield")
	}
	es.view.Foreign[0].Verdict, e.newest = gossip.VerdictContested, nil
	if es.driveForeign(); es.asked.vouch.Cluster != 7 {
		t.Error("forgets what it asked")
	}
}

func TestContestForIsBounded(t *testing.T) {
	es := encountersOf()
	if es.contestFor() != contestMin {
		t.Errorf("a contest may stay open for %v, at least %v", es.contestFor(), contestMin)
	}
	if es.cfg.Ping = contestMin; es.contestFor() != 8*contestMin {
		t.Errorf("with pings every %v, a contest may stay open for %v", es.cfg.Ping, es.contestFor())
	}
}

// TestVerdicts: the next verdict of a contest, by the other leader's newest message.
func TestVerdicts(t *testing.T) {
	const stands, yields, open = gossip.VerdictStands, gossip.VerdictYields, gossip.VerdictContested
	ours, lower := gossip.Standing{Peak: 3, Birth: 5}, gossip.Standing{Peak: 2}
	for name, c := range map[string]struct {
		was    gossip.Verdict
		m      Encounter
		change func(es *encounters, e *encounter)
		want   gossip.Verdict
	}{
		"the other has not begun":         {open, Encounter{Standing: lower}, nil, open},
		"ours is higher":                  {open, Encounter{Standing: lower, Verdict: open}, nil, stands},
		"ours is higher, long silence":    {open, Encounter{Standing: lower, Verdict: open}, func(es *encounters, e *encounter) { es.now = es.now.Add(4*testPing + 1) }, open},
		"ours is higher, short silence":   {open, Encounter{Standing: lower, Verdict: open}, func(es *encounters, e *encounter) { es.now = es.now.Add(4 * testPing) }, stands},
		"ours is higher, too late":        {open, Encounter{Standing: lower, Verdict: open}, func(es *encounters, e *encounter) { e.since = es.now.Add(-es.contestFor() - 1) }, 0},
		"ours is higher, just in time":    {open, Encounter{Standing: lower, Verdict: open}, func(es *encounters, e *encounter) { e.since = es.now.Add(-es.contestFor()) }, stands},
		"the other yields":                {stands, Encounter{Standing: lower, Verdict: yields}, nil, 0},
		"the other yields, and we do not": {open, Encounter{Standing: lower, Verdict: yields}, nil, stands},
		"ours is no longer higher":        {stands, Encounter{Standing: higher, Verdict: open}, nil, open},
		"theirs is higher, no verdict":    {open, Encounter{Standing: higher, Verdict: open, Judged: ours}, nil, open},
		"theirs is higher, it stands":     {open, Encounter{Standing: higher, Verdict: stands, Judged: ours}, nil, yields},
		"it stands over another standing": {open, Encounter{Standing: higher, Verdict: stands, Judged: lower}, nil, open},
		"too few have met its members":    {open, Encounter{Standing: higher, Verdict: stands, Judged: ours}, func(_ *encounters, e *encounter) { e.vouched = nil }, open},
		"no message, too late":            {open, Encounter{}, func(es *encounters, e *encounter) { e.newest = nil; e.since = es.now.Add(-es.contestFor() - 1) }, 0},
		"a contest of an earlier term":    {open, Encounter{}, func(es *encounters, e *encounter) { e.newest = nil; e.since = 0 }, open},
		"no state about it":               {stands, Encounter{}, func(es *encounters, e *encounter) { es.met = nil }, stands},
	} {
		es, e := contested(c.m)
		es.cfg.Authenticated = true
		for _, id := range []gossip.NodeID{1, 2} {
			e.vouched[id], e.confirmed[id+50] = true, true
		}
		if c.change != nil {
			c.change(es, e)
		}
		if got := es.nextVerdict(&gossip.Contest{Cluster: 7, Verdict: c.was}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if ended := c.want == 0 && c.m.Verdict != yields; (e.ending != "") != ended {
			t.Errorf("%s: ends undecided by %q", name, e.ending)
		}
	}
}

// TestUnfinishedContestsNameTheirCause: for the operator.
func TestUnfinishedContestsNameTheirCause(t *testing.T) {
	ours := gossip.Standing{Peak: 3, Birth: 5}
	for want, c := range map[string]struct {
		m      Encounter
		silent bool
	}{
		"its leader no longer answers":                                      {Encounter{Verdict: gossip.VerdictContested}, true},
		"it did not enter the contest":                                      {Encounter{}, false},
		"it should yield, but has not":                                      {Encounter{Verdict: gossip.VerdictContested}, false},
		"this cluster should yield, but the other has not sent its verdict": {Encounter{Verdict: gossip.VerdictContested, Standing: higher, Judged: ours}, false},
		"this cluster should yield, but 0 of its voters have reached 0 of the other's members: too few":  {Encounter{Verdict: gossip.VerdictStands, Standing: higher, Judged: ours}, false},
		"this cluster should yield, but the other has not sent its verdict (it judged another standing)": {Encounter{Verdict: gossip.VerdictStands, Standing: higher}, false},
	} {
		es, e := contested(c.m)
		if c.silent {
			es.now = es.now.Add(time.Second)
		}
		prefix, _, _ := strings.Cut(want, " (")
		if got := es.unfinished(e); !strings.HasPrefix(got, prefix) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTheNextViewsContests: new contests are added in the order of the clusters' ids, and a
// contest that ends leaves the view.
func TestTheNextViewsContests(t *testing.T) {
	es, e := contested(Encounter{Standing: gossip.Standing{Peak: 1}, Verdict: gossip.VerdictContested, Generation: 40})
	echoed := func(cluster uint64) *encounter {
		other := es.encounter(cluster, []gossip.Node{{ID: gossip.NodeID(cluster * 10), Addr: "10.8.8.8:1"}})
		other.newest, other.newestAt, other.to = &Encounter{Nodes: []gossip.Node{{ID: 1000}, {ID: gossip.NodeID(cluster * 10)}}}, es.now, gossip.Node{ID: gossip.NodeID(cluster * 10)}
		return other
	}
	echoed(9)
	echoed(6)
	silent, ended := echoed(5), echoed(4)
	silent.newestAt = es.now.Add(-time.Second)
	ended.ending = "over"
	list, changed, above := es.foreignNext()
	if !changed || above || len(list) != 3 || list[0].Cluster != 6 || list[1].Cluster != 7 || list[2].Cluster != 9 {
		t.Fatalf("contests %+v, changed %v, above %v", list, changed, above)
	}
	if list[1].Verdict != gossip.VerdictStands || list[1].Generation != 40 {
		t.Errorf("stands over %+v, want the generation of its newest message", list[1])
	}
	if n := list[0].Nodes; len(n) != 2 || n[0].ID != 60 || n[1].ID != 1000 {
		t.Errorf("contacts %v, want the leader first and once", n)
	}
	es.view.Foreign = list
	e.newest.Verdict = gossip.VerdictYields
	es.met[9].newest = nil
	next := es.after()
	if changed := es.stepForeign(next); !changed || len(next.Foreign) != 2 || next.Epoch != gossip.FirstEpoch(41) || next.TokensFrom != 41 {
		t.Errorf("after the other's yield: %v, tokens from %d, contests %+v", next.Epoch, next.TokensFrom, next.Foreign)
	}
	es.view.Foreign[1].Verdict = gossip.VerdictYields
	if list, changed, above := es.foreignNext(); changed || above || len(list) != 3 {
		t.Errorf("a cluster that yields changes its contests: %+v", list)
	}
}

// TestAnUndecidedContestEnds: without a verdict, a contest leaves the view in the same
// generation.
func TestAnUndecidedContestEnds(t *testing.T) {
	es, e := contested(Encounter{Verdict: gossip.VerdictContested})
	e.since = es.now.Add(-es.contestFor() - 1)
	next := es.after()
	epoch := next.Epoch
	if changed := es.stepForeign(next); !changed || len(next.Foreign) != 0 || next.Epoch != epoch || next.TokensFrom != 0 {
		t.Errorf("changed %v: %v, contests %+v", changed, next.Epoch, next.Foreign)
	}
	before := es.view
	es.advanceTo(next, next.Member(1))
	es.followForeign(before)
	if len(es.met) != 0 || !es.ignores("10.9.9.9", es.now.Add(ignoreFirst-1)) || es.ignores("10.9.9.9", es.now.Add(ignoreFirst)) {
		t.Errorf("meets %v after the end, ignores %+v", es.met, es.ignored)
	}
}

// TestADecidedContestSilencesNoSource: the clusters may meet again.
func TestADecidedContestSilencesNoSource(t *testing.T) {
	es, _ := contested(Encounter{})
	before := es.view
	next := es.after()
	es.advanceTo(next, next.Member(1))
	es.followForeign(before)
	if len(es.met) != 0 || len(es.ignored) != 0 {
		t.Errorf("meets %v, ignores %v", es.met, es.ignored)
	}
	es, e := contested(Encounter{})
	e.ending, e.to = "over", gossip.Node{}
	if es.leaveContest(e); !es.ignores("10.9.9.9", es.now) {
		t.Error("does not ignore the first node of a cluster without a leader")
	}
	es, e = contested(Encounter{})
	since := e.since
	es.now++
	es.followForeign(es.view)
	if e.since != since || since != es.now-1 {
		t.Errorf("the contest began at %v, and then at %v", since, e.since)
	}
}

// TestSourcesAreIgnoredUpToABound: while all places are taken, every source is ignored; a place
// whose time is over is given to another source.
func TestSourcesAreIgnoredUpToABound(t *testing.T) {
	es := encountersOf()
	for i := range ignoredMax - 1 {
		es.ignoreSource(fmt.Sprint("host", i), es.now)
	}
	if es.ignores("other", es.now) {
		t.Error("ignores every source while a place is free")
	}
	es.now++
	es.ignoreSource("last", es.now)
	if !es.ignores("other", es.now) {
		t.Error("begins contests while all places are taken")
	}
	es.now = es.now.Add(ignoreFirst - 1)
	es.ignoreSource("next", es.now)
	if len(es.ignored) != 2 || !es.ignores("last", es.now) || !es.ignores("next", es.now) || es.ignores("host1", es.now) {
		t.Errorf("ignores %+v, want the last and the next", es.ignored)
	}
}

func TestHostOf(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:7": "10.0.0.1", "[::1]:7": "[::1]", "name": "name", ":7": "", "": ""} {
		if got := hostOf(addr); got != want {
			t.Errorf("%q: %q, want %q", addr, got, want)
		}
	}
	if got := bareNodes(make([]gossip.Node, foreignNodesMax+3)); len(got) != foreignNodesMax {
		t.Errorf("%d nodes, at most %d", len(got), foreignNodesMax)
	}
}

// TestAGenerationThatIsReachedAsksForNoView checks that the least generation changes the next view only
// if it is above that of the present view.
func TestAGenerationThatIsReachedAsksForNoView(t *testing.T) {
	es := encountersOf()
	es.onForeign(7, otherNodes)
	for least, want := range map[uint32]bool{es.view.Epoch.Generation(): false, es.view.Epoch.Generation() + 1: true} {
		es.least = least
		if _, changed, above := es.foreignNext(); changed != want || above {
			t.Errorf("generation %d of %d: changes the view %v, %v", es.view.Epoch.Generation(), least, changed, above)
		}
	}
}

// TestNothingIsSentToNoNode: a leader that is unknown has the id 0.
func TestNothingIsSentToNoNode(t *testing.T) {
	es := encountersOf()
	es.sendTo(0, &Sighted{})
	es.sendTo(es.self(), &Sighted{})
	if got := es.sentTo(); got != nil {
		t.Errorf("sends to %v", got)
	}
	if es.sendTo(2, &Sighted{}); len(es.sentTo()) != 1 {
		t.Error("sends nothing to a peer")
	}
}
