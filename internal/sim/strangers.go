package sim

import (
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/coverage"
	"github.com/peerage-go/peerage/internal/sim/run"
)

// strangers are nodes that are never in a view and send messages of the view protocol.
type strangers struct {
	run   *run.Run
	hosts *hosts
}

// strangerID is a node that has completed the handshake but is never in a view.
// It holds a certificate, and sends messages of the view protocol.
const strangerID gossip.NodeID = 0x5bad_5bad_5bad_5bad

// planMessages makes the stranger send for as long as the run lasts, after the faults too.
// Every guarantee must hold for any message that it sends.
func (s *strangers) planMessages() {
	if !s.run.Config.Strangers {
		return
	}
	r := s.run.Rand.Stranger
	s.run.After(r.Duration(5*time.Millisecond, 400*time.Millisecond), func() {
		if all := s.hosts.running(); len(all) > 0 {
			s.sendTo(all[r.IntN(len(all))])
		}
		s.planMessages()
	})
}

// sendTo sends one message to a node. A node without a lease is sent no view: when it
// has been without a leader for long enough, it accepts views from strangers, since its
// view may have no members left (speaker.go in internal/core/view).
func (s *strangers) sendTo(n *node) {
	kind := s.run.Rand.Stranger.IntN(9)
	n.p.Thread.Run(func() {
		v := n.member.CoreView()
		if v == nil {
			v = &gossip.View{Cluster: 1, Epoch: gossip.FirstEpoch(1)}
		}
		msg := forge(kind, v)
		if _, shows := msg.(*view.Decided); shows && !n.member.LeaseValid() {
			return
		}
		n.p.Event("stranger", uint64(kind), func() string { return s.run.Names.Message(msg) })
		s.run.Hit(coverage.Stranger)
		n.member.Step(view.Received{From: strangerID, Msg: msg})
	})
}

// forge makes up a message about the view that its receiver holds.
func forge(kind int, v *gossip.View) view.Message {
	self := gossip.Member{Node: gossip.Node{ID: strangerID, Name: "stranger"}, Joined: v.Epoch, Status: gossip.Up}
	ballot := view.Ballot{Round: 1 << 40, Node: strangerID}
	next := &gossip.View{Cluster: v.Cluster, Epoch: v.Epoch + 5, Members: []gossip.Member{self}, Forks: v.Forks}
	switch kind {
	case 0:
		return &view.Decided{View: view.Whole(next)}
	case 1: // with all members, far ahead
		return &view.Decided{View: view.Whole(&gossip.View{Cluster: v.Cluster, Epoch: v.Epoch + 1<<20, Members: v.Members, Forks: v.Forks})}
	case 2: // of a lineage that would stand
		return &view.Decided{View: view.Whole(&gossip.View{Cluster: v.Cluster, Epoch: next.Epoch, Members: next.Members,
			Forks: []gossip.Fork{{From: 1, To: next.Epoch, Kept: 1 << 20, By: strangerID}}})}
	case 3:
		return &view.Prepare{Ballot: ballot, Base: view.Whole(v)}
	case 4:
		return &view.PreVote{Ballot: ballot, Base: view.Whole(v)}
	case 5:
		return &view.Ping{Ballot: ballot, Cluster: v.Cluster, Epoch: v.Epoch, Round: 1, Life: true}
	case 6:
		return &view.Accept{Ping: view.Ping{Ballot: ballot, Cluster: v.Cluster, Epoch: v.Epoch}, Base: view.Whole(v), Next: view.Whole(next)}
	case 7:
		return &view.Promised{Ballot: ballot, Base: v.Epoch, Generation: 1 << 31}
	}
	return &view.JoinRefused{Reason: "sent by a stranger"}
}
