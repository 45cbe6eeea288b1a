package gossip

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip/transport"
	"github.com/peerage-go/peerage/gossip/view"
)

var (
	peerIP   = netip.MustParseAddr("10.0.0.1")
	routerIP = netip.MustParseAddr("10.0.0.254")
)

// answer and closed are what a peer's process, and the host of a dead one, send back.
func answer() transport.Inquiry {
	return transport.Inquiry{Asked: peerIP, Outcome: transport.Answered, By: peerIP, TTL: 63}
}

func closed() transport.Inquiry {
	return transport.Inquiry{Asked: peerIP, Outcome: transport.PortUnreachable, By: peerIP, TTL: 63}
}

// back hands in what became of an inquiry of a peer.
func (c *court) back(p transport.Peer, q transport.Inquiry) {
	c.run(func(a *actions) { c.evidence.inquired(c.now, p.ID, &q, a) })
}

// newInquiringCourt is a court whose peers' UDP ports can be asked.
func newInquiringCourt() *court {
	c := newCourt(0)
	c.inquires = true
	v := &view.View{Members: []view.Member{{Node: view.Node{ID: 100}}}}
	for i := range 4 {
		p := c.peerOf(i + 1)
		c.on(p, transport.Connected)
		c.on(p, transport.Accepted)
		v.Members = append(v.Members, view.Member{Node: view.Node{ID: p.ID, Name: p.Name, Addr: p.Addr}, Status: view.Up})
	}
	c.run(func(a *actions) { c.view(c.now, v, a) })
	c.said = nil
	return c
}

// crashed loses the connections to a peer, and has them refused until that is a weak proof.
func (c *court) crashed(p transport.Peer) {
	c.on(p, lost, acceptedLost, refused)
	c.pass(25 * time.Millisecond)
	c.on(p, refused)
}

// TestASealedRefusalIsCertain: a refusal is weak until the peer's own host says that the
// port of its process is closed.
func TestASealedRefusalIsCertain(t *testing.T) {
	c := newInquiringCourt()
	p := c.peerOf(1)
	c.pass(time.Millisecond)
	if !slices.Contains(c.inquired, p.ID) {
		t.Fatal("no baseline was asked for")
	}
	c.back(p, answer())
	c.inquired = nil
	c.crashed(p)
	c.expect(t, "refused", "dead 1: refused")
	if c.certainly || !slices.Equal(c.inquired, []view.NodeID{p.ID}) {
		t.Fatalf("certain: %v, asked %v", c.certainly, c.inquired)
	}
	c.back(p, closed())
	c.expect(t, "its host says so", "dead 1: sealed refusal")
	if !c.certainly {
		t.Error("it is weak")
	}
	c.run(func(a *actions) { c.heard(p.ID, a) })
	c.expect(t, "a late frame takes it back", "alive 1")
}

// TestWhatSealsNothing: everything that does not match the baseline leaves a refusal weak.
func TestWhatSealsNothing(t *testing.T) {
	with := func(q transport.Inquiry, change func(*transport.Inquiry)) transport.Inquiry {
		change(&q)
		return q
	}
	for name, s := range map[string]struct{ base, then transport.Inquiry }{
		"nothing comes back":           {answer(), transport.Inquiry{Asked: peerIP}},
		"the router refuses":           {answer(), with(closed(), func(q *transport.Inquiry) { q.By = routerIP })},
		"another TTL":                  {answer(), with(closed(), func(q *transport.Inquiry) { q.TTL = 64 })},
		"another address is asked":     {answer(), with(closed(), func(q *transport.Inquiry) { q.Asked, q.By = routerIP, routerIP })},
		"no baseline":                  {transport.Inquiry{Asked: peerIP}, closed()},
		"the port was always rejected": {closed(), closed()},
		"the address is translated":    {with(answer(), func(q *transport.Inquiry) { q.By = routerIP }), closed()},
		"the TTL is not known":         {with(answer(), func(q *transport.Inquiry) { q.TTL = 0 }), with(closed(), func(q *transport.Inquiry) { q.TTL = 0 })},
	} {
		t.Run(name, func(t *testing.T) {
			c := newInquiringCourt()
			p := c.peerOf(1)
			c.pass(time.Millisecond)
			c.back(p, s.base)
			c.crashed(p)
			c.back(p, s.then)
			c.expect(t, "it stays weak", "dead 1: refused")
			if c.certainly {
				t.Error("it is certain")
			}
		})
	}
}

