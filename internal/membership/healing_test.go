package membership

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// healsWithin is the bound of the README for the time to heal after a partition.
const healsWithin = 5 * time.Second

// again starts the next incarnation of those that are over, as the root package does.
func (c *cluster) again(ms []*member, start func(addr string) *member) {
	for i, m := range ms {
		select {
		case <-m.over:
			_ = m.Close()
			ms[i] = start(m.addr)
		default:
		}
	}
}

// TestHealingUnderManySettings: after a partition there is one cluster again within 5 s,
// whatever the settings and however long the cut: also where memberlist alone would stay
// split (for longer than its GossipToTheDeadTime, or any time with quick probes), and
// where both sides continued.
func TestHealingUnderManySettings(t *testing.T) {
	with := func(change func(*Config)) Config { c := lanConfig(); change(&c); return c }
	profiles := map[string]Config{
		"LAN":          lanConfig(),
		"Local":        localConfig(),
		"quick probes": with(func(c *Config) { c.Discovery.ProbeInterval = 100 * time.Millisecond }),
		"slow leases":  with(func(c *Config) { c.Lease, c.RemoveAfter = 3*time.Second, 6*time.Second }),
		"quick leases": with(func(c *Config) {
			c.Ping, c.Lease, c.RemoveAfter = 30*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond
		}),
		"memberlist out": with(func(c *Config) { c.NoDiscovery = true }),
		"evidence off":   with(func(c *Config) { c.CrashEvidence = gossip.EvidenceOff }),
		"within quorum":  with(func(c *Config) { c.CrashEvidence = gossip.EvidenceWithinQuorum }),
	}
	for _, p := range []gossip.Policy{gossip.StaticQuorum{N: 3}, gossip.StaticQuorum{N: 4}, gossip.KeepOldest{}, gossip.AssumeCrash{After: 4 * time.Second}} {
		profiles[p.String()] = with(func(c *Config) { c.Partition = p })
	}
	cuts := []time.Duration{700 * time.Millisecond, 2500 * time.Millisecond, 5 * time.Second, 50 * time.Second, 3 * time.Minute}
	for _, name := range slices.Sorted(maps.Keys(profiles)) {
		for i, cut := range cuts {
			for _, how := range []transport.Cut{transport.Dropped, transport.Rejected} {
				if how == transport.Rejected && cut != 5*time.Second ||
					cut > time.Minute && !slices.Contains([]string{"LAN", "Local", "quick probes", "memberlist out"}, name) {
					continue
				}
				t.Run(fmt.Sprintf("%s, %v, %d", name, cut, how), func(t *testing.T) {
					inBubble(t, func(c *cluster) { heals(c, profiles[name], cut, how, 2+i%2) })
				})
			}
		}
	}
}

// heals cuts five nodes in two for a time.
func heals(c *cluster, cfg Config, cut time.Duration, how transport.Cut, first int) {
	addrs := memAddrs(5)
	cfg.Clock, cfg.Join = testConfig().Clock, addrs
	start := func(addr string) *member { return c.add(addr, cfg) }
	for _, a := range addrs {
		start(a)
	}
	ms := slices.Clone(c.nodes)
	c.settled(20*time.Second, ms...)
	pass(3 * time.Second)
	c.net.Split(how, addrs[:first], addrs[first:])
	for end := time.Now().Add(cut); time.Now().Before(end); {
		pass(min(100*time.Millisecond, time.Until(end)))
		c.again(ms, start)
	}
	c.net.Heal()
	took := c.until(healsWithin, "one cluster", func() bool {
		c.again(ms, start)
		return agree(ms)
	})
	c.t.Logf("one cluster %v after the healing", took)
}

