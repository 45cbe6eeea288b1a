package membership

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// takeEvents removes and returns the events that the subscriber has received so far.
func (m *member) takeEvents() []Event {
	var out []Event
	for len(m.events) > 0 {
		out = append(out, <-m.events)
	}
	return out
}

// awaitEvent waits for an event of a kind and returns it. Earlier events are dropped.
func awaitEvent[E Event](c *cluster, m *member, most time.Duration) (got E) {
	c.t.Helper()
	c.until(most, fmt.Sprintf("%s tells %T", m.addr, got), func() bool {
		for len(m.events) > 0 {
			if e, is := (<-m.events).(E); is {
				got = e
				return true
			}
		}
		return false
	})
	return got
}

// TestEventsOfMembers: every way to join and to leave, with its reason and evidence,
// reported alike by all remaining nodes.
func TestEventsOfMembers(t *testing.T) {
	addrs := memAddrs(5)
	powerOff := func(c *cluster, _ []*member, m *member) { m.dead = true; c.net.PowerOff(m.addr) }
	gone := func(_ context.Context, n gossip.Node) (bool, error) { return n.Name == addrs[0], nil }
	for _, is := range []struct {
		name     string
		cfg      Config
		cause    gossip.Cause
		evidence string
		goes     func(c *cluster, ms []*member, goes *member)
	}{
		{"leaves", Config{}, gossip.CauseLeft, "", func(c *cluster, _ []*member, m *member) { c.out(m) }},
		{"crashes", Config{}, gossip.CauseDead, "sealed refusal", func(c *cluster, _ []*member, m *member) { c.crash(m) }},
		{"is closed", Config{}, gossip.CauseDead, "goodbye", func(_ *cluster, _ []*member, m *member) { _ = m.Close() }},
		{"is replaced", Config{CrashEvidence: gossip.EvidenceWithinQuorum}, gossip.CauseDead, "other node", func(c *cluster, _ []*member, m *member) {
			c.crash(m)
			c.add(m.addr, Config{Join: addrs[:1], CrashEvidence: gossip.EvidenceWithinQuorum})
		}},
		{"lost power as leader, and an oracle speaks", Config{Oracle: gone}, gossip.CauseDead, "oracle", powerOff},
		{"is silent", Config{}, gossip.CauseSilent, "", powerOff},
		{"yields", Config{}, gossip.CauseYielded, "", func(c *cluster, ms []*member, m *member) {
			c.net.SetPaths(m.addr, ms[1].addr, transport.Path{Cut: transport.Dropped})
			pass(10 * time.Second)
			ms[1].Yield(m.Self().ID)
		}},
	} {
		t.Run(is.name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				var ms []*member
				for i := range addrs {
					cfg := is.cfg
					cfg.Join, cfg.Bootstrap = addrs, i == 0
					ms = append(ms, c.add(addrs[i], cfg))
					c.settled(10*time.Second, ms...)
				}
				for _, a := range addrs {
					if e := awaitEvent[gossip.MemberJoined](c, ms[0], time.Second); e.Member.Name != a || e.Member.Status != gossip.Up {
						t.Errorf("the first is told of %+v, not of %s", e, a)
					}
				}
				goes, stay := ms[4], ms[:4]
				if is.cfg.Oracle != nil {
					goes, stay = ms[0], ms[1:]
				}
				is.goes(c, ms, goes)
				for _, m := range stay {
					if is.cause == gossip.CauseLeft {
						if e := awaitEvent[gossip.MemberLeft](c, m, 10*time.Second); e.Member.ID != goes.Self().ID || e.Epoch != m.View().Epoch {
							t.Errorf("%s tells %+v", m.addr, e)
						}
						continue
					}
					e := awaitEvent[gossip.MemberRemoved](c, m, 10*time.Second)
					if e.Member.ID != goes.Self().ID || e.Cause != is.cause || e.Evidence != is.evidence || e.Epoch == 0 {
						t.Errorf("%s tells %+v", m.addr, e)
					}
				}
			})
		})
	}
}

func TestEventsOfTheLeader(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.grown(3, nil)
		for _, m := range ms {
			if e := awaitEvent[gossip.LeaderChanged](c, m, time.Second); e.Leader != ms[0].Self().ID {
				t.Errorf("%s follows %v", m.addr, e.Leader)
			}
			m.takeEvents()
		}
		late := make(chan Event, 100)
		ms[2].Subscribe(func(ev Event) { late <- ev })
		pass(time.Millisecond)
		var kinds []string
		for len(late) > 0 {
			kinds = append(kinds, fmt.Sprintf("%T", <-late))
		}
		want := []string{"ViewChanged", "MemberJoined", "MemberJoined", "MemberJoined", "LeaderChanged", "LeaseChanged"}
		if got := strings.ReplaceAll(strings.Join(kinds, " "), "gossip.", ""); got != strings.Join(want, " ") {
			t.Errorf("a late subscriber is told %s", got)
		}
		c.crash(ms[0])
		for _, m := range ms[1:] {
			for e := (gossip.LeaderChanged{}); e.Leader != ms[1].Self().ID; {
				e = awaitEvent[gossip.LeaderChanged](c, m, 5*time.Second)
			}
		}
	})
}

