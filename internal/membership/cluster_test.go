package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// cluster is a set of real nodes on a network in memory, in a bubble of testing/synctest:
// time is virtual, and advances when all goroutines wait.
type cluster struct {
	t      *testing.T
	net    *transport.Network
	nodes  []*member
	lastID uint64
	start  time.Time
}

// member is one node of a cluster under test, with the events that its subscriber
// received.
type member struct {
	*Node
	addr   string
	events chan Event
	dead   bool
}

// inBubble runs a test in a bubble and closes its nodes at the end.
func inBubble(t *testing.T, test func(*cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: transport.NewNetwork(transport.NetworkConfig{Seed: 1}), start: time.Now()}
		c.net.SetUsual(transport.Path{Latency: 200 * time.Microsecond})
		// A memberlist that is shut down does not wait for its probes, and the bubble's
		// time stops with this function.
		defer pass(time.Minute)
		defer c.close()
		test(c)
	})
}

func (c *cluster) close() {
	for _, m := range c.nodes {
		_ = m.Close()
	}
}

// pass advances virtual time.
func pass(d time.Duration) {
	if d > 0 { // Go 1.26.8 with -race crashes at a timer in a bubble that is due immediately
		<-time.After(d)
	}
}

func memAddrs(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("10.0.0.%d:7101", i+1))
	}
	return out
}

// add starts a node at addr.
func (c *cluster) add(addr string, cfg Config) *member {
	c.t.Helper()
	c.lastID++
	if cfg.Clock == nil {
		test := testConfig()
		test.Join, test.Bootstrap, test.BootstrapExpect = cfg.Join, cfg.Bootstrap, cfg.BootstrapExpect
		test.Partition, test.MinGeneration, test.Logger, test.Removed = cfg.Partition, cfg.MinGeneration, cfg.Logger, cfg.Removed
		test.ForeignClusters, test.LeastGeneration = cfg.ForeignClusters, cfg.LeastGeneration
		test.Handlers, test.Oracle, test.CrashEvidence, test.NoDiscovery = cfg.Handlers, cfg.Oracle, cfg.CrashEvidence, cfg.NoDiscovery
		cfg = test
	}
	if len(cfg.Join) == 1 && !cfg.Bootstrap && cfg.BootstrapExpect == 0 {
		cfg.BootstrapExpect = 1 // the node there may form by itself
	}
	cfg.Name = addr
	cfg.Seed = c.lastID
	if os.Getenv("PEERAGE_TEST_LOG") != "" {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	t, err := c.net.Transport(transport.MemoryConfig{Config: cfg.TransportConfig(gossip.NodeID(c.lastID << 32)), Listen: addr})
	if err != nil {
		c.t.Fatal(err)
	}
	cfg.Transport = t
	n, err := Start(context.Background(), cfg)
	if err != nil {
		c.t.Fatal(err)
	}
	m := &member{Node: n, addr: addr, events: make(chan Event, 100_000)}
	n.Subscribe(func(ev Event) { m.events <- ev })
	c.nodes = append(c.nodes, m)
	return m
}

// form starts n nodes at the same time and waits until all are up.
func (c *cluster) form(n int) []*member { return c.formWith(n, Config{}) }

// formWith does so with further settings.
func (c *cluster) formWith(n int, cfg Config) []*member {
	c.t.Helper()
	addrs := memAddrs(n)
	for _, a := range addrs {
		cfg.Join = addrs
		c.add(a, cfg)
	}
	c.settled(10*time.Second, c.nodes...)
	return c.nodes
}

// crash ends a node's process.
func (c *cluster) crash(ms ...*member) {
	for _, m := range ms {
		m.dead = true
		c.net.Crash(m.addr)
	}
}

// until waits for a condition in steps of 1 ms of virtual time.
func (c *cluster) until(most time.Duration, what string, ok func() bool) time.Duration {
	c.t.Helper()
	begin := time.Now()
	for {
		synctest.Wait()
		if ok() {
			return time.Since(begin)
		}
		if time.Since(begin) > most {
			c.t.Fatalf("after %v not %s\n%s", most, what, c.describe())
		}
		pass(time.Millisecond)
	}
}

// settled waits until exactly ms are in one view, all up and with a lease.
func (c *cluster) settled(most time.Duration, ms ...*member) time.Duration {
	c.t.Helper()
	return c.until(most, fmt.Sprintf("one view of %d", len(ms)), func() bool { return agree(ms) })
}

func agree(ms []*member) bool {
	v := ms[0].View()
	if v == nil || len(v.Members) != len(ms) {
		return false
	}
	for _, m := range ms {
		w := m.View()
		if w == nil || w.Cluster != v.Cluster || w.Epoch != v.Epoch || !m.LeaseValid() {
			return false
		}
		if e := v.Member(m.Self().ID); e == nil || e.Status != gossip.Up {
			return false
		}
	}
	return true
}

func (c *cluster) describe() string {
	out := ""
	for _, m := range c.nodes {
		s := "no view"
		if v := m.View(); v != nil {
			s = fmt.Sprintf("cluster %x view %v of %d", v.Cluster, v.Epoch, len(v.Members))
			for _, e := range v.Members {
				s += fmt.Sprintf(" %s:%v", e.Name, e.Status)
			}
		}
		out += fmt.Sprintf("%s dead=%v lease=%v %s\n", m.addr, m.dead, m.LeaseValid(), s)
		if !m.dead {
			r := m.recent.listRecent()
			for _, x := range r[max(0, len(r)-12):] {
				out += fmt.Sprintf("    %v %s %v %v %s\n", x.Time.Sub(c.start), x.Kind, x.Subject, x.Epoch, x.Detail)
			}
		}
	}
	return out
}

// leader returns the most senior member of ms, and the rest.
func leader(ms []*member) (first *member, rest []*member) {
	v := ms[0].View()
	for _, m := range ms {
		if m.Self().ID == v.Members[0].ID {
			first = m
		} else {
			rest = append(rest, m)
		}
	}
	return first, rest
}

func TestFormingTogether(t *testing.T) {
	for _, n := range []int{1, 3, 5, 20} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.form(n)
				took := time.Since(c.start)
				t.Logf("%d nodes stand in one view after %v", n, took)
				most := time.Second
				if n == 1 {
					most = 3 * time.Second // it gives a living cluster the time to find it
				}
				if took > most {
					t.Errorf("too slow")
				}
			})
		})
	}
}

