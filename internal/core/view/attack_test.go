package view

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/wire"
)

// strangerID is a node that completed the handshake but is in no view.
const strangerID gossip.NodeID = 666

// lies lists messages by which a non-member may try to end, freeze or lead a member.
func lies(v *gossip.View) map[string]Message {
	far := gossip.FirstEpoch(generationMax - 1)
	without := &gossip.View{Cluster: v.Cluster, Epoch: v.Epoch + 7, Members: []gossip.Member{{Node: gossip.Node{ID: strangerID}, Joined: 1, Status: gossip.Up}}, Forks: v.Forks}
	frozen := &gossip.View{Cluster: v.Cluster, Epoch: far, Forks: v.Forks, Members: slices.Clone(v.Members)}
	fork := &gossip.View{Cluster: v.Cluster, Epoch: far, Members: without.Members, Forks: []gossip.Fork{{From: 1, To: far, Kept: 1000, By: strangerID}}}
	ballot := Ballot{Round: roundMax, Node: strangerID}
	ping := Ping{Ballot: ballot, Cluster: v.Cluster, Epoch: v.Epoch, Round: 1, Life: true}
	ahead := ping
	ahead.Epoch, ahead.View = far, Whole(frozen)
	return map[string]Message{
		"decided without it":        &Decided{View: Whole(without)},
		"decided at the last epoch": &Decided{View: Whole(frozen)},
		"decided, other lineage":    &Decided{View: Whole(fork)},
		"contested":                 &Contested{View: Whole(fork), Nonce: 1},
		"contest":                   &Contest{View: Whole(fork), Nonce: 1},
		"ping":                      &ping,
		"ping with a view":          &ahead,
		"accept":                    &Accept{Ping: ping, Base: Whole(v), Next: Whole(frozen), Emergency: true},
		"pre-vote":                  &PreVote{Ballot: ballot, Base: Whole(v)},
		"prepare":                   &Prepare{Ballot: ballot, Base: Whole(v)},
		"prepare in a newer view":   &Prepare{Ballot: ballot, Base: Whole(frozen)},
		"promised":                  &Promised{Ballot: ballot, Base: v.Epoch, Generation: generationMax},
		"nack":                      &Nack{Ballot: Ballot{Round: 1, Node: 1}, Promised: ballot},
		"pong":                      &Pong{Ballot: Ballot{Round: 1, Node: 1}, Epoch: far, Round: 1, T0: math.MaxInt64},
		"yield":                     &YieldRequest{Subject: 2},
		"doubt":                     &Doubt{Ballot: ballot, Dead: []gossip.NodeID{1}},
		"doubted":                   &Doubted{Ballot: Ballot{Round: 1, Node: 1}, Asked: []gossip.NodeID{2}},
		"leaves":                    &LeaveRequest{},
		"leaving":                   &LeaveNotice{},
		"needs a view":              &NeedView{Epoch: v.Epoch},
		"join refused":              &JoinRefused{Reason: "no"},
		"join passed":               &JoinPassed{Leader: strangerID},
		"join for another":          &JoinRequest{Node: gossip.Node{ID: 777, Addr: "10.9.9.9:1"}, Hops: 1},
	}
}

// TestAttackStrangersEndNothing: a non-member repeatedly sends every kind of message to
// leader and members. No incarnation ends, no lease is lost, no number jumps, and the
// cluster goes on: it admits a node and survives its leader.
func TestAttackStrangersEndNothing(t *testing.T) {
	names := lies(&gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)})
	for name := range names {
		t.Run(name, func(t *testing.T) {
			w := cluster(t, 3)
			w.run(time.Second)
			before := w.nodes[1].core.State()
			for range 200 {
				for id := gossip.NodeID(1); id <= 3; id++ {
					w.inject(strangerID, id, lies(w.nodes[id].core.View())[name])
				}
				w.run(5 * time.Millisecond)
				if !w.allUp(3) || !w.allHold() {
					w.fail("the cluster does not hold")
				}
			}
			if got := w.nodes[1].core.State(); got.Promised != before.Promised || got.Part != before.Part {
				w.fail("the leader was %+v, is %+v", before, got)
			}
			w.add(4)
			w.step(4, Contacts{Nodes: []gossip.Node{{ID: 2}}})
			w.must(5*time.Second, "a fourth joins", func() bool { return w.allUp(4) })
			w.kill(30*time.Millisecond, 1)
			w.must(5*time.Second, "the cluster goes on without its leader", func() bool { return w.allUp(3) && w.allHold() })
		})
	}
}

