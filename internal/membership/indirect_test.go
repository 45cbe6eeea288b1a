package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// Nodes that reach each other only through a third (A38). As documented in this package:
// two members that both reach the leader stay, with their leases, and report each other;
// the leader collects that and acts when a coordinator needs the link (Yield). A member
// that does not reach the leader is silent, and is removed.

func TestTwoMembersThatReachOnlyTheOthers(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := slices.Clone(c.form(n))
				pass(3 * time.Second)
				first, rest := leader(ms)
				a, b := rest[n-3], rest[n-2]
				rank := func(m *member) int {
					return slices.IndexFunc(first.View().Members, func(e gossip.Member) bool { return e.ID == m.Self().ID })
				}
				senior, junior := a, b
				if rank(a) > rank(b) {
					senior, junior = b, a
				}
				c.net.SetPaths(a.addr, b.addr, transport.Path{Cut: transport.Dropped})
				epoch := first.View().Epoch
				pass(30 * time.Second)
				c.settled(time.Millisecond, ms...)
				if now := first.View().Epoch; now != epoch {
					t.Errorf("view %v became %v: no coordinator needed the link", epoch, now)
				}
				for _, m := range []*member{a, b} {
					down := 0
					for _, l := range m.Status().Links {
						if l.DownFor > 0 {
							down++
						}
					}
					if down != 1 {
						t.Errorf("%s shows %d broken links", m.addr, down)
					}
				}
				junior.Yield(senior.Self().ID) // either may ask; the junior goes
				left := slices.DeleteFunc(slices.Clone(ms), func(m *member) bool { return m == junior })
				lost := c.until(2*time.Second, "the lease of the one that yields ends", func() bool { return !junior.LeaseValid() })
				gone := c.settled(5*time.Second, left...)
				t.Logf("its lease ended after %v, it is out %v later", lost, gone)
				if lost > 1100*time.Millisecond || gone < 500*time.Millisecond {
					t.Error("a lease is to end within L, and well before the member is out")
				}
				c.net.Heal()
				again := c.restarted(junior, 10*time.Second)
				c.settled(10*time.Second, append(left, again)...)
			})
		})
	}
}

func TestAMemberThatReachesAllButTheLeader(t *testing.T) {
	for _, n := range []int{3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := slices.Clone(c.form(n))
				pass(3 * time.Second)
				first, rest := leader(ms)
				lone := rest[0]
				left := append([]*member{first}, rest[1:]...)
				c.net.SetPaths(first.addr, lone.addr, transport.Path{Cut: transport.Dropped})
				t.Logf("out after %v", c.settled(10*time.Second, left...))
				pass(10 * time.Second)
				if lone.LeaseValid() {
					t.Error("it holds a lease outside the view")
				}
				c.settled(time.Millisecond, left...)
				c.net.Heal()
				again := c.restarted(lone, 20*time.Second)
				c.settled(10*time.Second, append(left, again)...)
			})
		})
	}
}

// Two clusters meet by address reuse: a node of the one starts where a node of the
// other was. They stay two, whether their names differ or only their ids. With one name
// the fresh node, which stands in neither, may come to stand in either.
func TestTwoClustersMeetByAddressReuse(t *testing.T) {
	for name, other := range map[string]string{"another name": "other", "the same name": "peerage"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ones := slices.Clone(c.formWith(3, Config{ForeignClusters: gossip.ForeignWarn}))
				twoAt := []string{"10.0.1.1:7101", "10.0.1.2:7101"}
				two := func(addr string, bootstrap bool) *member {
					cfg := testConfig()
					cfg.Cluster, cfg.Join, cfg.Bootstrap = other, twoAt, bootstrap
					cfg.ForeignClusters = gossip.ForeignWarn
					return c.add(addr, cfg)
				}
				twos := []*member{two(twoAt[0], true)}
				c.settled(5*time.Second, twos...)
				twos = append(twos, two(twoAt[1], false))
				c.settled(5*time.Second, twos...)
				pass(3 * time.Second)
				_, rest := leader(ones)
				c.crash(rest[0])
				fresh := two(rest[0].addr, false)
				left := slices.DeleteFunc(ones, func(m *member) bool { return m == rest[0] })
				stand := func() bool {
					inOne, inTwo := agree(append(left[:2:2], fresh)), agree(append(twos[:2:2], fresh))
					return inTwo && agree(left) || inOne && agree(twos) && other == "peerage"
				}
				c.until(10*time.Second, "the fresh one stands in one of the two", stand)
				pass(2 * time.Minute)
				c.until(time.Second, "and in no more", stand)
				if left[0].View().Cluster == twos[0].View().Cluster {
					t.Error("they have become one")
				}
			})
		})
	}
}

// Thirty nodes started at the same instant, several times: one cluster each time.
func TestThirtyNodesStartAtTheSameInstant(t *testing.T) {
	for seed := range 3 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				c.lastID = uint64(seed) * 1000
				c.net.SetUsual(transport.Path{Latency: 200 * time.Microsecond, Jitter: time.Duration(seed) * 5 * time.Millisecond})
				c.form(30)
				t.Logf("one view of 30 after %v", time.Since(c.start))
			})
		})
	}
}