func TestLateNodesJoin(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		for i := range 3 {
			m := c.add(fmt.Sprintf("10.0.1.%d:7101", i), Config{Join: memAddrs(3)})
			ms = append(ms, m)
			t.Logf("joined after %v", c.settled(5*time.Second, ms...))
		}
	})
}

// oneOfFive runs a test with a member, and again with the leader, as the victim in a
// running cluster of five.
func oneOfFive(t *testing.T, test func(c *cluster, victim *member, left []*member)) {
	for _, who := range []string{"member", "leader"} {
		t.Run(who, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := c.form(5)
				pass(5 * time.Second)
				first, rest := leader(ms)
				victim := rest[0]
				if who == "leader" {
					victim = first
				}
				test(c, victim, slices.DeleteFunc(slices.Clone(ms), func(m *member) bool { return m == victim }))
			})
		})
	}
}

func TestACrashedMemberIsRemoved(t *testing.T) {
	oneOfFive(t, func(c *cluster, victim *member, left []*member) {
		c.crash(victim)
		took := c.settled(5*time.Second, left...)
		c.t.Logf("view without the dead after %v", took)
		if took > 200*time.Millisecond {
			c.t.Error("too slow")
		}
	})
}

func TestOneOfManySurvives(t *testing.T) {
	for n := 2; n <= 9; n++ { // A45
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := c.form(n)
				pass(3 * time.Second)
				_, rest := leader(ms)
				survivor := rest[len(rest)-1]
				before := survivor.View().Epoch
				for _, m := range ms {
					if m != survivor {
						c.crash(m)
					}
				}
				took := c.settled(5*time.Second, survivor)
				t.Logf("the survivor stands alone after %v", took)
				if took > 500*time.Millisecond {
					t.Error("too slow")
				}
				if after := survivor.View().Epoch; after.Generation() <= before.Generation() {
					t.Errorf("epoch %v after %v: no new generation", after, before)
				}
			})
		})
	}
}

func TestOneAfterAnotherDownToTheLast(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(5)
		for len(ms) > 1 {
			pass(time.Second)
			first, rest := leader(ms)
			c.crash(first)
			ms = rest
			took := c.settled(5*time.Second, ms...)
			t.Logf("%d left after %v", len(ms), took)
			if took > 500*time.Millisecond {
				t.Error("too slow")
			}
		}
	})
}