// TestAnOldBaselineSealsNothing: the network may have changed since.
func TestAnOldBaselineSealsNothing(t *testing.T) {
	c := newInquiringCourt()
	p := c.peerOf(1)
	c.pass(time.Millisecond)
	c.back(p, answer())
	c.pass(baselineFor + time.Second)
	c.crashed(p)
	c.back(p, closed())
	c.expect(t, "it stays weak", "dead 1: refused")
}

// TestAnAnswerVoidsRefusals: the process answers while connections are refused, so
// something on the way refuses in its name.
func TestAnAnswerVoidsRefusals(t *testing.T) {
	c := newInquiringCourt()
	p := c.peerOf(1)
	c.pass(time.Millisecond)
	c.back(p, answer())
	c.crashed(p)
	c.expect(t, "refused", "dead 1: refused")
	c.back(p, answer())
	c.expect(t, "it answers", "alive 1")
	c.on(p, refused)
	c.pass(100 * time.Millisecond)
	c.on(p, refused)
	c.expect(t, "refusals count for nothing")
	c.pass(voidFor)
	c.expect(t, "for a second", "dead 1: refused", "unreachable 1")
}

// TestAnInquiryIsRepeatedSparingly: kernels limit the errors that they send.
func TestAnInquiryIsRepeatedSparingly(t *testing.T) {
	c := newInquiringCourt()
	p := c.peerOf(1)
	c.pass(time.Millisecond)
	c.back(p, answer())
	c.inquired = nil
	c.crashed(p)
	asked := 0
	for range 200 {
		for _, id := range c.inquired {
			if id == p.ID {
				asked++
				c.back(p, transport.Inquiry{Asked: peerIP})
			}
		}
		c.inquired = nil
		c.pass(100 * time.Millisecond)
	}
	if asked != inquiriesMax {
		t.Errorf("asked %d times in 20 s, want %d", asked, inquiriesMax)
	}
}

// TestAForgedGoodbye: without authentication anyone can say goodbye in a peer's name. It
// is a weak proof, which the next word of the peer takes back.
func TestAForgedGoodbye(t *testing.T) {
	c := newInquiringCourt()
	c.authenticated = false
	p := c.peerOf(1)
	c.run(func(a *actions) { c.goodbye(c.now, p.ID, a) })
	c.expect(t, "a goodbye", "dead 1: goodbye")
	if c.certainly {
		t.Error("it is certain")
	}
	c.run(func(a *actions) { c.heard(p.ID, a) })
	c.expect(t, "the peer goes on", "alive 1")
	// A true one is followed by a closed port.
	c.pass(time.Millisecond)
	c.back(p, answer())
	c.run(func(a *actions) { c.goodbye(c.now, p.ID, a) })
	c.crashed(p)
	c.back(p, closed())
	c.expect(t, "a true one", "dead 1: goodbye", "dead 1: sealed refusal")
}

// TestCertainty: which proofs the core may take for certain, by setting.
func TestCertainty(t *testing.T) {
	all := []EvidenceKind{EvidenceGoodbye, EvidenceOtherNode, EvidenceOracle, EvidenceSealed, EvidenceRefused}
	for _, s := range []struct {
		level         view.CrashEvidence
		authenticated bool
		want          []EvidenceKind
	}{
		{view.EvidenceFull, true, all[:4]},
		{view.EvidenceFull, false, all[1:4]},
		{view.EvidenceWithinQuorum, true, []EvidenceKind{EvidenceGoodbye, EvidenceOracle}},
		{view.EvidenceWithinQuorum, false, []EvidenceKind{EvidenceOracle}},
	} {
		e := &evidence{level: s.level, authenticated: s.authenticated}
		for _, k := range all {
			if e.certain(k) != slices.Contains(s.want, k) {
				t.Errorf("%s, authenticated %v: %v is certain: %v", evidenceLevel(s.level), s.authenticated, k, e.certain(k))
			}
		}
	}
}

// TestInquiriesKeepTheLoopAtRest: a peer that may not be asked yet wakes nothing.
func TestInquiriesKeepTheLoopAtRest(t *testing.T) {
	c := newInquiringCourt()
	p := c.peerOf(1)
	c.pass(time.Millisecond)
	for i := range 4 {
		c.back(c.peerOf(i+1), answer())
	}
	c.crashed(p)
	c.back(p, transport.Inquiry{Asked: peerIP})
	c.on(p, transport.DialFailed)
	c.pass(inquiryRetry + 100*time.Millisecond)
	c.on(p, refused) // one is too few to ask again
	c.pass(10 * time.Millisecond)
	if d := c.deadline(c.now); !c.now.Before(d) {
		t.Errorf("due %v ago, and nothing is done", c.now.Sub(d))
	}
}