// TestEventsOfTheQuorum: cut into two parts of which none may continue, all nodes pause,
// report that the quorum is lost and which members they reach, and report it regained
// after the heal.
func TestEventsOfTheQuorum(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.grown(5, gossip.StaticQuorum{N: 4})
		pass(2 * time.Second)
		for _, m := range ms {
			m.takeEvents()
		}
		c.net.Split(transport.Dropped, memAddrs(5)[:2], memAddrs(5)[2:])
		for _, m := range ms {
			if e := awaitEvent[gossip.LeaseChanged](c, m, 2*time.Second); e.Valid {
				t.Errorf("%s does not pause", m.addr)
			}
			e := awaitEvent[gossip.QuorumLost](c, m, 5*time.Second)
			if e.For <= 0 || e.For > 2*time.Second || !slices.Contains(e.Reachable, m.Self().ID) {
				t.Errorf("%s tells %+v", m.addr, e)
			}
		}
		pass(20 * time.Second)
		c.net.Heal()
		for _, m := range ms {
			if n := m.Stats().QuorumLost; n != 1 {
				t.Errorf("%s counts %d", m.addr, n)
			}
			regained, resumed := false, false
			c.until(10*time.Second, "it goes on", func() bool {
				for _, ev := range m.takeEvents() {
					switch ev := ev.(type) {
					case gossip.QuorumRegained:
						regained = true
					case gossip.LeaseChanged:
						resumed = ev.Valid
					case gossip.QuorumLost:
						t.Errorf("%s reports again that the quorum is lost", m.addr)
					}
				}
				return regained && resumed
			})
		}
		c.settled(5*time.Second, ms...)
	})
}

// TestAQuorumIsNotLostInAPause: a lease that lapses and returns is no lost quorum.
func TestAQuorumIsNotLostInAPause(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(2 * time.Second)
		_, rest := leader(ms)
		c.net.Pause(rest[0].addr)
		pass(1500 * time.Millisecond)
		c.net.Resume(rest[0].addr)
		pass(3 * time.Second)
		for _, ev := range rest[0].takeEvents() {
			if e, lost := ev.(gossip.QuorumLost); lost {
				t.Errorf("%+v", e)
			}
		}
	})
}

// TestEventsOfASlowSubscriber: coalesced views are reported as one step, with the causes
// of all departures.
func TestEventsOfASlowSubscriber(t *testing.T) {
	up := func(id gossip.NodeID) gossip.Member {
		return gossip.Member{Node: gossip.Node{ID: id}, Status: gossip.Up}
	}
	var d departures
	d.addDeparture(gossip.Departure{ID: 2, Cause: gossip.CauseDead, Evidence: "refused"})
	d.addDeparture(gossip.Departure{ID: 3, Cause: gossip.CauseLeft})
	joining := up(6)
	joining.Status = gossip.Joining
	got := memberDiff(&gossip.View{Epoch: 1, Members: []gossip.Member{up(1), up(2), up(3), up(4), joining}},
		&gossip.View{Epoch: 9, Members: []gossip.Member{up(1), up(5)}}, d.departureOf)
	want := []Event{
		gossip.MemberRemoved{Member: up(2), Epoch: 9, Cause: gossip.CauseDead, Evidence: "refused"}, gossip.MemberLeft{Member: up(3), Epoch: 9},
		gossip.MemberRemoved{Member: up(4), Epoch: 9}, gossip.MemberJoined{Member: up(5), Epoch: 9},
	}
	if len(got) != len(want) {
		t.Fatalf("told %+v", got)
	}
	for i := range want {
		if g, w := describeEvent(got[i]), describeEvent(want[i]); g != w {
			t.Errorf("event %d is %s, not %s", i, g, w)
		}
	}
	for id := gossip.NodeID(10); id < 10+2*departuresMax; id++ {
		d.addDeparture(gossip.Departure{ID: id, Cause: gossip.CauseLeft})
	}
	if len(d.why) != departuresMax || len(d.order) != departuresMax || d.departureOf(2).Cause != 0 {
		t.Errorf("%d departures are remembered", len(d.why))
	}
}

func describeEvent(ev Event) string {
	switch e := ev.(type) {
	case gossip.MemberJoined:
		return "joined " + e.Member.ID.String() + e.Epoch.String()
	case gossip.MemberLeft:
		return "left " + e.Member.ID.String() + e.Epoch.String()
	case gossip.MemberRemoved:
		return "removed " + e.Member.ID.String() + e.Epoch.String() + e.Cause.String() + e.Evidence
	}
	return "another"
}

// TestViewsCarryMetadata: metadata reaches every node with the view.
func TestViewsCarryMetadata(t *testing.T) {
	inBubble(t, func(c *cluster) {
		cfg := testConfig()
		cfg.Bootstrap, cfg.Metadata = true, map[string]string{"zone": "a", "machine": "blue 7"}
		a := c.add(memAddrs(2)[0], cfg)
		cfg = testConfig()
		cfg.Join = memAddrs(1)
		b := c.add(memAddrs(2)[1], cfg)
		c.settled(5*time.Second, a, b)
		if m := b.View().Members[0]; m.Metadata["zone"] != "a" || m.Metadata["machine"] != "blue 7" || len(m.Metadata) != 2 {
			t.Errorf("metadata is %v", m.Metadata)
		}
	})
}
