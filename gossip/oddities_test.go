package gossip

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
)

// say makes m send a message of the view protocol that its core never would.
func (c *cluster) say(m *member, to *member, msg view.Message) {
	c.t.Helper()
	if err := m.transport.Send(to.Self().ID, transport.Control, transport.KindView, view.Append(nil, msg)); err != nil {
		c.t.Error(err)
	}
}

// TestReplaysAndLiesChangeNothing: a member sends what a leader once said, speaks for
// another, grants what cannot be, asks to let in nodes that are not there and claims
// the places of nodes that are. Everything is counted and logged, the view and the
// leases stay.
func TestReplaysAndLiesChangeNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		first, rest := leader(ms)
		liar, victim := rest[0], rest[1]
		v := first.View()
		now := victim.Status().Protocol
		old := view.Ballot{Node: liar.Self().ID}
		for range 20 {
			// Old ballots, as if replayed: a former leader's pings, prepares and accepts.
			c.say(liar, victim, &view.Ping{Ballot: old, Cluster: v.Cluster, Epoch: v.Epoch, Round: 1, Echo: 1, Remaining: time.Second, Life: true})
			c.say(liar, victim, &view.Prepare{Ballot: old, Base: v})
			// In the leader's name, and of another cluster.
			c.say(liar, victim, &view.Ping{Ballot: view.Ballot{Round: now.Promised.Round, Node: first.Self().ID}, Cluster: v.Cluster, Epoch: v.Epoch})
			c.say(liar, victim, &view.Ping{Ballot: view.Ballot{Round: 1 << 40, Node: liar.Self().ID}, Cluster: v.Cluster + 1, Epoch: v.Epoch})
			// The place of one that is a member, at another address.
			c.say(liar, first, &view.JoinRequest{Node: view.Node{ID: victim.Self().ID, Name: "false", Addr: "10.9.9.9:1"}})
			pass(50 * time.Millisecond)
			for _, m := range ms {
				if !m.LeaseValid() {
					t.Errorf("%s has lost its lease", m.addr)
				}
			}
		}
		c.settled(time.Millisecond, ms...)
		if got := first.View(); got.Epoch != v.Epoch || got.Member(victim.Self().ID).Addr != victim.addr {
			t.Errorf("view %v became %v", v.Epoch, got.Epoch)
		}
		if s := victim.Stats(); s.BallotsStale < 40 || s.Impostures != 20 || s.Strangers != 20 {
			t.Errorf("%d stale ballots, %d impostures, %d strangers", s.BallotsStale, s.Impostures, s.Strangers)
		}
		for _, kind := range []string{"ballot refused", "message under another's ballot", "stranger"} {
			found := false
			for _, x := range victim.Status().Recent {
				found = found || x.Kind == kind && x.Subject == liar.Self().ID
			}
			if !found {
				t.Errorf("nothing is recorded of %q", kind)
			}
		}

		// Nodes that do not exist never vote, and go again.
		for i := range 5 {
			c.say(liar, first, &view.JoinRequest{Node: view.Node{ID: view.NodeID(9000 + i), Name: "phantom", Addr: "10.9.9.9:1"}})
		}
		pass(time.Second)
		for i := range 5 {
			if m := first.View().Member(view.NodeID(9000 + i)); m != nil && m.Status.Votes() {
				t.Errorf("a node that is not there votes: %+v", m)
			}
		}
		c.settled(10*time.Second, ms...)
	})
}
