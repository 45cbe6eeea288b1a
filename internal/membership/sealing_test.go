package membership

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

var (
	peerIP   = netip.MustParseAddr("10.0.0.1")
	routerIP = netip.MustParseAddr("10.0.0.254")
)

// answer and closed are the responses of a peer's process, and of the host of a dead one.
func answer() transport.Inquiry {
	return transport.Inquiry{Asked: peerIP, Outcome: transport.Answered, By: peerIP, TTL: 63}
}

func closed() transport.Inquiry {
	return transport.Inquiry{Asked: peerIP, Outcome: transport.PortUnreachable, By: peerIP, TTL: 63}
}

// back delivers the outcome of an inquiry of a peer.
func (c *court) back(p transport.Peer, q transport.Inquiry) {
	c.run(func(a *actions) { c.evidence.onInquiry(c.now, p.ID, &q, a) })
}

// newInquiringCourt returns a court whose peers' UDP ports can be probed.
func newInquiringCourt() *court {
	c := newCourt(0)
	c.inquires = true
	c.admitPeers(4)
	return c
}

// crashed loses the connections to a peer, and has them refused until that is a weak proof.
func (c *court) crashed(p transport.Peer) {
	c.on(p, lost, acceptedLost, refused)
	c.pass(25 * time.Millisecond)
	c.on(p, refused)
}

// TestASealedRefusalIsCertain: a refusal is weak until the peer's own host reports the
// port of its process as closed.
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
	if c.certainly || !slices.Equal(c.inquired, []gossip.NodeID{p.ID}) {
		t.Fatalf("certain: %v, asked %v", c.certainly, c.inquired)
	}
	c.back(p, closed())
	c.expect(t, "its host says so", "dead 1: sealed refusal")
	if !c.certainly {
		t.Error("it is weak")
	}
	c.run(func(a *actions) { c.withdrawProof(p.ID, a) })
	c.expect(t, "a late frame takes it back", "alive 1")
}

// TestResponsesThatSealNothing: everything that does not match the baseline leaves a refusal weak.
func TestResponsesThatSealNothing(t *testing.T) {
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

// TestAnAnswerVoidsRefusals: the process answers while connections are refused, so a
// device on the path refuses in its name.
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

// TestAForgedGoodbye: without authentication any host can send a goodbye in a peer's
// name. It is a weak proof, which the next message of the peer withdraws.
func TestAForgedGoodbye(t *testing.T) {
	c := newInquiringCourt()
	c.authenticated = false
	p := c.peerOf(1)
	c.run(func(a *actions) { c.onGoodbye(c.now, p.ID, a) })
	c.expect(t, "a goodbye", "dead 1: goodbye")
	if c.certainly {
		t.Error("it is certain")
	}
	c.run(func(a *actions) { c.withdrawProof(p.ID, a) })
	c.expect(t, "the peer goes on", "alive 1")
	// A true one is followed by a closed port.
	c.pass(time.Millisecond)
	c.back(p, answer())
	c.run(func(a *actions) { c.onGoodbye(c.now, p.ID, a) })
	c.crashed(p)
	c.back(p, closed())
	c.expect(t, "a true one", "dead 1: goodbye", "dead 1: sealed refusal")
}

// TestCertainty: which proofs the core may treat as certain, by setting.
func TestCertainty(t *testing.T) {
	all := []EvidenceKind{EvidenceGoodbye, EvidenceOtherNode, EvidenceOracle, EvidenceSealed, EvidenceRefused}
	for _, s := range []struct {
		level         gossip.CrashEvidence
		authenticated bool
		want          []EvidenceKind
	}{
		{gossip.EvidenceFull, true, all[:4]},
		{gossip.EvidenceFull, false, all[1:4]},
		{gossip.EvidenceWithinQuorum, true, []EvidenceKind{EvidenceGoodbye, EvidenceOracle}},
		{gossip.EvidenceWithinQuorum, false, []EvidenceKind{EvidenceOracle}},
	} {
		e := &evidence{level: s.level, authenticated: s.authenticated}
		for _, k := range all {
			if e.isCertain(k) != slices.Contains(s.want, k) {
				t.Errorf("%s, authenticated %v: %v is certain: %v", evidenceLevel(s.level), s.authenticated, k, e.isCertain(k))
			}
		}
	}
}

// TestInquiriesKeepTheLoopAtRest: a peer that may not be probed yet does not wake the
// loop.
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
	if d := c.nextTickAt(c.now); !c.now.Before(d) {
		t.Errorf("due %v ago, and nothing is done", c.now.Sub(d))
	}
}

