package membership

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// TestADisownedNodeJoinsAnew: all other nodes receive a forged goodbye of a member. They
// remove it and refuse it from then on; it ends its incarnation instead of keeping its
// old view forever.
func TestADisownedNodeJoinsAnew(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(4)
		pass(3 * time.Second)
		_, rest := leader(ms)
		victim := rest[1]
		for _, m := range ms {
			if m != victim {
				m.inbox.Put(messageIn{victim.self.ID, &goodbye{}})
			}
		}
		c.until(5*time.Second, "the member ends its incarnation", func() bool { return ended(victim) })
		_ = victim.Close()
		var others []*member
		for _, m := range ms {
			if m != victim {
				others = append(others, m)
			}
		}
		c.settled(5*time.Second, append(others, c.add(victim.addr, Config{Join: memAddrs(4)}))...)
	})
}

// TestARejectingFirewallLeavesNoNodeAlone: a node behind a rejecting firewall eventually
// ends its incarnation, without QuorumLost: otherwise the next one would form a
// cluster by itself.
func TestARejectingFirewallLeavesNoNodeAlone(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		first, rest := leader(ms)
		c.net.Split(transport.Rejected, []string{first.addr}, []string{rest[0].addr, rest[1].addr})
		c.until(time.Minute, "the node gives its incarnation up", func() bool { return ended(first) })
		first.mu.Lock()
		defer first.mu.Unlock()
		if first.ended.QuorumLost {
			t.Errorf("weak proofs: %+v", *first.ended)
		}
	})
}

// TestOneUnauthenticatedRefusalEndsNothing: without authentication, one refusal of four is not
// enough, and a node that holds a lease ignores them.
func TestOneUnauthenticatedRefusalEndsNothing(t *testing.T) {
	v := &gossip.View{}
	for id := gossip.NodeID(1); id <= 5; id++ {
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up})
	}
	for _, s := range []struct {
		authenticated bool
		saying        int
		want          bool
	}{{false, 0, false}, {false, 2, false}, {false, 3, true}, {true, 0, false}, {true, 1, true}} {
		e := newEvidence(1, gossip.EvidenceFull, false, time.Second, &counters{})
		e.authenticated = s.authenticated
		for i := range s.saying {
			p := transport.Peer{ID: gossip.NodeID(2 + i)}
			err := &transport.RefusedError{Code: transport.FailForgotten}
			e.onLink(1, transport.PeerEvent{Peer: p, Class: transport.Control, Type: transport.DialFailed, Err: err}, &actions{})
		}
		if got := e.disowned(v); got != s.want {
			t.Errorf("authenticated %v, %d of 4 say so: disowned %v", s.authenticated, s.saying, got)
		}
	}
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(3 * time.Second)
		first, rest := leader(ms)
		rest[1].transport.Forget(rest[0].self.ID) // and the leader does not
		pass(20 * time.Second)
		if ended(rest[0]) || !rest[0].LeaseValid() || first.View().Member(rest[0].self.ID) == nil {
			t.Error("a node that the leader serves has ended")
		}
	})
}