func TestLeave(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(5)
		pass(time.Second)
		first, rest := leader(ms)
		leave := func(m *member) {
			begin := time.Now()
			if err := m.Leave(context.Background()); err != nil {
				t.Error(err)
			}
			if m.LeaseValid() {
				t.Error("it left and holds a lease")
			}
			left := time.Now()
			_ = m.Close()
			t.Logf("%s is out after %v, and closed %v later", m.addr, left.Sub(begin), time.Since(left))
		}
		begin := time.Now()
		leave(rest[0])
		t.Logf("a member left in %v; the others agree after %v more", time.Since(begin), c.settled(5*time.Second, first, rest[1], rest[2], rest[3]))
		begin = time.Now()
		leave(first)
		t.Logf("the leader left in %v; the others agree after %v more", time.Since(begin), c.settled(5*time.Second, rest[1:]...))
		done := make(chan struct{})
		for _, m := range rest[1:3] {
			go func() { leave(m); done <- struct{}{} }()
		}
		<-done
		<-done
		t.Logf("two left at once; the last agrees after %v more", c.settled(5*time.Second, rest[3]))
		leave(rest[3])
	})
}

func TestAPlannedCloseIsNoCrash(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(time.Second)
		_, rest := leader(ms)
		_ = rest[0].Close()
		left := slices.DeleteFunc(slices.Clone(ms), func(m *member) bool { return m == rest[0] })
		t.Logf("after %v", c.settled(time.Second, left...))
		for _, m := range left {
			s := m.Stats()
			if s.Evidence[EvidenceGoodbye] != 1 || s.Evidence[EvidenceRefused] != 0 {
				t.Errorf("%s counted %v", m.addr, s.Evidence)
			}
		}
	})
}

func TestRestartAtTheSameAddress(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(3)
		pass(time.Second)
		for range 3 {
			first, rest := leader(ms)
			c.crash(first)
			again := c.add(first.addr, Config{Join: memAddrs(3)})
			ms = append(rest, again)
			t.Logf("in again after %v", c.settled(5*time.Second, ms...))
			pass(time.Second)
		}
	})
}

func TestAPartitionHeals(t *testing.T) {
	for _, cut := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 60 * time.Second} {
		t.Run(cut.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := c.form(5)
				pass(2 * time.Second)
				a, b := memAddrs(5)[:3], memAddrs(5)[3:]
				c.net.Split(transport.Dropped, a, b)
				minority := []*member{ms[3], ms[4]}
				var majority []*member = ms[:3]
				pass(cut)
				if cut > 4*time.Second {
					c.settled(time.Second, majority...)
					for _, m := range minority {
						if m.LeaseValid() {
							t.Errorf("%s holds a lease in the minority", m.addr)
						}
					}
				}
				c.net.Heal()
				begin := time.Now()
				all := slices.Clone(majority)
				for _, m := range minority {
					all = append(all, c.restarted(m, 5*time.Second))
				}
				c.settled(5*time.Second, all...)
				t.Logf("cut for %v: one cluster %v after the healing", cut, time.Since(begin))
			})
		})
	}
}

// restarted returns m if it stays in its cluster, and its next incarnation if it is
// removed, as the root package does.
func (c *cluster) restarted(m *member, most time.Duration) *member {
	c.t.Helper()
	back := false
	c.until(most, m.addr+" back or over", func() bool {
		select {
		case <-m.over:
			return true
		default:
			back = m.LeaseValid()
			return back
		}
	})
	if back {
		return m
	}
	_ = m.Close()
	return c.add(m.addr, Config{Join: memAddrs(5)})
}

func TestAPauseCostsNothing(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(5)
		pass(2 * time.Second)
		epoch := ms[0].View().Epoch
		for _, m := range ms {
			c.net.Pause(m.addr)
			pass(700 * time.Millisecond)
			c.net.Resume(m.addr)
			pass(2 * time.Second)
		}
		c.settled(5*time.Second, ms...)
		if now := ms[0].View(); now.Epoch != epoch && len(now.Members) != 5 {
			t.Errorf("view %v became %v", epoch, now.Epoch)
		}
	})
}

func TestAfterCloseEverythingIsClosed(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ms := c.form(2)
		_ = ms[1].Close()
		for range 10 {
			if err := ms[1].Leave(context.Background()); !errors.Is(err, ErrClosed) {
				t.Errorf("Leave: %v", err)
			}
			if err := ms[1].WaitUp(context.Background()); !errors.Is(err, ErrClosed) {
				t.Errorf("WaitUp: %v", err)
			}
		}
	})
}
