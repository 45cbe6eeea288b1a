package view

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

// traces returns the kinds of the trace events since the last call.
func (e *env) traces() (kinds []string) {
	for _, ev := range e.out.Trace {
		kinds = append(kinds, ev.Kind)
	}
	e.out.Trace = nil
	return kinds
}

// TestANonMembersMessage: of a node that is in no view, only a request for admission and
// messages between clusters count, and views that change nothing here.
func TestANonMembersMessage(t *testing.T) {
	const ignored, asked = "membership message from a non-member, ignored", "view from a non-member"
	for name, c := range map[string]struct {
		msg    func(l *lineage) Message
		counts bool
		trace  string
	}{
		"join request":           {func(*lineage) Message { return &JoinRequest{Node: gossip.Node{ID: 77}} }, true, ""},
		"join request, hop 1":    {func(*lineage) Message { return &JoinRequest{Node: gossip.Node{ID: 77}, Hops: 1} }, false, ignored},
		"encounter":              {func(*lineage) Message { return &Encounter{} }, true, ""},
		"confront":               {func(*lineage) Message { return &Confront{} }, true, ""},
		"confronted":             {func(*lineage) Message { return &Confronted{} }, true, ""},
		"leave request":          {func(*lineage) Message { return &LeaveRequest{} }, false, ignored},
		"need view":              {func(*lineage) Message { return &NeedView{} }, false, ignored},
		"pong":                   {func(*lineage) Message { return &Pong{} }, false, ignored},
		"contest without a view": {func(*lineage) Message { return &Contest{} }, false, ignored},
		"decided without a view": {func(*lineage) Message { return &Decided{} }, false, ignored},
		"ping, other cluster":    {func(l *lineage) Message { return &Ping{Cluster: 9, Epoch: l.view.Epoch} }, true, ""},
		"ping, older view":       {func(l *lineage) Message { return &Ping{Cluster: 1, Epoch: l.view.Epoch - 1} }, true, ""},
		"ping, our view":         {func(l *lineage) Message { return &Ping{Cluster: 1, Epoch: l.view.Epoch} }, false, asked},
		"a newer view":           {func(l *lineage) Message { return &Decided{View: Whole(l.after())} }, false, asked},
		"a newer view, ping":     {func(l *lineage) Message { return &Ping{Cluster: 1, View: Whole(l.after())} }, false, asked},
		"a newer view, accept":   {func(l *lineage) Message { return &Accept{Base: Whole(l.after())} }, false, asked},
		"a newer view, pre-vote": {func(l *lineage) Message { return &PreVote{Base: Whole(l.after())} }, false, asked},
		"a newer view, prepare":  {func(l *lineage) Message { return &Prepare{Base: Whole(l.after())} }, false, asked},
		"a newer view, contest":  {func(l *lineage) Message { return &Contest{View: Whole(l.after())} }, false, asked},
		"our view, pre-vote":     {func(l *lineage) Message { return &PreVote{Base: Whole(l.view)} }, false, asked},
		"another cluster's view": {func(*lineage) Message { return &Decided{View: Whole(&gossip.View{Cluster: 9})} }, true, ""},
	} {
		l := memberLineage()
		got := l.mayAccept(77, c.msg(l))
		if trace := strings.Join(l.traces(), ", "); got != c.counts || trace != c.trace {
			t.Errorf("%s: counts %v, want %v; traced %q, want %q", name, got, c.counts, trace, c.trace)
		}
		if asks := l.sentTo(); c.trace == asked && !slices.Equal(asks, []gossip.NodeID{2, 3}) || c.trace != asked && asks != nil {
			t.Errorf("%s: asks %v", name, asks)
		}
	}
}

// memberLineage returns the lineage of node 1 of a view of three, with a leader.
func memberLineage() *lineage {
	p := campaignOf(1, "uuu")
	p.follower.pingedAt = p.now
	return &lineage{history: p.history, evidence: p.evidence, follower: p.follower, joining: &joining{history: p.history}}
}

// TestAFormerMembersMessage: a member that was left out may repeat its questions, and show
// the view of a lineage that wins. Its other messages are ignored without a trace: it may not
// have learned of its removal.
func TestAFormerMembersMessage(t *testing.T) {
	for name, c := range map[string]struct {
		msg    Message
		counts bool
	}{"leave request": {&LeaveRequest{}, true}, "need view": {&NeedView{}, true}, "pong": {&Pong{}, false}} {
		l := memberLineage()
		l.gone[77] = true
		if got := l.mayAccept(77, c.msg); got != c.counts || l.traces() != nil {
			t.Errorf("%s: counts %v, want %v", name, got, c.counts)
		}
	}
}

// TestMembersAreAskedOncePerPing: however many views non-members show.
func TestMembersAreAskedOncePerPing(t *testing.T) {
	l := memberLineage()
	msg := &Decided{View: Whole(l.after())}
	l.mayAccept(77, msg)
	first := l.sentTo()
	l.now = l.now.Add(testPing - 1)
	l.mayAccept(78, msg)
	if again := l.sentTo(); len(first) != 2 || again != nil {
		t.Errorf("asks %v, and %v within a ping", first, again)
	}
	l.now++
	if l.mayAccept(77, msg); len(l.sentTo()) != 2 {
		t.Error("does not ask after a ping")
	}
}

