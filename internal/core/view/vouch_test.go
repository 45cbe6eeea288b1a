package view

import (
	"slices"
	"testing"

	"github.com/peerage-go/peerage/gossip"
)

// vouchOf asks about cluster 7 and its two nodes.
func vouchOf() *Vouch { return &Vouch{Cluster: 7, Standing: higher, Nodes: otherNodes} }

// TestVotersContactTheOtherCluster: at their leader's request only.
func TestVotersContactTheOtherCluster(t *testing.T) {
	for name, c := range map[string]struct {
		from   gossip.NodeID
		change func(es *encounters, m *Vouch)
		asks   bool
	}{
		"the leader asks":     {2, func(*encounters, *Vouch) {}, true},
		"another asks":        {3, func(*encounters, *Vouch) {}, false},
		"a joiner":            {2, func(es *encounters, _ *Vouch) { es.status = gossip.Joining }, false},
		"about our cluster":   {2, func(_ *encounters, m *Vouch) { m.Cluster = 1 }, false},
		"a node with no view": {2, func(es *encounters, _ *Vouch) { es.view = nil }, false},
	} {
		es := encountersOf()
		es.follower.leader = 2
		m := vouchOf()
		c.change(es, m)
		es.receiveForeign(c.from, m)
		if got := es.sentTo(); c.asks != slices.Equal(got, []gossip.NodeID{51, 52}) || !c.asks && (got != nil || es.asked != nil) {
			t.Errorf("%s: contacts %v", name, got)
		}
	}
}

// TestAVoterReportsEachConfirmation: it counts one answer of each listed node to its newest
// question, and contacts only the nodes that have not confirmed.
func TestAVoterReportsEachConfirmation(t *testing.T) {
	es := encountersOf()
	es.follower.leader = 2
	es.onConfronted(51, &Confronted{Cluster: 7, Standing: higher})
	es.confront(vouchOf())
	nonce := es.asked.nonce
	if es.sentTo(); len(es.out.Learn) != 2 || nonce == 0 {
		t.Errorf("learns %v, nonce %d", es.out.Learn, nonce)
	}
	for name, c := range map[string]struct {
		from gossip.NodeID
		m    Confronted
	}{
		"another nonce":     {51, Confronted{Cluster: 7, Standing: higher, Nonce: nonce + 1}},
		"another cluster":   {51, Confronted{Cluster: 8, Standing: higher, Nonce: nonce}},
		"another standing":  {51, Confronted{Cluster: 7, Nonce: nonce}},
		"a node not listed": {53, Confronted{Cluster: 7, Standing: higher, Nonce: nonce}},
	} {
		if es.receiveForeign(c.from, &c.m); len(es.asked.confirmed) != 0 || es.sentTo() != nil {
			t.Errorf("%s: counts as a confirmation", name)
		}
	}
	right := &Confronted{Cluster: 7, Standing: higher, Nonce: nonce}
	es.receiveForeign(51, right)
	if s := es.out.Send; len(s) != 1 || s[0].To != 2 || !slices.Equal(s[0].Msg.(*Vouched).Confirmed, []gossip.NodeID{51}) || s[0].Msg.(*Vouched).Cluster != 7 {
		t.Errorf("reports %+v", s)
	}
	es.sentTo()
	if es.receiveForeign(51, right); es.sentTo() != nil {
		t.Error("reports a confirmation twice")
	}
	if es.confront(vouchOf()); !slices.Equal(es.sentTo(), []gossip.NodeID{52, 2}) || es.asked.nonce != nonce {
		t.Error("must contact the other node alone, and report again")
	}
	for name, change := range map[string]func(m *Vouch){
		"cluster":  func(m *Vouch) { m.Cluster = 8 },
		"standing": func(m *Vouch) { m.Standing.Peak++ },
	} {
		m := vouchOf()
		change(m)
		if es.confront(m); es.asked.nonce == nonce || len(es.asked.confirmed) != 0 {
			t.Errorf("another %s: keeps the confirmations", name)
		}
		es.confront(vouchOf())
		nonce = es.asked.nonce
	}
}

