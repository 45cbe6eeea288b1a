package membership

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
)

func (l *logBook) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for _, line := range strings.Split(l.out.String(), "\n") {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		return true
	}
	return false
}

func (l *logBook) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// restarted plays the README's recipe: a forms a cluster, b joins it, a's process dies
// and is started again with the same command, so that it forms another cluster.
func restarted(c *cluster, policy gossip.ForeignPolicy) (a, b *member, log *logBook) {
	log = &logBook{}
	addrs := memAddrs(2)
	first := c.add(addrs[0], Config{Bootstrap: true, ForeignClusters: policy})
	b = c.add(addrs[1], Config{Join: addrs[:1], ForeignClusters: policy, Logger: log.logger()})
	c.settled(10*time.Second, first, b)
	c.crash(first)
	pass(5 * time.Second)
	a = c.add(addrs[0], Config{Bootstrap: true, ForeignClusters: policy, Logger: log.logger()})
	return a, b, log
}

// TestTwoClustersOfOneNameBecomeOne: the restarted node has formed a cluster of its own.
// Both report it, the younger cluster yields, and its node joins the other.
func TestTwoClustersOfOneNameBecomeOne(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a, b, log := restarted(c, gossip.ForeignMerge)
		verdicts := func(m *member, want gossip.Verdict) gossip.ForeignCluster {
			t.Helper()
			for {
				select {
				case ev := <-m.events:
					if f, is := ev.(gossip.ForeignCluster); is && f.Verdict == want {
						return f
					}
				case <-time.After(20 * time.Second):
					t.Fatalf("%s is not told of the verdict %v", m.addr, want)
				}
			}
		}
		was := b.View().Epoch
		yields := verdicts(a, gossip.VerdictYields)
		if yields.Cluster != b.View().Cluster || len(yields.Nodes) != 1 || yields.Nodes[0].Addr != b.addr {
			t.Errorf("a is told %+v", yields)
		}
		verdicts(b, gossip.VerdictContested)
		if b.Stats().Contests != 1 || a.Stats().ForeignClusters != 1 || len(a.Status().Foreign) != 1 {
			t.Errorf("%d contests, %d foreign clusters, %q", b.Stats().Contests, a.Stats().ForeignClusters, a.Status().Foreign)
		}
		least := a.View().Epoch.Generation() + 1
		a.Dissolve()
		pass(time.Second)
		if why := a.Status().Over; !strings.Contains(why, "yielded") {
			t.Fatalf("a goes on: %q", why)
		}
		_ = a.Close()
		next := c.add(a.addr, Config{Join: []string{b.addr}, LeastGeneration: least, NoDiscovery: true})
		c.settled(20*time.Second, b, next)
		v := b.View()
		if len(v.Members) != 2 || len(v.Foreign) != 0 || v.Epoch.Generation() < least || v.Epoch.Generation() <= was.Generation() {
			t.Errorf("b goes on with %v: %d members, contests %v; a's cluster got to generation %d", v.Epoch, len(v.Members), v.Foreign, least-1)
		}
		pass(time.Minute)
		if n := b.Stats().ForeignClusters; n != 0 {
			t.Errorf("%d foreign clusters remain", n)
		}
		for _, want := range [][]string{
			{"level=ERROR", "another cluster of the same name", "not ready until"},
			{"level=ERROR", "this cluster yields to another one of the same name"},
			{"level=WARN", "another cluster of the same name has yielded"},
		} {
			if !log.has(want...) {
				t.Errorf("no line of the log has %q", want)
			}
		}
	})
}

// TestTwoClustersOfOneNameStayTwoWithForeignWarn: with ForeignWarn only a warning and the gauge
// report that there are two.
func TestTwoClustersOfOneNameStayTwoWithForeignWarn(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a, b, log := restarted(c, gossip.ForeignWarn)
		pass(time.Minute)
		if !a.LeaseValid() || !b.LeaseValid() || a.View().Cluster == b.View().Cluster || b.Stats().Contests != 0 {
			t.Errorf("views %v and %v, leases %v and %v", a.View(), b.View(), a.LeaseValid(), b.LeaseValid())
		}
		if b.Stats().ForeignClusters != 1 || !log.has("level=WARN", "another cluster of the same name") {
			t.Errorf("%d foreign clusters", b.Stats().ForeignClusters)
		}
	})
}