// TestALeaderlessMemberAcceptsANewerView: a non-member's newer view, and one that wins, count
// only after the time without a leader and without a lease.
func TestALeaderlessMemberAcceptsANewerView(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *lineage)
		counts bool
	}{
		"long without a leader":      {func(l *lineage) { l.now = l.now.Add(l.follower.patience() + 1) }, true},
		"as long as it must wait":    {func(l *lineage) { l.now = l.now.Add(l.follower.patience()) }, false},
		"pinged since":               {func(l *lineage) { l.now = l.now.Add(time.Minute); l.follower.pingedAt = l.now }, false},
		"granted a lease since":      {func(l *lineage) { l.now = l.now.Add(time.Minute); l.follower.holder.grantedAt = l.now }, false},
		"under a lease":              {func(l *lineage) { l.now = l.now.Add(time.Minute); l.follower.holder.lease.Until = l.now + 1 }, false},
		"after the end of its lease": {func(l *lineage) { l.now = l.now.Add(time.Minute); l.follower.holder.lease.Until = l.now }, true},
	} {
		l := memberLineage()
		newer := &Decided{View: Whole(l.after())}
		c.change(l)
		if got := l.mayAccept(77, newer); got != c.counts {
			t.Errorf("%s: accepts a newer view %v", name, got)
		}
		l, winner := lineageAlone()
		l.follower.pingedAt = l.now
		c.change(l)
		if got := l.mayAccept(77, &Decided{View: Whole(winner)}); got != c.counts {
			t.Errorf("%s: accepts a winning view %v", name, got)
		}
	}
}

// TestNodesOfAnotherLineage: a member, or a former one, names the nodes of another lineage by
// the view that it shows. These may then show it themselves; a stranger names no node.
func TestNodesOfAnotherLineage(t *testing.T) {
	l, winner := lineageAlone()
	shown := *winner
	shown.Members = []gossip.Member{{Node: gossip.Node{ID: 90}}, {Node: gossip.Node{ID: 91}}}
	l.noteLineage(77, Whole(&shown))
	l.noteLineage(2, &SentView{View: &shown, change: &change{}})
	if len(l.nodes) != 0 {
		t.Errorf("a stranger, or a view without its members, names %v", l.nodes)
	}
	l.noteLineage(2, Whole(&shown))
	if !l.mayAccept(90, &Decided{View: Whole(winner)}) || !l.nodes[91] || l.nodes[77] {
		t.Errorf("a member names %v", l.nodes)
	}
	l.gone[78] = true
	shown.Members = []gossip.Member{{Node: gossip.Node{ID: 92}}}
	if l.noteLineage(78, Whole(&shown)); !l.nodes[92] || !l.nodes[90] {
		t.Errorf("a former member names %v", l.nodes)
	}
	shown.Members = nil
	for id := gossip.NodeID(1000); len(shown.Members)+3 < lineageNodesMax; id++ {
		shown.Members = append(shown.Members, gossip.Member{Node: gossip.Node{ID: id}})
	}
	if l.noteLineage(2, Whole(&shown)); len(l.nodes) != lineageNodesMax || !l.nodes[92] {
		t.Errorf("%d nodes, %d have room", len(l.nodes), lineageNodesMax)
	}
	shown.Members = shown.Members[:2]
	shown.Members[0].ID = 93
	if l.noteLineage(2, Whole(&shown)); len(l.nodes) != 2 || !l.nodes[93] {
		t.Errorf("%d nodes after the bound, want those of the newest view", len(l.nodes))
	}
}

// TestAProofIsAskedOfOneNodePerPing: only a voter with the cluster's secret asks, and only for
// a whole view.
func TestAProofIsAskedOfOneNodePerPing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(l *lineage, v *SentView)
		asks   bool
	}{
		"a voter with the secret": {func(*lineage, *SentView) {}, true},
		"without the secret":      {func(l *lineage, _ *SentView) { l.membership.secret = [2]uint64{} }, false},
		"joining":                 {func(l *lineage, _ *SentView) { l.status = gossip.Joining }, false},
		"a view without members":  {func(_ *lineage, v *SentView) { v.change = &change{} }, false},
	} {
		l, winner := lineageAlone()
		l.membership.secret = [2]uint64{0, 4}
		v := Whole(winner)
		c.change(l, v)
		l.requestProof(77, v)
		if got := l.sentTo() != nil; got != c.asks || (l.membership.asked.with == 77) != c.asks {
			t.Errorf("%s: asks for a proof %v", name, got)
		}
	}
	l, winner := lineageAlone()
	l.membership.secret = [2]uint64{3, 0}
	l.requestProof(77, Whole(winner))
	l.now = l.now.Add(testPing - 1)
	l.requestProof(78, Whole(winner))
	if got := l.sentTo(); !slices.Equal(got, []gossip.NodeID{77}) || l.membership.asked.with != 77 {
		t.Errorf("asks %v within a ping", got)
	}
	l.now++
	if l.requestProof(78, Whole(winner)); l.membership.asked.with != 78 {
		t.Error("asks no other node after a ping")
	}
}

// TestAJoinerIgnoresUnaskedNodes: it traces only views, which it might have taken.
func TestAJoinerIgnoresUnaskedNodes(t *testing.T) {
	j := &joining{history: &history{env: envOf(1)}}
	l := &lineage{history: j.history, joining: j}
	if l.mayAccept(5, &Pong{}) || l.mayAccept(5, &JoinRefused{}) || j.traces() != nil {
		t.Error("accepts, or traces, a message that it does not expect")
	}
	if l.mayAccept(5, &Decided{View: Whole(viewOf("u"))}) || len(j.traces()) != 1 {
		t.Error("accepts a view of a node that it has not asked, or does not trace it")
	}
}
