package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

// court is an evidence machine with n peers that are members, all connected.
type court struct {
	*evidence
	now      clock.Instant
	count    counters
	reported []string
	// linked holds the Link events for the core, sent the messages to peers.
	linked []view.Link
	sent   []outgoing
	// certainly reports whether the newest proof was certain; inquired holds the peers
	// whose UDP port was probed.
	certainly bool
	inquired  []gossip.NodeID
}

func newCourt(n int) *court {
	c := &court{now: clock.Instant(time.Second)}
	c.evidence = newEvidence(100, gossip.EvidenceFull, true, time.Second, &c.count)
	c.authenticated = true
	c.admitPeers(n)
	return c
}

// admitPeers makes peers 1 to n members that are connected both ways.
func (c *court) admitPeers(n int) {
	v := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 100}}}}
	for i := range n {
		p := c.peerOf(i + 1)
		c.on(p, transport.Connected)
		c.on(p, transport.Accepted)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: p.ID, Name: p.Name, Addr: p.Addr}, Status: gossip.Up})
	}
	c.run(func(a *actions) { c.onView(c.now, v, a) })
	c.reported = nil
}

func (c *court) peerOf(i int) transport.Peer {
	return transport.Peer{ID: gossip.NodeID(i), Name: fmt.Sprint("n", i), Addr: fmt.Sprintf("10.0.0.%d:1", i)}
}

func (c *court) run(do func(*actions)) {
	var a actions
	do(&a)
	for _, ev := range a.core {
		switch ev := ev.(type) {
		case view.ProvenDead:
			c.reported = append(c.reported, fmt.Sprintf("dead %d: %s", uint64(ev.Subject), ev.Reason))
			c.certainly = ev.Certain
		case view.Alive:
			c.reported = append(c.reported, fmt.Sprintf("alive %d", uint64(ev.Subject)))
		case view.Unreachable:
			c.reported = append(c.reported, fmt.Sprintf("unreachable %d", len(ev.Nodes)))
		case view.Link:
			c.linked = append(c.linked, ev)
		}
	}
	c.sent = append(c.sent, a.send...)
	for _, n := range a.inquire {
		c.inquired = append(c.inquired, n.ID)
	}
	for _, n := range a.oracle {
		c.reported = append(c.reported, fmt.Sprintf("oracle %d", uint64(n.ID)))
	}
}

func (c *court) on(p transport.Peer, types ...transport.PeerEventType) {
	for _, ty := range types {
		c.run(func(a *actions) { c.onLink(c.now, transport.PeerEvent{Peer: p, Class: transport.Control, Type: ty}, a) })
	}
}

func (c *court) pass(d time.Duration) {
	c.now = c.now.Add(d)
	c.run(func(a *actions) { c.runDue(c.now, a) })
}

// expect compares the events since the last call.
func (c *court) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	var got []string
	for _, s := range c.reported {
		if !strings.HasPrefix(s, "oracle") || slices.ContainsFunc(want, func(w string) bool { return strings.HasPrefix(w, "oracle") }) {
			got = append(got, s)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: reported %q, want %q", what, got, want)
	}
	c.reported = nil
}

const (
	lost         = transport.Lost
	acceptedLost = transport.AcceptedLost
	refused      = transport.Refused
)

func TestRefusedTwiceAfterALossProvesACrash(t *testing.T) {
	c := newCourt(4)
	p := c.peerOf(1)
	c.on(p, lost, acceptedLost, refused)
	c.expect(t, "one refusal")
	c.pass(10 * time.Millisecond)
	c.on(p, refused)
	c.expect(t, "two, too close")
	c.pass(15 * time.Millisecond)
	c.expect(t, "two, and time has passed", "dead 1: refused")
	c.on(p, refused, refused)
	c.expect(t, "it is told once")
	c.on(p, transport.Connected)
	c.expect(t, "it answers after all", "alive 1")
}