// lastOfFive is an inquiring court whose node is the least senior of five, with baselines.
func lastOfFive() *court {
	c := newCourt(0)
	c.inquires = true
	v := &gossip.View{}
	for i := range 4 {
		p := c.peerOf(i + 1)
		c.on(p, transport.Connected)
		c.on(p, transport.Accepted)
		v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: p.ID, Name: p.Name, Addr: p.Addr}, Status: gossip.Up})
	}
	v.Members = append(v.Members, gossip.Member{Node: gossip.Node{ID: 100}, Status: gossip.Up})
	c.run(func(a *actions) { c.onView(c.now, v, a) })
	c.pass(time.Millisecond)
	for i := range 4 {
		c.back(c.peerOf(i+1), answer())
	}
	c.reported, c.inquired = nil, nil
	return c
}

// TestInquiriesKeepRank: kernels send few ICMP errors to one host, so the two most senior
// living members probe first, and each further one a little later than the one before.
func TestInquiriesKeepRank(t *testing.T) {
	c := lastOfFive()
	p := c.peerOf(1)
	c.crashed(p)
	c.expect(t, "refused", "dead 1: refused")
	if len(c.inquired) > 0 {
		t.Error("the least senior asks at the same time as all other members")
	}
	c.pass(2*inquiryRank - time.Millisecond)
	if len(c.inquired) > 0 {
		t.Error("it asks before its turn")
	}
	c.pass(2 * time.Millisecond) // three seniors live: two ask immediately, then the third
	if !slices.Equal(c.inquired, []gossip.NodeID{p.ID}) {
		t.Errorf("asked in its turn: %v", c.inquired)
	}
	// A node that is left alone asks immediately.
	c = lastOfFive()
	for i := range 4 {
		c.on(c.peerOf(i+1), lost, acceptedLost, refused)
	}
	c.pass(60 * time.Millisecond)
	for i := range 4 {
		c.on(c.peerOf(i+1), refused)
		c.on(c.peerOf(i+1), refused)
	}
	if len(c.inquired) != 4 {
		t.Errorf("%d of 4 are asked", len(c.inquired))
	}
}

// TestSealedRefusalsAreShared: one member's sealed refusal counts at the other members,
// once the process refuses them, too, and replaces their own probes. A lying member does
// no harm to a reachable node.
func TestSealedRefusalsAreShared(t *testing.T) {
	c := lastOfFive()
	p, q := c.peerOf(1), c.peerOf(2)
	report := func(from gossip.NodeID) {
		c.run(func(a *actions) { c.onSealed(c.now, from, p.ID, a) })
	}
	report(q.ID)
	c.expect(t, "report of a node that is reached")
	c.on(p, lost, acceptedLost)
	report(99)
	report(q.ID)
	c.expect(t, "it does not refuse here yet")
	c.on(p, refused)
	c.pass(25 * time.Millisecond)
	c.on(p, refused)
	c.expect(t, "refused", "dead 1: refused", "dead 1: sealed refusal")
	if !c.certainly || len(c.inquired) > 0 {
		t.Errorf("certain: %v, asked %v", c.certainly, c.inquired)
	}
	c = lastOfFive()
	c.crashed(p)
	report(99)
	c.expect(t, "a stranger's word", "dead 1: refused")
	report(q.ID)
	c.expect(t, "a member's word", "dead 1: sealed refusal")
	// The member with the host's response sends it to all members that it reaches.
	c = newInquiringCourt()
	c.pass(time.Millisecond)
	for i := range 4 {
		c.back(c.peerOf(i+1), answer())
	}
	c.crashed(p)
	c.sent = nil
	c.back(p, closed())
	var to []gossip.NodeID
	for _, o := range c.sent {
		if m, ok := o.msg.(*sealed); ok && m.Subject == p.ID {
			to = append(to, o.to)
		}
	}
	if slices.Sort(to); !slices.Equal(to, []gossip.NodeID{2, 3, 4}) {
		t.Errorf("told %v of the sealed refusal", to)
	}
}
