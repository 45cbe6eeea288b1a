package membership

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// durations collects durations of several nodes.
type durations struct {
	mu  sync.Mutex
	all []time.Duration
}

func (d *durations) add(x time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, x)
}

// At the default level, the log of a node names who joined, who was removed and by which
// evidence, and who leads. An ordinary start leaves no warning.
func TestTheLogNamesWhoComesAndGoes(t *testing.T) {
	inBubble(t, func(c *cluster) {
		log := &logBook{}
		expect := func(parts ...string) {
			t.Helper()
			if !log.has(parts...) {
				t.Errorf("no line with %q:\n%s", parts, log.out.String())
			}
		}
		var removals durations
		ms := c.formWith(3, Config{Logger: log.logger(), Removed: func(cause gossip.Cause, after time.Duration) {
			if cause != gossip.CauseDead {
				t.Errorf("removed as %v", cause)
			}
			removals.add(after)
		}})
		expect("level=INFO", "this node is in the cluster", "members=3")
		expect("level=INFO", "members have changed", "joined=")
		expect("level=INFO", "the cluster has a new leader", "this_node=true")
		if log.has("level=WARN") {
			t.Errorf("a start warns:\n%s", log.out.String())
		}
		view := ms[0].View()
		leader, next := view.Members[0], view.Members[1]
		var left []*member
		for _, m := range ms {
			if m.Self().ID == leader.ID {
				c.crash(m)
			} else {
				left = append(left, m)
			}
		}
		c.settled(10*time.Second, left...)
		expect("level=INFO", "members have changed", "node="+next.Name, "removed=", leader.Name+" (dead: sealed refusal)")
		expect("level=INFO", "the cluster has a new leader", "leader="+next.Name)
		for _, m := range left {
			if s := m.Stats(); s.Removed != 1 || s.Left != 0 || s.LeaseLeft <= 0 || s.LeaseLeft > m.Config().Lease {
				t.Errorf("%s counts %d removed and %d left, with a lease of %v", m.Self().Name, s.Removed, s.Left, s.LeaseLeft)
			}
		}
		if took := removals.all; len(took) != 2 || min(took[0], took[1]) <= 0 || max(took[0], took[1]) > time.Second {
			t.Errorf("removals took %v", took)
		}
	})
}

// A node that is further away than Ping is in the log of its peer once a minute, with both
// durations, and its round trip is on the page of the membership.
func TestLongRoundTripsAreLogged(t *testing.T) {
	inBubble(t, func(c *cluster) {
		log := &logBook{}
		ms := c.formWith(2, Config{Logger: log.logger()})
		near, far := ms[0], ms[1]
		connected := func(roundTrip time.Duration) {
			near.inbox.Put(linkIn{transport.PeerEvent{Peer: far.transport.Self(), Class: transport.Control, Type: transport.Connected, RoundTrip: roundTrip}})
			synctest.Wait()
		}
		if connected(near.Config().Ping - 1); log.has("level=WARN") {
			t.Errorf("a round trip below Ping warns:\n%s", log.out.String())
		}
		for range 3 {
			connected(150 * time.Millisecond)
		}
		if !log.has("level=WARN", "subject="+far.Self().Name, "round_trip=150ms", "ping=100ms") || strings.Count(log.out.String(), "round_trip=") != 1 {
			t.Errorf("three connections over a long way:\n%s", log.out.String())
		}
		if links := near.Status().Links; len(links) != 1 || links[0].RoundTrip != 150*time.Millisecond {
			t.Errorf("links %+v", links)
		}
	})
}

// Pauses of a node that stays a member are in its log: the first line says for how long it had no
// lease, and a minute later one counts the others.
func TestPausesAreLoggedOnceAMinute(t *testing.T) {
	inBubble(t, func(c *cluster) {
		log := &logBook{}
		ms := c.formWith(3, Config{Logger: log.logger()})
		pass(3 * time.Second)
		const line = "the lease had expired"
		if log.has(line) {
			t.Errorf("a start logs a pause:\n%s", log.out.String())
		}
		_, rest := leader(ms)
		pause := func() {
			c.net.Pause(rest[0].addr)
			pass(1500 * time.Millisecond)
			if l, s := rest[0].LeaseStatus(), rest[0].Stats(); l.Valid || l.Left >= 0 || s.LeaseLeft != 0 {
				t.Errorf("without a lease, %v is left, and %v in the statistics: %v", l.Left, s.LeaseLeft, l)
			}
			c.net.Resume(rest[0].addr)
			pass(2 * time.Second)
		}
		for range 3 {
			pause()
		}
		if n := log.count(line); n != 1 || !log.has("level=INFO", line, "node="+rest[0].Self().Name, "without_lease=") {
			t.Errorf("%d lines:\n%s", n, log.out.String())
		}
		pass(time.Minute)
		pause()
		if n := log.count(line); n != 2 || !log.has(line, "lines_folded=2") {
			t.Errorf("%d lines:\n%s", n, log.out.String())
		}
	})
}

func TestALineNamesAFewMembers(t *testing.T) {
	var many []gossip.Member
	for i := range 20 {
		many = append(many, gossip.Member{Node: gossip.Node{Name: fmt.Sprint(i)}})
	}
	if got := namesAttr("joined", many).String(); got != "joined=[0 1 2 3 4 5 6 7 and 12 more]" {
		t.Error(got)
	}
}

func TestATakeoverIsLogged(t *testing.T) {
	before := &gossip.View{Cluster: 1, Epoch: 5, Members: make([]gossip.Member, 5)}
	after := &gossip.View{Cluster: 1, Epoch: 9, Forks: []gossip.Fork{{From: 5, To: 9, Kept: 2}}}
	for _, c := range []struct {
		before *gossip.View
		want   string
	}{{before, "2 of 5 members, without a majority"}, {after, ""}, {nil, ""}, {&gossip.View{Cluster: 2, Epoch: 5}, ""}} {
		if got := takeoverLogged(c.before, after); got != c.want {
			t.Errorf("%v: %q, want %q", c.before, got, c.want)
		}
	}
}
