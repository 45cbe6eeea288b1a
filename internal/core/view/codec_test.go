package view

import (
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire/wiretest"
)

func sampleView() *gossip.View {
	return &gossip.View{
		Cluster: 7, Epoch: gossip.FirstEpoch(1_700_000_000) + 3,
		Members: []gossip.Member{
			{Node: gossip.Node{ID: 1, Name: "a", Addr: "10.0.0.1:7000", Roles: []string{"x", "y"}, Zone: "eu-1a", AppVersion: "1.2", Metadata: map[string]string{"rack": "b7", "a": ""}, WireOldest: 3, WireNewest: 200}, Joined: gossip.FirstEpoch(9), Status: gossip.Up},
			{Node: gossip.Node{ID: 2, Name: "b", Addr: "[::1]:1"}, Joined: gossip.FirstEpoch(9) + 1, Status: gossip.Joining},
			{Node: gossip.Node{ID: 3}, Status: gossip.Leaving},
		},
		Forks: []gossip.Fork{{From: 1, To: 2, Kept: 3, By: 4}}, Standing: gossip.Standing{Size: 3, Peak: 5, Birth: gossip.FirstEpoch(1)}, TokensFrom: 12, Least: 14, Origin: 1 << 63,
		Foreign: []gossip.Contest{{Cluster: 8, Verdict: gossip.VerdictStands, Generation: 3, Nodes: []gossip.Node{{ID: 70, Name: "w", Addr: "10.1.0.1:1"}}}, {Cluster: 9, Verdict: gossip.VerdictYields}},
		Out:     []gossip.Departure{{ID: 8, Cause: gossip.CauseDead, Evidence: "refused"}, {ID: 9, Cause: gossip.CauseLeft}},
	}
}

func samplePacked() *SentView {
	v := sampleView()
	return &SentView{View: &gossip.View{Cluster: 7, Origin: v.Origin, Epoch: v.Epoch, Forks: v.Forks, Standing: v.Standing, TokensFrom: v.TokensFrom, Least: v.Least, Foreign: v.Foreign}, change: &change{
		base: v.Epoch - 1, gone: []gossip.NodeID{4}, other: []statusOf{{2, gossip.Up}, {3, gossip.Leaving}}, added: v.Members[1:],
	}}
}

func samples() []Message {
	b, v := Ballot{Round: 3, Node: 9}, sampleView()
	ping := Ping{Ballot: b, Cluster: 7, Epoch: 5, Round: 6, Echo: -7, Remaining: time.Second, Life: true}
	withView := ping
	withView.View, withView.Secret = Whole(v), [2]uint64{1, 2}
	return []Message{
		&ping, &withView, &Pong{Ballot: b, Epoch: 1, Round: 2, T0: 3, Accepted: 4, Unreachable: []gossip.NodeID{5, 6}}, &Pong{},
		&Accept{Ping: ping, Base: Whole(v), Next: Whole(v), Emergency: true}, &PreVote{Ballot: b, Base: Whole(v), Dead: []gossip.NodeID{1}},
		&PreVoted{Ballot: b, Base: 1, Yes: true, Promised: b, Linked: []gossip.NodeID{2}}, &Prepare{Ballot: b, Base: Whole(v)},
		&Promised{Ballot: b, Base: 1, Accepted: Whole(v), AcceptedBallot: b, Emergency: true, Generation: 1 << 31, T0: 1, Linked: []gossip.NodeID{3}},
		&Nack{Ballot: b, Promised: b}, &Decided{View: Whole(v)}, &JoinRequest{Node: v.Members[0].Node, Hops: 2, Least: 7}, &JoinRefused{Reason: "no"},
		&LeaveRequest{}, &YieldRequest{Subject: 1}, &Doubt{Ballot: b, Dead: []gossip.NodeID{1}}, &Doubted{Ballot: b, Asked: []gossip.NodeID{1}, Linked: []gossip.NodeID{1}},
		&Contest{View: Whole(v), Nonce: 1}, &Contested{View: Whole(v), Nonce: 1, Proof: 2}, &LeaveNotice{}, &NeedView{Epoch: 3}, &JoinPassed{Leader: 9},
		&Encounter{From: gossip.Node{ID: 1, Addr: "a:1"}, Hops: 1, Cluster: 2, To: 3, Standing: v.Standing, Verdict: gossip.VerdictStands,
			Judged: gossip.Standing{Peak: 1}, Generation: 9, Nodes: []gossip.Node{{ID: 4}}, Nonce: 5, Echo: 6},
		&Sighted{Cluster: 1, Nodes: []gossip.Node{{ID: 2}}}, &Vouch{Cluster: 1, Standing: v.Standing, Nodes: []gossip.Node{{ID: 2}}},
		&Vouched{Cluster: 1, Confirmed: []gossip.NodeID{2}}, &Confront{Nonce: 1}, &Confronted{Cluster: 1, Standing: v.Standing, Nonce: 2},
		&Decided{View: samplePacked()}, &PreVote{Ballot: b, Base: &SentView{View: &gossip.View{Cluster: 7, Epoch: 9}, change: &change{base: 9}}},
	}
}