func TestEventsThatProveNothing(t *testing.T) {
	for name, do := range map[string]func(*court, transport.Peer){
		"time-outs": func(c *court, p transport.Peer) {
			c.on(p, lost, acceptedLost, transport.DialFailed)
			c.pass(time.Second)
			c.on(p, transport.DialFailed)
		},
		"a refusal, then a time-out, then a refusal": func(c *court, p transport.Peer) {
			c.on(p, lost, acceptedLost, refused)
			c.pass(100 * time.Millisecond)
			c.on(p, transport.DialFailed, refused)
		},
		"a loss, and connected again": func(c *court, p transport.Peer) {
			c.on(p, lost, acceptedLost, refused, transport.Connected, lost, refused)
			c.pass(time.Millisecond)
		},
		"refused while its bytes still come": func(c *court, p transport.Peer) {
			c.on(p, lost, refused)
			c.pass(100 * time.Millisecond)
			c.on(p, refused)
		},
		"refused, and never met": func(c *court, _ transport.Peer) {
			stranger := c.peerOf(9)
			v := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: 9, Addr: stranger.Addr}, Status: gossip.Up}}}
			c.run(func(a *actions) { c.onView(c.now, v, a) })
			c.on(stranger, refused)
			c.pass(time.Second)
			c.on(stranger, refused)
		},
	} {
		c := newCourt(4)
		do(c, c.peerOf(1))
		c.reported = slices.DeleteFunc(c.reported, func(s string) bool { return strings.HasPrefix(s, "unreachable") })
		c.expect(t, name)
	}
}

func TestAStalledIncomingConnectionDelaysAProofOnly(t *testing.T) {
	c := newCourt(4)
	p := c.peerOf(1)
	c.on(p, lost, refused)
	c.pass(30 * time.Millisecond)
	c.on(p, refused)
	c.expect(t, "its bytes may still come")
	c.pass(readOut(time.Second))
	c.expect(t, "they would have come", "dead 1: refused", "unreachable 1")
}

func TestCertainProofsAreNeverTakenBack(t *testing.T) {
	c := newCourt(4)
	p := c.peerOf(1)
	c.run(func(a *actions) {
		c.onLink(c.now, transport.PeerEvent{Peer: c.peerOf(7), Former: p.ID, Type: transport.OtherNode}, a)
	})
	c.expect(t, "another incarnation answers", "dead 1: other node")
	c.on(p, transport.Accepted)
	c.expect(t, "a late connection of the old one")
	c.run(func(a *actions) { c.onGoodbye(c.now, c.peerOf(2).ID, a) })
	c.expect(t, "signed off", "dead 2: goodbye")
	c.run(func(a *actions) { c.withdrawProof(c.peerOf(2).ID, a) })
	c.expect(t, "a late frame")
}

func TestMostLinksBreakingTogetherNeedMoreRefusals(t *testing.T) {
	c := newCourt(3)
	for i := 1; i <= 2; i++ {
		c.on(c.peerOf(i), lost, acceptedLost, refused)
	}
	c.pass(25 * time.Millisecond)
	for i := 1; i <= 2; i++ {
		c.on(c.peerOf(i), refused)
	}
	c.expect(t, "what would do for one is not enough")
	c.pass(40 * time.Millisecond)
	for i := 1; i <= 2; i++ {
		c.on(c.peerOf(i), refused)
	}
	c.expect(t, "refused thrice", "dead 1: refused", "dead 2: refused")
}

// Processes that are killed at the same instant end one after the other. The span of
// refusals, which shows whether the fault is local, begins with the first of them; each
// still needs its own refusals.
func TestTheLastToBreakWaitsWithTheFirst(t *testing.T) {
	c := newCourt(3)
	one, two, three := c.peerOf(1), c.peerOf(2), c.peerOf(3)
	c.on(one, lost, acceptedLost, refused)
	c.on(two, lost, acceptedLost, refused)
	c.pass(15 * time.Millisecond)
	c.on(three, lost, acceptedLost, refused)
	for range 2 {
		c.pass(10 * time.Millisecond)
		for _, p := range []transport.Peer{one, two, three} {
			c.on(p, refused)
		}
	}
	c.expect(t, "refused thrice, for 35 ms")
	if d := c.nextTickAt(c.now); d != c.now.Add(15*time.Millisecond) {
		t.Errorf("it looks again after %v", d.Sub(c.now))
	}
	c.pass(15 * time.Millisecond)
	slices.Sort(c.reported)
	c.expect(t, "50 ms after the first refusal", "dead 1: refused", "dead 2: refused", "dead 3: refused")

	c = newCourt(3)
	c.on(one, lost, acceptedLost, refused, refused, refused)
	c.on(two, lost, acceptedLost, refused, refused, refused)
	c.pass(45 * time.Millisecond)
	c.on(three, lost, acceptedLost, refused, refused)
	c.pass(10 * time.Millisecond)
	c.on(three, refused)
	slices.Sort(c.reported)
	c.expect(t, "refused thrice within 10 ms", "dead 1: refused", "dead 2: refused")
	c.pass(10 * time.Millisecond)
	c.expect(t, "and for 20 ms", "dead 3: refused")

	// A link that broke long before does not count.
	c = newCourt(3)
	c.on(one, lost, acceptedLost, refused, refused, refused)
	c.pass(refusalsSpanSuspectSelf)
	c.expect(t, "one of three", "dead 1: refused")
	c.on(two, lost, acceptedLost, refused, refused, refused)
	c.on(three, lost, acceptedLost, refused, refused, refused)
	c.pass(refusalsSpanSuspectSelf - time.Millisecond)
	c.expect(t, "two more, for less than 50 ms")
	c.pass(time.Millisecond)
	slices.Sort(c.reported)
	c.expect(t, "for 50 ms", "dead 2: refused", "dead 3: refused")
}