// TestJoinsAndLeavesDuringAPartition (A38): five nodes are cut in two. New ones start on
// either side, a member of either side leaves, or the leader at the moment of the cut.
// The side that stops admits no node, lets none leave, and holds no lease; after the heal
// the living nodes are in one cluster within 5 s.
func TestJoinsAndLeavesDuringAPartition(t *testing.T) {
	for _, first := range []int{2, 3} {
		for _, goes := range [][]int{{0}, {1, 4}, {0, 3}, {4}} {
			for _, cut := range []time.Duration{700 * time.Millisecond, 2500 * time.Millisecond, 30 * time.Second} {
				t.Run(fmt.Sprintf("%d stand with the leader, %v leave, for %v", first, goes, cut), func(t *testing.T) {
					inBubble(t, func(c *cluster) { comeAndGo(c, first, goes, cut) })
				})
			}
		}
	}
}

func comeAndGo(c *cluster, first int, goes []int, cut time.Duration) {
	ms, addrs := c.grown(5, nil), memAddrs(7)
	start := func(addr string) *member { return c.add(addr, Config{Join: addrs}) }
	pass(2 * time.Second)
	one, two := append(slices.Clone(addrs[:first]), addrs[5]), append(slices.Clone(addrs[first:5]), addrs[6])
	minority := ms[:first]
	if first > 2 {
		minority = ms[first:]
	}
	minority = slices.Clone(minority)
	c.net.Split(transport.Dropped, one, two)
	left := make(chan error, len(goes))
	var stay []*member
	for i, m := range ms {
		if !slices.Contains(goes, i) {
			stay = append(stay, m)
			continue
		}
		go func() {
			err := m.Leave(context.Background())
			_ = m.Close()
			left <- err
		}()
	}
	for end := time.Now().Add(cut / 2); time.Now().Before(end); pass(10 * time.Millisecond) {
		c.again(stay, start)
	}
	stay = append(stay, start(addrs[5]), start(addrs[6]))
	for end := time.Now().Add(cut / 2); time.Now().Before(end); pass(10 * time.Millisecond) {
		c.again(stay, start)
	}
	for _, m := range minority {
		if cut > 2*time.Second && m.LeaseValid() {
			c.t.Errorf("%s holds a lease in the minority", m.addr)
		}
	}
	c.net.Heal()
	took := c.until(healsWithin, "one cluster", func() bool {
		c.again(stay, start)
		return agree(stay)
	})
	for range goes {
		if err := <-left; err != nil {
			c.t.Error(err)
		}
	}
	c.t.Logf("one cluster of %d %v after the healing", len(stay), took)
}

// TestFormerMembersFindTogether: two lineages, and no node's contact points resolve to
// the other side any longer. Former members are dialled nevertheless.
func TestFormerMembersFindTogether(t *testing.T) {
	for _, name := range []string{"with memberlist", "without"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				addrs := memAddrs(5)
				var formed atomic.Bool
				for i, a := range addrs {
					cfg := testConfig()
					own := addrs[:2]
					if i >= 2 {
						own = addrs[2:]
					}
					cfg.NoDiscovery = name == "without"
					cfg.JoinFunc = func(context.Context) ([]string, error) {
						if formed.Load() {
							return own, nil
						}
						return addrs, nil
					}
					cfg.BootstrapExpect = 5
					c.add(a, cfg)
				}
				ms := c.nodes
				c.settled(10*time.Second, ms...)
				formed.Store(true)
				pass(30 * time.Second) // the names are looked up every 10 s
				c.net.Split(transport.Forged, addrs[:2], addrs[2:])
				c.settled(10*time.Second, ms[2:]...)
				c.settled(10*time.Second, ms[:2]...)
				pass(30 * time.Second)
				c.net.Heal()
				c.until(5*time.Second, "one lineage yields", func() bool {
					return ended(ms[0]) && ended(ms[1]) || ended(ms[2]) && ended(ms[3]) && ended(ms[4])
				})
			})
		})
	}
}

func ended(m *member) bool {
	select {
	case <-m.over:
		return true
	default:
		return false
	}
}
