package membership

import (
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// sendForged makes m send a message of the view protocol that its core never would.
func (c *cluster) sendForged(m *member, to *member, msg view.Message) {
	c.t.Helper()
	if err := m.transport.Send(to.Self().ID, transport.Control, transport.KindView, view.Append(nil, msg)); err != nil {
		c.t.Error(err)
	}
}

// recorded checks for lines of those kinds about a liar.
func (c *cluster) recorded(at, liar *member, kinds ...string) {
	c.t.Helper()
	for _, kind := range kinds {
		if !slices.ContainsFunc(at.Status().Recent, func(x Recent) bool { return x.Kind == kind && x.Subject == liar.Self().ID }) {
			c.t.Errorf("%s has recorded nothing of %q", at.addr, kind)
		}
	}
}

// TestReplaysAndLiesChangeNothing: a member replays a leader's messages, sends in
// another's name, grants impossible leases, asks for admission of absent nodes and claims
// the places of present ones. Everything is counted and logged; the view and the leases
// stay.
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
			c.sendForged(liar, victim, &view.Ping{Ballot: old, Cluster: v.Cluster, Epoch: v.Epoch, Round: 1, Echo: 1, Remaining: time.Second, Life: true})
			c.sendForged(liar, victim, &view.Prepare{Ballot: old, Base: view.Whole(v)})
			// In the leader's name, and of another cluster.
			c.sendForged(liar, victim, &view.Ping{Ballot: view.Ballot{Round: now.Promised.Round, Node: first.Self().ID}, Cluster: v.Cluster, Epoch: v.Epoch})
			c.sendForged(liar, victim, &view.Ping{Ballot: view.Ballot{Round: 1 << 40, Node: liar.Self().ID}, Cluster: v.Cluster + 1, Epoch: v.Epoch})
			// In a member's name, and as if forwarded, to the leader and to a forwarding
			// member: its place, at another address.
			lie := gossip.Node{ID: victim.Self().ID, Name: "false", Addr: "10.9.9.9:1"}
			c.sendForged(liar, first, &view.JoinRequest{Node: lie})
			c.sendForged(liar, first, &view.JoinRequest{Node: lie, Hops: 1})
			c.sendForged(liar, victim, &view.JoinRequest{Node: lie, Hops: 1})
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
		if s := victim.Stats(); s.BallotsStale < 40 || s.Impostures != 40 || s.Strangers != 20 {
			t.Errorf("the victim counts %d stale ballots, %d impostures, %d strangers", s.BallotsStale, s.Impostures, s.Strangers)
		}
		if s := first.Stats(); s.Impostures != 40 {
			t.Errorf("the leader counts %d impostures", s.Impostures)
		}
		for _, kind := range []transport.Kind{transport.KindView, transport.KindEvidence} {
			if err := liar.transport.Send(victim.Self().ID, transport.Control, kind, []byte("garbage")); err != nil {
				t.Error(err)
			}
		}
		pass(50 * time.Millisecond)
		if s := victim.Stats(); s.FramesMalformed != 2 {
			t.Errorf("the victim counts %d malformed messages", s.FramesMalformed)
		}
		c.recorded(victim, liar, "undecodable membership message, ignored", "ballot refused", "message in another node's name, ignored", "other cluster", "join request with a member's id, ignored")
		c.recorded(first, liar, "message in another node's name, ignored", "join request with a member's id, ignored")

		// Nodes that do not exist never vote, and are removed.
		for i := range 5 {
			c.sendForged(liar, first, &view.JoinRequest{Node: gossip.Node{ID: gossip.NodeID(9000 + i), Name: "phantom", Addr: "10.9.9.9:1"}, Hops: 1})
		}
		pass(time.Second)
		for i := range 5 {
			if m := first.View().Member(gossip.NodeID(9000 + i)); m != nil && m.Status.Votes() {
				t.Errorf("a node that is not there votes: %+v", m)
			}
		}
		c.settled(10*time.Second, ms...)
	})
}

// A leader's grant echoes an answer that was never sent, or exceeds L: no node accepts it
// as a lease.
func TestAnImpossibleGrantIsNone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		first, rest := leader(ms)
		victim := rest[0]
		now, v := victim.Status().Protocol, first.View()
		ping := view.Ping{Ballot: now.Promised, Cluster: v.Cluster, Epoch: v.Epoch, Round: 1, Remaining: time.Second, Life: true,
			Echo: int64(victim.clock.Now().Add(time.Hour))}
		c.sendForged(first, victim, &ping)
		longer := ping
		longer.Echo, longer.Remaining = int64(victim.clock.Now()), time.Hour
		c.sendForged(first, victim, &longer)
		pass(50 * time.Millisecond)
		if left := victim.Lease().Until.Sub(victim.clock.Now()); left > time.Second {
			t.Errorf("it holds a lease for %v", left)
		}
		if n := victim.Stats().Impostures; n != 2 {
			t.Errorf("%d impostures", n)
		}
		c.recorded(victim, first, "impossible lease grant, ignored")
	})
}