func TestTheOracleIsAskedAboutTheUnreachable(t *testing.T) {
	c := newCourt(3)
	p := c.peerOf(1)
	c.on(p, lost, acceptedLost, transport.DialFailed)
	c.pass(unreachableAfter)
	c.expect(t, "unreachable for a while", "unreachable 1", "oracle 1")
	c.pass(time.Second)
	c.expect(t, "one question at a time")
	c.run(func(a *actions) { c.onOracle(c.now, p.ID, false, a) })
	c.pass(time.Second)
	c.expect(t, "it asks again", "oracle 1")
	c.run(func(a *actions) { c.onOracle(c.now, p.ID, true, a) })
	c.expect(t, "it says so", "dead 1: oracle")
	c.run(func(a *actions) { c.onOracle(c.now, c.peerOf(2).ID, true, a) })
	c.expect(t, "it says so of a node that is connected")
}

func TestUnreachableIsReportedOnChange(t *testing.T) {
	c := newCourt(3)
	c.on(c.peerOf(1), lost)
	c.pass(unreachableAfter / 2)
	c.expect(t, "too early")
	c.pass(unreachableAfter / 2)
	c.expect(t, "one", "unreachable 1")
	c.pass(time.Second)
	c.expect(t, "no change")
	c.on(c.peerOf(1), transport.Connected)
	c.pass(time.Millisecond)
	c.expect(t, "back", "unreachable 0")
}

// A proof from before the node was in a view is repeated when it is: the core drops
// proofs about non-members.
func TestAnEarlyProofIsRepeated(t *testing.T) {
	c := newCourt(1)
	p := c.peerOf(5)
	c.on(p, transport.Connected, transport.Accepted)
	c.run(func(a *actions) { c.onGoodbye(c.now, p.ID, a) })
	c.reported = nil
	v := &gossip.View{Members: []gossip.Member{{Node: gossip.Node{ID: p.ID, Addr: p.Addr}, Status: gossip.Joining}}}
	c.run(func(a *actions) { c.onView(c.now, v, a) })
	c.expect(t, "the view has it", "dead 5: goodbye")
}

// A failed dial of class Message empties its queue: the senders must get an event
// immediately, or asks wait for their deadlines. For class Control the transport reports
// it.
func TestFailedMessageDialsAreLosses(t *testing.T) {
	e := newEvidence(1, gossip.EvidenceFull, false, time.Second, &counters{})
	a := &actions{}
	p := transport.Peer{ID: 2, Name: "two"}
	for _, ty := range []transport.PeerEventType{transport.Refused, transport.DialFailed} {
		for _, class := range []transport.Class{transport.Message, transport.Control} {
			e.onLink(5, transport.PeerEvent{Peer: p, Class: class, Type: ty}, a)
		}
	}
	if len(a.events) != 2 {
		t.Fatalf("%v", a.events)
	}
	for _, ev := range a.events {
		if l, ok := ev.(PeerLost); !ok || l.ID != 2 || l.Class != transport.Message || l.Incoming {
			t.Errorf("%+v", ev)
		}
	}
}
