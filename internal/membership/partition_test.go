package membership

import (
	"testing"
	"time"

	"github.com/peerage-go/peerage/gossip"
	"github.com/peerage-go/peerage/internal/transport"
)

// TestPartitionPolicies: five nodes are cut into two with the oldest and three without,
// for a minute. After the healing there is one cluster again.
func TestPartitionPolicies(t *testing.T) {
	for _, test := range []struct {
		policy       gossip.Policy
		few, many    bool // the part that continues
		afterHealing time.Duration
	}{
		{nil, false, true, healsWithin},
		{gossip.StaticQuorum{N: 4}, false, false, healsWithin},
		{gossip.KeepOldest{}, true, false, healsWithin},
		{gossip.AssumeCrash{After: 10 * time.Second}, true, true, healsWithin},
	} {
		name := gossip.Policy(gossip.KeepMajority{})
		if test.policy != nil {
			name = test.policy
		}
		t.Run(name.String(), func(t *testing.T) {
			inBubble(t, func(c *cluster) {
				ms := c.grown(5, test.policy)
				pass(2 * time.Second)
				c.net.Split(transport.Dropped, memAddrs(5)[:2], memAddrs(5)[2:])
				pass(time.Minute)
				for i, m := range ms {
					if lives := i < 2 && test.few || i >= 2 && test.many; m.LeaseValid() != lives {
						t.Errorf("%s holds a lease: %v\n%s", m.addr, m.LeaseValid(), c.describe())
					}
				}
				c.net.Heal()
				begin := time.Now()
				again := time.Now()
				for again.Sub(begin) < test.afterHealing && !agree(ms) {
					for i, m := range ms {
						select {
						case <-m.over:
							_ = m.Close()
							ms[i] = c.add(m.addr, Config{Join: memAddrs(5), Partition: test.policy})
						default:
						}
					}
					pass(100 * time.Millisecond)
					again = time.Now()
				}
				t.Logf("one cluster %v after the healing", again.Sub(begin))
				if !agree(ms) {
					t.Error(c.describe())
				}
			})
		})
	}
}

// grown starts nodes one after the other: the first is the oldest.
func (c *cluster) grown(n int, p gossip.Policy) []*member {
	c.t.Helper()
	var ms []*member
	for i := range n {
		ms = append(ms, c.add(memAddrs(n)[i], Config{Join: memAddrs(n), Partition: p, Bootstrap: i == 0}))
		c.settled(10*time.Second, ms...)
	}
	return ms
}
