package membership

import (
	"fmt"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/sim/trace"
)

// attempts records which members accepted which views, from the messages on the network.
type attempts struct {
	all     map[attemptKey]*attempt
	byEpoch map[gossip.Epoch][]*attempt
	// met has the highest generation of an attempt that a node proposed or accepted.
	met map[gossip.NodeID]uint32
}

type attemptKey struct {
	ballot view.Ballot
	base   gossip.Epoch
}

type attempt struct {
	base, next *gossip.View
	leader     gossip.NodeID
	acks       map[gossip.NodeID]bool
}

func newAttempts() attempts {
	return attempts{map[attemptKey]*attempt{}, map[gossip.Epoch][]*attempt{}, map[gossip.NodeID]uint32{}}
}

// recordProposal records a proposal, and returns its attempt. It reports whether that was recorded before.
func (s *attempts) recordProposal(leader gossip.NodeID, m *view.Accept, base, next *gossip.View) (a *attempt, repeated bool) {
	key := attemptKey{m.Ping.Ballot, m.Base.Epoch}
	if a := s.all[key]; a != nil {
		return a, true
	}
	a = &attempt{base: base, next: next, leader: leader, acks: map[gossip.NodeID]bool{leader: true}}
	s.all[key] = a
	s.byEpoch[m.Next.Epoch] = append(s.byEpoch[m.Next.Epoch], a)
	return a, false
}

// onPong records that a member has accepted an attempt.
func (s *attempts) onPong(from gossip.NodeID, m *view.Pong) {
	if a := s.all[attemptKey{m.Ballot, m.Accepted}]; m.Accepted != 0 && a != nil {
		a.acks[from] = true
		s.met[from] = max(s.met[from], a.next.Epoch.Generation())
	}
}

// describeAt renders the attempts at an epoch.
func (s *attempts) describeAt(names *trace.Names, e gossip.Epoch) string {
	text := ""
	for _, a := range s.byEpoch[e] {
		text += fmt.Sprintf("%s -> %s by %s acks", names.View(a.base), names.View(a.next), names.Name(a.leader))
		for i := range a.base.Members {
			if id := a.base.Members[i].ID; a.acks[id] {
				text += " " + names.Name(id)
			}
		}
		text += "; "
	}
	return text
}