// TestUndissolvedIncarnationEnds: Dissolve is never called.
func TestUndissolvedIncarnationEnds(t *testing.T) {
	inBubble(t, func(c *cluster) {
		a, b, _ := restarted(c, gossip.ForeignMerge)
		pass(2 * time.Minute)
		if why := a.Status().Over; !strings.Contains(why, "yielded") || b.Status().Over != "" {
			t.Errorf("a: %q, b: %q", why, b.Status().Over)
		}
	})
}

// tend ends incarnations whose cluster has yielded and starts the next ones, as the root
// package does, for a while.
func (c *cluster) tend(ms []*member, d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); pass(50 * time.Millisecond) {
		for i, m := range ms {
			f := m.View().Yields()
			if f == nil {
				continue
			}
			least := m.View().Epoch.Generation() + 1
			m.Dissolve()
			<-m.over
			_ = m.Close()
			var at []string
			for i := range f.Nodes {
				at = append(at, f.Nodes[i].Addr)
			}
			ms[i] = c.add(m.addr, Config{Join: at, LeastGeneration: least})
		}
	}
}

// TestThreeAndTwoBecomeFive: two clusters of several nodes find each other through the
// address of a lost member.
func TestThreeAndTwoBecomeFive(t *testing.T) {
	inBubble(t, func(c *cluster) {
		ones := slices.Clone(c.form(3))
		at := []string{"10.0.1.1:7101", "10.0.1.2:7101"}
		twos := []*member{c.add(at[0], Config{Bootstrap: true, MinGeneration: ones[0].View().Epoch.Generation() + 100})}
		c.settled(5*time.Second, twos...)
		twos = append(twos, c.add(at[1], Config{Join: at}))
		c.settled(5*time.Second, twos...)
		cluster, high := ones[0].View().Cluster, twos[0].View().Epoch.Generation()
		pass(3 * time.Second)
		_, rest := leader(ones)
		c.crash(rest[0])
		left := slices.DeleteFunc(ones, func(m *member) bool { return m == rest[0] })
		c.settled(10*time.Second, left...)
		all := append(left, twos...)
		all = append(all, c.add(rest[0].addr, Config{Join: at}))
		c.tend(all, time.Minute)
		c.settled(20*time.Second, all...)
		v := all[0].View()
		if len(v.Members) != 5 || v.Epoch.Generation() <= high && v.Cluster == cluster {
			t.Errorf("view %v with %d members; the other cluster had generation %d", v.Epoch, len(v.Members), high)
		}
	})
}

// TestAListThatRestartsBesideALiveNode: all nodes of the list die together, and one that
// is not on the list continues alone. After their restart they answer each other, find no
// other cluster, and form one. The remaining node still dials their addresses, so the
// contest begins with its next dial: within the back-off of redials.
func TestAListThatRestartsBesideALiveNode(t *testing.T) {
	for _, gap := range []time.Duration{2 * time.Millisecond, 50 * time.Millisecond, time.Second, 20 * time.Second} {
		inBubble(t, func(c *cluster) {
			list := c.form(3)
			apart := c.add("10.0.0.9:7101", Config{Join: memAddrs(3)})
			c.settled(10*time.Second, append(list, apart)...)
			pass(10 * time.Second)
			c.crash(list...)
			pass(gap)
			for _, a := range memAddrs(3) {
				list = append(list, c.add(a, Config{Join: memAddrs(3)}))
			}
			begin := time.Now()
			contested := func(m *member) bool { return m.View() != nil && len(m.View().Foreign) > 0 }
			c.until(2*time.Second, "both are in contest", func() bool { return contested(apart) && contested(list[3]) })
			t.Logf("started %v after the crash: in contest after %v", gap, time.Since(begin))
		})
	}
}