func TestMessagesSurviveTheirFrames(t *testing.T) { wiretest.Check(t, &messages, samples()) }

func TestTheWireIsAsItWas(t *testing.T) {
	wiretest.Golden(t, &messages, samples())
}

func TestViewsThatCannotBe(t *testing.T) {
	for name, spoil := range map[string]func(*gossip.View){
		"a member twice":     func(v *gossip.View) { v.Members[1].ID = v.Members[0].ID },
		"a nameless id":      func(v *gossip.View) { v.Members[1].ID = 0 },
		"no status":          func(v *gossip.View) { v.Members[1].Status = 0 },
		"unknown status":     func(v *gossip.View) { v.Members[1].Status = 9 },
		"a name too long":    func(v *gossip.View) { v.Members[1].Name = strings.Repeat("x", NameBytesMax+1) },
		"no members":         func(v *gossip.View) { v.Members = nil },
		"no epoch":           func(v *gossip.View) { v.Epoch = 0 },
		"an unknown verdict": func(v *gossip.View) { v.Foreign[0].Verdict = 9 },
		"no verdict":         func(v *gossip.View) { v.Foreign[0].Verdict = 0 },
		"too many contests":  func(v *gossip.View) { v.Foreign = make([]gossip.Contest, foreignMax+1) },
		"too many voters":    func(v *gossip.View) { v.Standing.Peak = membersMax + 1 },
		"an unknown cause":   func(v *gossip.View) { v.Out[0].Cause = gossip.CauseAssumed + 1 },
		"a long evidence":    func(v *gossip.View) { v.Out[0].Evidence = strings.Repeat("x", evidenceBytesMax+1) },
		"much metadata": func(v *gossip.View) {
			v.Members[0].Metadata = map[string]string{}
			for i := range metadataMax + 1 {
				v.Members[0].Metadata[string(rune('a'+i))] = ""
			}
		},
		"too many forks":   func(v *gossip.View) { v.Forks = make([]gossip.Fork, 2*forksMax) },
		"too many members": func(v *gossip.View) { v.Members = make([]gossip.Member, membersMax+1) },
	} {
		v := sampleView()
		spoil(v)
		for i := range v.Members {
			if name == "too many members" {
				v.Members[i] = gossip.Member{Node: gossip.Node{ID: gossip.NodeID(i + 1)}, Status: gossip.Up}
			}
		}
		if _, err := Decode(Append(nil, &Decided{View: Whole(v)})); err == nil {
			t.Errorf("%s: decodes", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	// A core must accept any message that decodes.
	wiretest.Fuzz(f, &messages, samples(), func(t *testing.T, m Message) {
		w := newWorld(t)
		w.quiet = true
		grow(w, 2)
		w.truth.wrongEvidence = true
		for _, from := range []gossip.NodeID{1, 9} {
			var out Effects
			w.nodes[2].core.Step(w.clock(w.nodes[2]), Received{From: from, Msg: m}, &out)
		}
	})
}

// TestPackedViewsThatCannotBe: of a base after the view, or of a view without an epoch. A packed
// view needs no members.
func TestPackedViewsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(v *SentView)
		fails bool
	}{
		"a base before it":       {func(*SentView) {}, false},
		"its own base":           {func(v *SentView) { v.change.base = v.Epoch }, false},
		"a base after it":        {func(v *SentView) { v.change.base = v.Epoch + 1 }, true},
		"no epoch":               {func(v *SentView) { v.Epoch, v.change.base = 0, 0 }, true},
		"an impossible status":   {func(v *SentView) { v.change.other[0].status = 0 }, true},
		"a member without one":   {func(v *SentView) { v.change.added[0].Status = 9 }, true},
		"a contest of no one":    {func(v *SentView) { v.Foreign[0].Cluster = 0 }, true},
		"as many forks as fit":   {func(v *SentView) { v.Forks = make([]gossip.Fork, forksMax) }, false},
		"one fork more":          {func(v *SentView) { v.Forks = make([]gossip.Fork, forksMax+1) }, true},
		"a contest's many nodes": {func(v *SentView) { v.Foreign[0].Nodes = make([]gossip.Node, foreignNodesMax+1) }, true},
	} {
		v := samplePacked()
		c.spoil(v)
		if _, err := Decode(Append(nil, &Decided{View: v})); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestASecretIsSentOrNot: half of one is a secret, and a frame that announces none must not have
// the place for it.
func TestASecretIsSentOrNot(t *testing.T) {
	for _, secret := range [][2]uint64{{}, {1, 0}, {0, 1}, {1, 2}} {
		m, err := Decode(Append(nil, &Ping{Epoch: 1, Secret: secret}))
		if err != nil || m.(*Ping).Secret != secret {
			t.Errorf("%v becomes %+v, %v", secret, m, err)
		}
	}
	frame := Append(nil, &Ping{Epoch: 1, Secret: [2]uint64{1, 0}})
	at := len(frame) - 16
	for i := at; i < len(frame); i++ {
		frame[i] = 0
	}
	if _, err := Decode(frame); err == nil {
		t.Error("a frame with an empty secret decodes")
	}
}