// TestAttackTheFirstViewComesFromAContact: before the leader answers, a non-member
// sends a joiner a forged view, and refuses it. The node joins the cluster that it asked.
func TestAttackTheFirstViewComesFromAContact(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.add(4)
	me := w.nodes[4].core.cfg.Self
	fake := &gossip.View{Cluster: 99, Epoch: gossip.FirstEpoch(7), Members: []gossip.Member{
		{Node: gossip.Node{ID: strangerID}, Joined: gossip.FirstEpoch(7), Status: gossip.Up}, {Node: me, Joined: gossip.FirstEpoch(7), Status: gossip.Up},
	}}
	lie := func() {
		w.inject(strangerID, 4, &JoinRefused{Reason: "no"})
		w.inject(strangerID, 4, &Promised{Generation: generationMax}) // simulator, seed 17
		w.inject(strangerID, 4, &JoinPassed{Leader: strangerID})
		w.inject(strangerID, 4, &Decided{View: Whole(fake)})
		w.inject(strangerID, 4, &Ping{Ballot: Ballot{Round: 9, Node: strangerID}, Cluster: 99, Epoch: fake.Epoch, Life: true, View: Whole(fake)})
	}
	lie()
	w.step(4, Contacts{Nodes: []gossip.Node{{ID: 2}}}) // no leader: it forwards the request
	lie()
	w.must(5*time.Second, "it joins the cluster it asked", func() bool { lie(); return w.allUp(4) && w.allHold() })
	if g := w.nodes[4].core.generation; g > 1000 {
		w.fail("the non-member has raised its generation to %d", g)
	}
}

// TestAStrangersViewIsCheckedWithMembers: a member that was cut off and removed meets
// a node that joined later first. It asks the members of its view, and ends when they
// answer.
func TestAStrangersViewIsCheckedWithMembers(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return from == 3 || to == 3 }
	w.must(10*time.Second, "it is removed", func() bool { return w.nodes[1].core.View().Member(3) == nil })
	w.add(4)
	w.step(4, Contacts{Nodes: []gossip.Node{{ID: 1}}})
	w.must(10*time.Second, "another joins", func() bool { m := w.nodes[1].core.View().Member(4); return m != nil && m.Status == gossip.Up })
	w.cut = nil
	w.inject(4, 3, &Decided{View: Whole(w.nodes[4].core.View())})
	w.must(testPing, "it ends", func() bool { return w.nodes[3].removed != nil })
}

// TestALeaderlessNodeAcceptsANonMember: all members of a node's view are gone when its
// partition heals. After Lease + RemoveAfter without a leader, and no sooner, it accepts
// the view of a non-member.
func TestALeaderlessNodeAcceptsANonMember(t *testing.T) {
	w := cluster(t, 3)
	w.run(time.Second)
	w.cut = func(from, to gossip.NodeID) bool { return from == 3 || to == 3 }
	next := &gossip.View{Cluster: w.nodes[3].core.View().Cluster, Epoch: w.nodes[3].core.View().Epoch + 9,
		Members: []gossip.Member{{Node: gossip.Node{ID: strangerID}, Joined: 1, Status: gossip.Up}}}
	for w.nodes[3].removed == nil && w.now < time.Minute {
		w.inject(strangerID, 3, &Decided{View: Whole(next)})
		w.run(10 * time.Millisecond)
	}
	if least := time.Second + testLease + testRemove - testPing; w.nodes[3].removed == nil || w.now < least {
		w.fail("it ended after %v, not between %v and a minute", w.now, least)
	}
}

// TestAttackNumbersNearTheirEnd: frames with the highest epochs, generations and rounds
// are rejected, and those below the limit leave enough numbers free.
func TestAttackNumbersNearTheirEnd(t *testing.T) {
	v := sampleView()
	with := func(e gossip.Epoch) *gossip.View { x := *v; x.Epoch = e; return &x }
	for name, m := range map[string]Message{
		"epoch":      &Decided{View: Whole(with(math.MaxUint64))},
		"generation": &Decided{View: Whole(with(gossip.FirstEpoch(generationMax + 1)))},
		"step":       &Decided{View: Whole(with(gossip.Epoch(1)<<32 | stepMax + 1))},
		"promised":   &Promised{Base: 1, Generation: math.MaxUint32},
		"round":      &Prepare{Ballot: Ballot{Round: math.MaxUint64, Node: 1}, Base: Whole(v)},
		"ping":       &Ping{Ballot: Ballot{Round: roundMax + 1, Node: 1}, Epoch: 1},
		"nack":       &Nack{Promised: Ballot{Round: roundMax + 1, Node: 1}},
	} {
		var limit *wire.LimitError
		if _, err := Decode(Append(nil, m)); !errors.As(err, &limit) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, m := range []Message{&Decided{View: Whole(with(gossip.FirstEpoch(generationMax)))}, &Prepare{Ballot: Ballot{Round: roundMax, Node: 1}, Base: Whole(v)}} {
		if _, err := Decode(Append(nil, m)); err != nil {
			t.Error(err)
		}
	}
}
