package membership

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/clock"
	"github.com/peerage-go/peerage/internal/core/view"
	"github.com/peerage-go/peerage/internal/transport"
)

func (c *court) challenged(i int) {
	c.run(func(a *actions) { c.sendEchoes(c.now, []gossip.NodeID{gossip.NodeID(i), 77, 100}, a) })
}

// A connected peer that other members have proven dead gets one echo at a time; its link
// counts until the answer is overdue, and again when anything arrives.
func TestAnOpenConnectionIsNoAnswer(t *testing.T) {
	c := newCourt(3)
	c.linked = nil
	c.challenged(1)
	c.challenged(1)
	if len(c.sent) != 1 || c.sent[0].to != 1 {
		t.Fatalf("sent %v", c.sent)
	}
	if _, ok := c.sent[0].msg.(*echo); !ok {
		t.Fatalf("sent %T", c.sent[0].msg)
	}
	if due := c.nextTickAt(c.now); due != c.now.Add(time.Second) {
		t.Errorf("due in %v", due.Sub(c.now))
	}
	c.pass(999 * time.Millisecond)
	if len(c.linked) != 0 {
		t.Errorf("before the time: %v", c.linked)
	}
	c.pass(time.Millisecond)
	if len(c.linked) != 1 || c.linked[0] != (view.Link{Subject: 1}) || c.asked != 0 {
		t.Errorf("overdue: %v, %d asked", c.linked, c.asked)
	}
	c.run(func(a *actions) { c.onSignOfLife(1, a) })
	if len(c.linked) != 2 || !c.linked[1].Up {
		t.Errorf("it answers after all: %v", c.linked)
	}
	c.challenged(1)
	c.run(func(a *actions) { c.onSignOfLife(1, a) })
	c.pass(time.Minute)
	if len(c.linked) != 2 || c.answerDue() != clock.Never {
		t.Errorf("answered in time: %v", c.linked)
	}
}

// Behind a firewall that begins to reject, idle connections between members stay open.
// The leader's proof is denied for no longer than a reset takes.
func TestIdleLinksBehindARejectingFirewall(t *testing.T) {
	for _, level := range []gossip.CrashEvidence{gossip.EvidenceWithinQuorum, gossip.EvidenceFull} {
		t.Run(evidenceLevel(level), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				addrs := memAddrs(5)
				for _, a := range addrs {
					c.add(a, Config{Join: addrs, CrashEvidence: level, NoDiscovery: true})
				}
				c.settled(5*time.Second, c.nodes...)
				pass(3 * time.Second)
				first, rest := leader(c.nodes)
				lone, others := rest[3], append([]*member{first}, rest[:3]...)
				for _, m := range others {
					c.net.SetPaths(m.addr, lone.addr, transport.Path{Cut: transport.Rejected})
				}
				took := c.settled(10*time.Second, others...)
				t.Logf("one behind the firewall is out after %v", took)
				// Silence alone removes it after RemoveAfter, 2 s of virtual time; a weak proof
				// when its lease has ended, 1 s.
				if most := time.Second + 3*100*time.Millisecond; took > most {
					t.Errorf("it takes %v: idle links deny the proof", took)
				}
			})
		})
	}
}