// TestConfrontIsAnswered: by voters, where clusters merge.
func TestConfrontIsAnswered(t *testing.T) {
	es := encountersOf()
	es.view.Standing = higher
	es.receiveForeign(51, &Confront{Nonce: 9})
	if s := es.out.Send; len(s) != 1 || s[0].To != 51 || *s[0].Msg.(*Confronted) != (Confronted{Cluster: 1, Standing: higher, Nonce: 9}) {
		t.Errorf("answers %+v", s)
	}
	es.sentTo()
	es.status = gossip.Joining
	es.receiveForeign(51, &Confront{Nonce: 9})
	es.status, es.cfg.Foreign = gossip.Up, gossip.ForeignWarn
	if es.receiveForeign(51, &Confront{Nonce: 9}); es.sentTo() != nil {
		t.Error("a joiner, or a node that only warns, answers")
	}
}

// TestTheLeaderCountsReports: those of members, about nodes that the other cluster has listed.
func TestTheLeaderCountsReports(t *testing.T) {
	es, e := contested(Encounter{Standing: higher})
	m := &Vouched{Cluster: 7, Confirmed: []gossip.NodeID{52, 99}}
	es.receiveForeign(77, m)
	es.follower.leader = 2
	es.receiveForeign(3, m)
	es.follower.leader = 1
	if changed := es.receiveForeign(3, &Vouched{Cluster: 8, Confirmed: m.Confirmed}); changed || len(e.vouched)+len(e.confirmed) != 0 {
		t.Errorf("counts %v of %v", e.confirmed, e.vouched)
	}
	if changed := es.receiveForeign(3, m); !changed || !e.vouched[3] || !e.confirmed[52] || len(e.vouched)+len(e.confirmed) != 2 {
		t.Errorf("changed %v, counts %v of %v", changed, e.confirmed, e.vouched)
	}
	newest := e.newest
	e.newest = nil
	if es.receiveForeign(2, m) || e.vouched[2] {
		t.Error("counts a report without a list of nodes")
	}
	e.newest = newest
	es.confront(vouchOf())
	es.onConfronted(51, &Confronted{Cluster: 7, Standing: higher, Nonce: es.asked.nonce})
	if !e.vouched[1] || !e.confirmed[51] {
		t.Error("the leader does not count its own confirmations")
	}
}

// TestEnoughConfirmations: a quorum of voters must have reached a majority of the listed
// nodes. Without authentication, they must have reached as many as this cluster has voters,
// or as the other claims to have.
func TestEnoughConfirmations(t *testing.T) {
	nodes := make([]gossip.Node, 5)
	for i := range nodes {
		nodes[i].ID = gossip.NodeID(51 + i)
	}
	for name, c := range map[string]struct {
		word          string
		authenticated bool
		size          int
		vouched       []gossip.NodeID
		confirmed     int
		want          bool
	}{
		"a majority of both":             {"uuu", true, 0, []gossip.NodeID{2, 3}, 3, true},
		"half of the nodes":              {"uuu", true, 0, []gossip.NodeID{1, 2, 3}, 2, false},
		"no quorum of voters":            {"uuu", true, 0, []gossip.NodeID{2}, 5, false},
		"as many as our voters":          {"uuuu", false, 9, []gossip.NodeID{1, 2, 3}, 4, true},
		"fewer than our voters":          {"uuuu", false, 9, []gossip.NodeID{1, 2, 3}, 3, false},
		"as many as it claims":           {"uuuu", false, 3, []gossip.NodeID{1, 2, 3}, 3, true},
		"joiners do not count":           {"uuujj", false, 9, []gossip.NodeID{1, 2, 3}, 3, true},
		"a majority, however few it has": {"uu", false, 1, []gossip.NodeID{1, 2}, 2, false},
	} {
		e := evidenceOf(1, c.word)
		es := &encounters{history: e.history, quorums: &quorums{history: e.history, evidence: e}}
		es.cfg.Authenticated = c.authenticated
		other := &encounter{newest: &Encounter{Nodes: nodes, Standing: gossip.Standing{Size: c.size}}, vouched: map[gossip.NodeID]bool{}, confirmed: map[gossip.NodeID]bool{99: true}}
		for _, id := range c.vouched {
			other.vouched[id] = true
		}
		for i := range c.confirmed {
			other.confirmed[nodes[i].ID] = true
		}
		if got := es.confirmedForeign(other); got != c.want {
			t.Errorf("%s: enough %v", name, got)
		}
	}
}
